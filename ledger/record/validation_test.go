package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// These constants are valid records, one of each kind. Each test case changes one of them.
const (
	goodIPC = `{"run_id":"r","payload":{"seed":1},"system_prompt":"s","output":"o","model":"m","temperature":0.5,"max_tokens":10}`
	goodDAG = `{"inputs":{"question_hash":"` + zeros + `","context_root":"` + zeros + `","conversation_hash":"` + zeros +
		`","answer_text":"a","audit_mode":"STRICT","verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[]}}`
	goodSet  = `{"subject":"s","citations":[{"source_id":"x","text":"t","weight":0.5}]}`
	goodPath = `{"project":"p","route":["a","b"],"content":"c"}`
)

func TestBadInputIsReported(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for _, c := range []struct {
		kind      Kind
		good      string
		from, to  string // the part of good to change, and its replacement
		malformed bool
		pointer   string
	}{
		{KindIPCRecord, goodIPC, `"model"`, `"modle"`, true, "/modle"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","output":"p"`, true, ""},
		{KindIPCRecord, goodIPC, `{"seed":1}`, `{"a":1,"\u0061":2}`, true, "/payload"},
		{KindIPCRecord, goodIPC, `0.5`, `NaN`, true, ""},
		{KindIPCRecord, goodIPC, `0.5`, `1e999`, true, "/temperature"},
		{KindIPCRecord, goodIPC, `"o"`, "\"\xff\"", true, ""},
		{KindIPCRecord, goodIPC, `{"seed":1}`, `{"d":` + strings.Repeat("[", 511) + strings.Repeat("]", 511) + `}`, true, "/payload/d" + strings.Repeat("/0", 507)},
		{KindIPCRecord, goodIPC, `"r"`, `"r","` + long + `":1`, true, ""},
		{KindIPCRecord, goodIPC, `"model":"m",`, ``, false, "/model"},
		{KindIPCRecord, goodIPC, `"m"`, `null`, false, "/model"},
		{KindIPCRecord, goodIPC, `"m"`, `7`, false, "/model"},
		{KindIPCRecord, goodIPC, `"m"`, `"` + long + `"`, false, "/model"},
		{KindIPCRecord, goodIPC, `"r"`, `"` + long + `"`, false, "/run_id"},
		{KindIPCRecord, goodIPC, `"r"`, `""`, false, "/run_id"},
		{KindIPCRecord, goodIPC, `"o"`, `"\ud800"`, false, "/output"},
		{KindIPCRecord, goodIPC, `{"seed":1}`, `{"seed":1,"a":["\udfff"]}`, false, "/payload/a/0"},
		{KindIPCRecord, goodIPC, `{"seed":1}`, `{"seed":1,"a/b":{"\udfff":1}}`, false, "/payload/a~1b"},
		{KindIPCRecord, goodIPC, `{"seed":1}`, `[1]`, false, "/payload"},
		{KindIPCRecord, goodIPC, `"payload":{"seed":1},`, ``, false, "/payload"},
		{KindIPCRecord, goodIPC, `{"seed":1}`, `{"seed":1.5}`, false, "/payload/seed"},
		{KindIPCRecord, goodIPC, `:10`, `:10.0`, false, "/max_tokens"},
		{KindIPCRecord, goodIPC, `:10`, `:true`, false, "/max_tokens"},
		{KindIPCRecord, goodIPC, `:10`, `:-1`, false, "/max_tokens"},
		{KindIPCRecord, goodIPC, `:10`, `:10,"seed":false`, false, "/seed"},
		{KindIPCRecord, goodIPC, `0.5`, `"0.5"`, false, "/temperature"},
		{KindIPCRecord, goodIPC, `0.5`, `1` + strings.Repeat("0", 400), false, "/temperature"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","output_hash":"` + strings.ToUpper(strings.Repeat("a", 64)) + `"`, false, "/output_hash"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","ipc_id":"abc"`, false, "/ipc_id"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","payload_schema":"axis-payload-2"`, false, "/payload_schema"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","payload_schema":""`, false, "/payload_schema"},
		{KindIPCRecord, goodIPC, `"payload":{"seed":1}`, `"input_hash":"` + zeros + `","payload_schema":"x"`, false, "/payload_schema"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","payload_schema":"axis-payload-1"`, false, "/payload/axes"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","timestamp":"yesterday"`, false, "/timestamp"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","timestamp":""`, false, "/timestamp"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","labels":{"a":1}`, false, "/labels/a"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","labels":{"":"x"}`, false, "/labels/"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","labels":{"a":"` + strings.Repeat("x", DefaultLimits().MaxLabelBytes+1) + `"}`, false, "/labels/a"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","environment":{"gpu":"x"}`, true, "/environment/gpu"},
		{KindIPCRecord, goodIPC, `"o"`, `"o","usage":{"a":"\ud800"}`, false, "/usage/a"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"reject_inputs":{},"inputs"`, false, "/reject_inputs"},
		{KindRunDAG, goodDAG, `"answer_text":"a",`, ``, false, "/inputs/answer_text"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"answer_text":"b","inputs"`, false, "/answer_text"},
		{KindRunDAG, goodDAG, `"sources":[]`, `"sources":[1]`, false, "/inputs/sources/0"},
		{KindRunDAG, goodDAG, `"n_quotes":1`, `"n_quotes":-1`, false, "/inputs/n_quotes"},
		{KindRunDAG, goodDAG, `"n_quotes":1`, `"n_quotes":1.0`, false, "/inputs/n_quotes"},
		{KindRunDAG, goodDAG, `"sources":[]`, `"sources":[],"surprise":1`, true, "/inputs/surprise"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"dag":{"root":"` + zeros + `","nodes":[]},"inputs"`, false, "/dag/nodes"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"dag":{"nodes":[{"stage":"x","hash":"` + zeros + `"}]},"inputs"`, false, "/dag/root"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"dag":{"root":"` + zeros + `","nodes":[{"stage":"x","hash":"1"}]},"inputs"`, false, "/dag/nodes/0/hash"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"dag":{"root":"` + zeros + `","nodes":[{"stage":"\ud800","hash":"` + zeros + `"}]},"inputs"`, false, "/dag/nodes/0/stage"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"question_mode":"loose","inputs"`, false, "/question_mode"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"source_roots":[],"inputs"`, false, "/source_roots"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"source_roots":["x"],"inputs"`, false, "/source_roots/0"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"evidence":[{"chunk_root":"` + zeros + `","start":-1,"end":2}],"inputs"`, false, "/evidence/0/start"},
		{KindRunDAG, goodDAG, `{"inputs"`, `{"cache_dimensions":{"source_root":"` + zeros + `"},"inputs"`, false, "/cache_dimensions/question_hash"},
		{KindRunDAG, goodDAG, `"n_quotes"`, `"preflight_payload":[],"n_quotes"`, false, "/inputs/preflight_payload"},
		{KindRunDAG, `{"run_id":"x"}`, `x`, `y`, false, "/dag"},
		{KindCitationSet, goodSet, `0.5`, `1.01`, false, "/citations/0/weight"},
		{KindCitationSet, goodSet, `0.5`, `"0.5"`, false, "/citations/0/weight"},
		{KindCitationSet, goodSet, `"text":"t",`, ``, false, "/citations/0/chunk_hash"},
		{KindCitationSet, goodSet, `"text":"t"`, `"chunk_hash":"` + zeros + `"`, false, "/citations/0/chunk_hash"},
		{KindCitationSet, goodSet, `"t"`, `"\udc00"`, false, "/citations/0/text"},
		{KindCitationSet, goodSet, `"subject":"s",`, ``, false, "/subject"},
		{KindCitationSet, goodSet, `[{`, `[null,{`, false, "/citations/0"},
		{KindPathFingerprint, goodPath, `["a","b"]`, `"a"`, false, "/route"},
		{KindPathFingerprint, goodPath, `["a","b"]`, `["a",1]`, false, "/route/1"},
		{KindPathFingerprint, goodPath, `["a","b"]`, `["a","` + long + `"]`, false, "/route/1"},
		{KindPathFingerprint, goodPath, `"c"`, `"c","path_id":"123"`, false, "/path_id"},
		{KindPathFingerprint, goodPath, `"c"`, `"c","hash_version":"adr-005"`, false, "/content_fingerprint"},
		{KindPathFingerprint, goodPath, `"c"`, `"c","hash_version":"adr-005","content_fingerprint":"0123456"`, false, "/content_fingerprint"},
		{KindPathFingerprint, goodPath, `"c"`, `"c","hash_version":"adr-004","content_fingerprint":"0123456789abcdef"`, false, "/content_fingerprint"},
		{KindPathFingerprint, goodPath, `"c"`, `"c","hash_version":""`, false, "/hash_version"},
		{KindPathFingerprint, goodPath, `"c"`, `"c","hash_version":4`, false, "/hash_version"},
		{KindPathFingerprint, goodPath, `"c"`, `"c","content_fingerprint":"0123456g"`, false, "/content_fingerprint"},
		{"poem", goodPath, `"c"`, `"d"`, false, "/kind"},
		{KindIPCRecord, `[]`, `[]`, `[1]`, false, ""},
		{KindIPCRecord, goodIPC, `{"run_id"`, `{ {"run_id"`, true, ""},
	} {
		body := strings.Replace(c.good, c.from, c.to, 1)
		require.NotEqual(t, c.good, body, "the test case changes nothing: %s", c.from)
		_, err := Parse(c.kind, []byte(body))
		var problem *strict.Error
		require.ErrorAs(t, err, &problem, "%s", body)
		require.Equal(t, c.malformed, problem.Malformed, "%s: %v", body, err)
		require.Equal(t, c.pointer, problem.Problems[0].Pointer, "%s: %v", body, err)
		require.NotEmpty(t, problem.Problems[0].Detail)
	}
}

func TestLimitsAreSettable(t *testing.T) {
	body := []byte(strings.Replace(goodIPC, `"o"`, `"o","labels":{"a":"1","b":"22"}`, 1))
	for limits, ok := range map[Limits]bool{
		{MaxLabels: 2, MaxLabelBytes: 2, MaxJSONValues: 99}: true, {MaxLabels: 1, MaxLabelBytes: 2, MaxJSONValues: 99}: false, {MaxLabels: 2, MaxLabelBytes: 1, MaxJSONValues: 99}: false, {MaxLabels: 2, MaxLabelBytes: 2, MaxJSONValues: 9}: false, WidestLimits(): true,
	} {
		_, err := limits.ParseRecord(KindIPCRecord, body)
		require.Equal(t, ok, err == nil, "%v: %v", limits, err)
	}
	_, err := Limits{MaxJSONValues: 9}.ParseBatchLine([]byte(`{"kind":"ipc_record","record":` + goodIPC + `}`))
	require.ErrorContains(t, err, "more than 9 values and member names")
}

func TestGoodRecordsAreAccepted(t *testing.T) {
	for kind, body := range map[Kind]string{KindIPCRecord: goodIPC, KindRunDAG: goodDAG, KindCitationSet: goodSet, KindPathFingerprint: goodPath} {
		parse(t, kind, []byte(body))
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, err := Parse(KindCitationSet, []byte(`{"subject":"s","citations":[`+strings.Repeat("1,", 500)+`1]}`))
	var problem *strict.Error
	require.True(t, errors.As(err, &problem))
	require.Len(t, problem.Problems, strict.MaxProblems)
}

func TestEventBodyIsCanonical(t *testing.T) {
	full := `{"labels":{"z":"1","a":"2"},"timestamp":"2025-10-31T15:45:34-04:00","usage":{"b":1.50,"a":[]},` +
		`"environment":{"model_digest":"d","ollama_build_hash":"b","host_platform":"p"},"ipc_id":"` + zeros + `",` + goodIPC[1:]
	key := Hash{7}
	for _, c := range []struct {
		kind Kind
		body string
	}{
		{KindIPCRecord, goodIPC}, {KindIPCRecord, full}, {KindRunDAG, goodDAG}, {KindCitationSet, goodSet}, {KindPathFingerprint, goodPath},
		{KindRunDAG, strings.Replace(goodDAG, `"STRICT"`, `"\ud800"`, 1)},
	} {
		r := parse(t, c.kind, []byte(c.body))
		event := EventContext{Actor: "a\u2028\"", Ledger: "default", IdempotencyKeyDigest: &key}
		for _, body := range [][]byte{
			r.AppendBodyPrefix(nil, event),
			r.AppendRefusal(nil, event, RefusalKeyConflict, 7),
			AppendLedgerCreated(nil, event, "origin", "key", nil),
		} {
			body = AppendBodySuffix(body, 1<<63, time.Unix(0, 0))
			var d pyjson.Document
			require.NoError(t, d.Parse(body), "%s", body)
			require.Equal(t, string(d.Root().AppendCanonical(nil, pyjson.CompactForm)), string(body))
			_, surrogate := d.Root().FindLoneSurrogate()
			require.False(t, surrogate, "%s", body)
		}
	}
}

func TestLargeSetIsRefused(t *testing.T) {
	citation := `{"source_id":"x","text":"t","weight":0.5},`
	set := func(n int) []byte {
		return []byte(`{"subject":"s","citations":[` + strings.Repeat(citation, n-1) + citation[:len(citation)-1] + `]}`)
	}
	r := parse(t, KindCitationSet, set(500))
	err := CheckEntrySize(r.AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"}))
	require.ErrorContains(t, err, "split")
	require.NoError(t, CheckEntrySize(r.AppendRefusal(nil, EventContext{Actor: "a", Ledger: "l"}, RefusalMismatch, 0)))
}

// A list that is too long for the event to fit in an entry is refused before its elements are
// decoded. The longest list that fits is accepted.
func TestListsThatFitNoEvent(t *testing.T) {
	zero := strings.Repeat("0", 64)
	list := func(element string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	for name, c := range map[string]struct {
		kind          Kind
		body, element string
		bytes         int // length in bytes of an element in the event
	}{
		"citations": {KindCitationSet, `{"subject":"s","citations":%s}`, `{"chunk_hash":"sha256:` + zero + `","source_id":"","weight":0}`, 130},
		"nodes":     {KindRunDAG, `{"dag":{"root":"` + zero + `","nodes":%s}}`, `{"stage":"","hash":"` + zero + `"}`, 87},
		"route":     {KindPathFingerprint, `{"project":"p","route":%s}`, `""`, 3},
	} {
		most := fields.MaxEntryBytes / c.bytes
		_, err := Parse(c.kind, fmt.Appendf(nil, c.body, list(c.element, most+1)))
		require.ErrorContains(t, err, "split", name)
		_, err = Parse(c.kind, fmt.Appendf(nil, c.body, list(c.element, most)))
		require.NoError(t, err, name)
	}
}

// The event of even the largest refusal fits in an entry.
func TestRefusalsFit(t *testing.T) {
	var nodes []string
	for i := range 200 {
		nodes = append(nodes, fmt.Sprintf(`{"stage":"%s%03d","hash":"%s"}`, strings.Repeat(`\u0001`, maxStage-3), i, zeros))
	}
	dag := `"dag":{"root":"` + zeros + `","nodes":[` + strings.Join(nodes, ",") + `]},`
	r := parse(t, KindRunDAG, []byte(`{"run_id":"`+strings.Repeat(`\u0001`, maxName)+`",`+dag+goodDAG[1:]))
	require.Greater(t, len(r.Mismatches()), 200)
	key := Hash{1}
	require.NoError(t, CheckEntrySize(r.AppendRefusal(nil, EventContext{Actor: strings.Repeat("\x01", 128), Ledger: "l", IdempotencyKeyDigest: &key}, RefusalKeyConflict, 1)))
}

func TestIncompleteChainIsNoRun(t *testing.T) {
	for _, c := range []struct{ from, to, missing string }{
		{`"output":"o",`, ``, "output_hash"},
		{`"system_prompt":"s",`, ``, "system_prompt_hash"},
	} {
		body := strings.Replace(goodIPC, c.from, c.to, 1)
		r := parse(t, KindIPCRecord, []byte(`{"ipc_id":"`+zeros+`",`+body[1:]))
		require.Contains(t, string(r.HashesJSON()), `"ipc_id":null`)
		require.Contains(t, string(r.HashesJSON()), `"`+c.missing+`":null`)
		require.Contains(t, string(r.ChecksJSON()), `"ipc_id":{"claimed":"`+zeros+`","result":"claimed"}`)
	}
}

// If the seed or the environment is missing, the claimed hash that depends on it becomes the
// effective hash.
func TestClaimsOfACompleteChainStand(t *testing.T) {
	body := strings.Replace(goodIPC, `{"seed":1}`, `{}`, 1)
	r := parse(t, KindIPCRecord, []byte(`{"ipc_id":"`+zeros+`","ipc_id_advanced":"`+zeros+`",`+body[1:]))
	require.Equal(t, zeros, r.EffectiveHash("ipc_id"))
	require.Equal(t, zeros, r.EffectiveHash("ipc_id_advanced"))
	require.Contains(t, string(r.ChecksJSON()), `"ipc_id":{"result":"claimed"}`)
}

// The check of each stage has a unique name, even if several stages have the same name.
func TestRepeatedStages(t *testing.T) {
	stages := []string{"answer", "answer", "answer#2", "answer", "answer#3", "answer#2"}
	var nodes []string
	for i, stage := range stages {
		nodes = append(nodes, `{"stage":"`+stage+`","hash":"`+strings.Repeat(strconv.Itoa(i), 64)+`"}`)
	}
	r := parse(t, KindRunDAG, []byte(`{"dag":{"root":"`+zeros+`","nodes":[`+strings.Join(nodes, ",")+`]}}`))
	seen := make(map[string]bool)
	for _, c := range r.Checks {
		require.False(t, seen[c.Field], c.Field)
		seen[c.Field] = true
		if c.Field != "root" {
			require.Equal(t, ResultClaimed, c.Result)
		}
	}
	var d pyjson.Document
	require.NoError(t, d.Parse(AppendBodySuffix(r.AppendBodyPrefix(nil, EventContext{}), 1, time.Unix(0, 0))))
}

// The answer of a rejected run may also be given outside reject_inputs.
func TestAnswerOfARejectedRun(t *testing.T) {
	const arguments = `"question_hash":"` + zeros + `","preflight_hash":"` + zeros + `","rejection_reason":"r"`
	within := parse(t, KindRunDAG, []byte(`{"reject_inputs":{`+arguments+`,"answer_text":"Sorry."}}`))
	beside := parse(t, KindRunDAG, []byte(`{"reject_inputs":{`+arguments+`},"answer_text":"Sorry."}`))
	require.Equal(t, within.EffectiveHash("root"), beside.EffectiveHash("root"))
	_, err := Parse(KindRunDAG, []byte(`{"reject_inputs":{`+arguments+`,"answer_text":"No."},"answer_text":"Sorry."}`))
	require.ErrorContains(t, err, "/answer_text")
}

func TestGivenIsNotNull(t *testing.T) {
	require.Equal(t,
		string(parse(t, KindIPCRecord, []byte(goodIPC)).HashesJSON()),
		string(parse(t, KindIPCRecord, []byte(strings.Replace(goodIPC, `"r"`, `"r","seed":null,"labels":null,"ipc_id":null`, 1))).HashesJSON()))
	empty := parse(t, KindIPCRecord, []byte(strings.Replace(goodIPC, `"o"`, `""`, 1)))
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", empty.EffectiveHash("output_hash"))
}

func TestAxisPayload(t *testing.T) {
	const plain = `{"axes": {"age": {"label": "old", "score": 1.0}}, "policy_hash": "p", "seed": 42, "world_id": "w"}`
	const loose = `{"world_id":"w","extra":1,"seed":42.0,"policy_hash":"p","axes":{"age":{"score":1,"label":" old\u001c","x":2}}}`
	post := func(payload, schema string) *Record {
		return parse(t, KindIPCRecord, []byte(strings.Replace(goodIPC, `{"seed":1}`, payload+schema, 1)))
	}
	want := post(plain, "")
	got := post(loose, `,"payload_schema":"axis-payload-1"`)
	require.Equal(t, want.EffectiveHash("input_hash"), got.EffectiveHash("input_hash"))
	require.Equal(t, want.EffectiveHash("ipc_id"), got.EffectiveHash("ipc_id"))
	require.NotEqual(t, want.EffectiveHash("input_hash"), post(strings.Replace(loose, "42.0", "42", 1), "").EffectiveHash("input_hash"))
}
