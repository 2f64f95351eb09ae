package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
)

// everyKind returns a valid log that contains events of every kind and, in these events, every
// member that an event can have. names[seq] is a name for the event at seq.
func everyKind(t testing.TB) (m *memory, names []string) {
	t.Helper()
	m = newMemory(t, 1)
	names = []string{"ledger_created"}
	e := record.EventContext{Actor: "lab", Ledger: "default"}
	named := func(name string) { names = append(names, name) }
	post := func(name string, kind record.Kind, text string) {
		t.Helper()
		r, err := ledgerLimits.ParseRecord(kind, []byte(text))
		require.NoError(t, err, name)
		e := e
		if r.RunID != "" {
			key := record.RunIdempotencyKeyDigest(kind, r.RunID)
			e.IdempotencyKeyDigest = &key
		}
		for _, c := range r.Contents {
			m.contents[c.Digest] = slices.Clone(c.Bytes)
			m.needs[c.Digest] = append(m.needs[c.Digest], uint64(len(m.entries)))
		}
		m.add(r.AppendBodyPrefix(nil, e))
		named(name)
	}
	action := func(name string, v *record.Action, err error) {
		t.Helper()
		require.NoError(t, err)
		key := proofs.Hash(sha256.Sum256([]byte(name)))
		e := e
		e.IdempotencyKeyDigest = &key
		m.add(v.AppendBodyPrefix(nil, e))
		named(name)
	}
	hash := func(b byte) string { return strings.Repeat(string(b), 64) }
	all := func(run string) string {
		return fmt.Sprintf(`"run_id":%q,"labels":{"step":"one"},"producer":{"id":"p","seq":7},"timestamp":"2026-01-02T03:04:05Z"`, run)
	}
	post("ipc", record.KindIPCRecord, `{`+all("ipc")+`,"payload":{"q":"Who?","seed":42},"system_prompt":"Be brief.","output":"Ana.","output_hash":"`+hash('a')+`","ipc_id":"`+hash('b')+
		`","model":"m","temperature":0.5,"max_tokens":16,"environment":{"ollama_build_hash":"b","model_digest":"d","host_platform":"p"},"usage":{"tokens":5}}`)
	post("ipc of an axis payload", record.KindIPCRecord, `{"payload":{"axes":{"x":{"label":"l","score":1}},"policy_hash":"p","seed":7,"world_id":"w"},"payload_schema":"axis-payload-1","output":"Ana.","model":"m","temperature":0.5,"max_tokens":16,"usage":{"note":"long"}}`)
	post("ipc of claims", record.KindIPCRecord, `{"input_hash":"`+hash('a')+`","system_prompt_hash":"`+hash('b')+`","output_hash":"`+hash('c')+`","ipc_id_advanced":"`+hash('d')+`","model":"m","temperature":1,"max_tokens":16,"seed":42}`)
	post("ipc without seed", record.KindIPCRecord, `{"input_hash":"`+hash('a')+`","system_prompt_hash":"`+hash('b')+`","output_hash":"`+hash('c')+`","ipc_id":"`+hash('d')+`","model":"m","temperature":1,"max_tokens":16}`)
	post("ipc incomplete", record.KindIPCRecord, `{"payload":{"q":"Who?","seed":42},"ipc_id":"`+hash('d')+`","model":"m","temperature":0.5,"max_tokens":16}`)
	dimensions := `"cache_dimensions":{"source_root":"` + hash('1') + `","question_hash":"` + hash('2') + `","model_profile_hash":"` + hash('3') + `","conversation_hash":"` + hash('4') + `","governance_policy_hash":"` + hash('5') +
		`","schema_version":"1","canonicalization_version":"2","chunking_version":"3","verifier_policy_hash":"` + hash('6') + `"}`
	post("run", record.KindRunDAG, `{`+all("run")+`,"evidence":[{"chunk_root":"`+hash('7')+`","start":0,"end":1}],"question":"Who keeps the light?","question_mode":"strict","messages":[{"role":"user"}],"policy":{"p":1},"verifier_policy":{"v":1},"source_roots":["`+hash('7')+`"],"dag":{"root":"`+hash('8')+
		`","nodes":[{"stage":"question","hash":"`+hash('9')+`"},{"stage":"else","hash":"`+hash('9')+`"}]},"inputs":{"answer_text":"Ana.","audit_mode":"HYBRID","verifier_method":"v","lookup_path":"l","answer_mode":"a","n_quotes":1,"n_verified":1,"sources":[{"score":1,"document_root":"`+hash('7')+`"}],"preflight_hash":"`+hash('a')+`"},`+
		dimensions+`,"cache_key":"`+hash('b')+`"}`)
	post("run of a pointer", record.KindRunDAG, `{"inputs":{"question_hash":"`+hash('1')+`","conversation_hash":"`+hash('2')+`","evidence_map_root":"`+hash('3')+`","answer_text":"Ana.","audit_mode":"STRICT","verifier_method":"v","n_quotes":0,"n_verified":0,"sources":[]}}`)
	post("run as built", record.KindRunDAG, `{"question":"Who?","dag":{"root":"`+hash('8')+`","nodes":[{"stage":"question","hash":"`+hash('9')+`"},{"stage":"else","hash":"`+hash('a')+`"}]},"cache_key":"`+hash('b')+`"}`)
	post("run rejected", record.KindRunDAG, `{"reject_inputs":{"question_hash":"`+hash('1')+`","preflight_payload":{"stage":"preflight"},"rejection_reason":"r","answer_text":"No."}}`)
	post("run of another generation", record.KindRunDAG, `{"reject_inputs":{"question_hash":"`+hash('1')+`","preflight_payload":{"node_version":"preflight-node-v0"},"rejection_reason":"r"}}`)
	post("set", record.KindCitationSet, `{`+all("set")+`,"subject":"s","citations":[{"source_id":"x","text":"Ana.","weight":1,"section":"c"},{"source_id":"y","chunk_hash":"sha256:`+hash('a')+`","weight":0.5}]}`)
	path := uint64(len(m.entries))
	post("path", record.KindPathFingerprint, `{`+all("path")+`,"project":"p","build":"1","branch":"main","base":"0","route":["Start","End"],"content":"The [[quay]].","content_fingerprint":"00000000"}`)
	post("path of another version", record.KindPathFingerprint, `{"project":"p","route":["Start"],"hash_version":"adr-005","content":"The quay.","content_fingerprint":"0123456789abcdef"}`)
	post("path of claims", record.KindPathFingerprint, `{"project":"p","route":["Start"],"path_id":"0123456789abcdef","raw_content_fingerprint":"00000000"}`)
	v, err := record.ParseStateChange(1, []byte(`{"state":"stale","reason":"r","original_actor":"ana","timestamp":"2026-01-02T03:04:05Z"}`))
	action("state", v, err)
	hashes := bodyOf(t, m.entries[path]).Member("record").Member("hashes")
	validation, err := record.ParseValidationRequest([]byte(`{"validated":true,"reason":"r","build":"1","original_actor":"ana","timestamp":"2026-01-02T03:04:05Z"}`))
	require.NoError(t, err)
	action("validation", validation.ActionFor(record.LatestPathRecord{Project: "p", PathID: string(hashes.Member("path_id").Text()),
		ContentFingerprint: string(hashes.Member("content_fingerprint").Text()), RecordSeq: path}), nil)
	v, err = record.ParseNote(2, []byte(`{"topic":"review","text":"t","original_actor":"ana","timestamp":"2026-01-02T03:04:05Z"}`))
	action("note", v, err)
	v, err = record.ParseSourceRegistration("x", []byte(`{"chunk_hashes":["sha256:`+hash('a')+`","sha256:`+hash('b')+`"],"title":"t","reason":"r"}`))
	action("registration", v, err)
	v, err = record.ParseSourceRevocation("x", []byte(`{"reason":"r"}`))
	action("revocation", v, err)
	list := new(seqs.List)
	for _, seq := range []uint64{1, 2, 5} {
		list.Append(seq)
	}
	action("redaction", record.NewRedaction("r", list), nil)
	refused, err := ledgerLimits.ParseRecord(record.KindIPCRecord, []byte(`{"run_id":"ipc","input_hash":"`+hash('a')+`","output":"Ana.","output_hash":"`+hash('a')+`","model":"m","temperature":1,"max_tokens":16}`))
	require.NoError(t, err)
	m.add(refused.AppendRefusal(nil, e, record.RefusalMismatch, 0))
	named("refusal of a mismatch")
	key := record.RunIdempotencyKeyDigest(record.KindIPCRecord, "ipc")
	m.add(refused.AppendRefusal(nil, record.EventContext{Actor: "lab", Ledger: "default", IdempotencyKeyDigest: &key}, record.RefusalKeyConflict, 1))
	named("refusal for a key")
	first, second := m.signer, testSigner(t, testOrigin, 2)
	m.changeKey(t, proofs.KeyStepIntroduced, first, second)
	named("rotation")
	m.changeKey(t, proofs.KeyStepRetired, first, second)
	named("retirement")
	m.signer = second
	post("last", record.KindIPCRecord, `{"input_hash":"`+hash('a')+`","model":"m","temperature":1,"max_tokens":16}`)
	m.head.Size = uint64(len(m.entries))
	m.seal(t)
	return m, names
}

// bodyOf parses the event body in an entry.
func bodyOf(t testing.TB, entry []byte) pyjson.Value {
	t.Helper()
	var d pyjson.Document
	require.NoError(t, d.Parse(entry[proofs.HashSize:]))
	return d.Root()
}

// alteration is one way to alter a JSON value. alter returns false if it does not apply to the
// given value.
type alteration struct {
	name  string
	alter func(any) (any, bool)
}

// dropped makes replacedAt remove the old value instead of replacing it.
type dropped struct{}

// alterations lists every way to alter a value. Values are represented as in encoding/json, with
// numbers as json.Number.
var alterations = []alteration{
	{"left out", func(any) (any, bool) { return dropped{}, true }},
	{"null", func(v any) (any, bool) { return nil, v != nil }},
	{"another", func(v any) (any, bool) {
		switch v := v.(type) {
		case nil:
			return strings.Repeat("0", 64), true
		case string:
			return otherText(v), true
		case json.Number:
			return otherNumber(v), true
		case bool:
			return !v, true
		case map[string]any:
			v = maps.Clone(v)
			v["unheard-of"] = "x"
			return v, true
		case []any:
			return append(slices.Clone(v), "x"), true
		}
		return nil, false
	}},
	{"the next word", func(v any) (any, bool) { return otherWord(v, 1) }},
	{"the last word", func(v any) (any, bool) { return otherWord(v, -1) }},
	{"empty", func(v any) (any, bool) {
		switch v := v.(type) {
		case string:
			return "", v != ""
		case json.Number:
			return json.Number("0"), v != "0"
		case map[string]any:
			return map[string]any{}, len(v) > 0
		case []any:
			return []any{}, len(v) > 0
		}
		return nil, false
	}},
	{"repeated", func(v any) (any, bool) {
		switch v := v.(type) {
		case string:
			return v + v, v != ""
		case []any:
			if len(v) == 0 {
				return nil, false
			}
			return append(slices.Clone(v), v[len(v)-1]), true
		}
		return nil, false
	}},
	{"reversed", func(v any) (any, bool) {
		list, ok := v.([]any)
		list = slices.Clone(list)
		slices.Reverse(list)
		return list, ok && len(list) > 1
	}},
	{"too long", func(v any) (any, bool) {
		switch v.(type) {
		case string:
			return strings.Repeat("0", 5000), true
		case json.Number:
			return json.Number("1" + strings.Repeat("0", 80)), true
		}
		return nil, false
	}},
	{"negative", func(v any) (any, bool) {
		n, ok := v.(json.Number)
		return "-" + n, ok && n != "0"
	}},
	{"with a control character", func(v any) (any, bool) {
		s, ok := v.(string)
		return s + "\x00", ok
	}},
	{"a string", func(v any) (any, bool) { _, ok := v.(string); return "7", !ok }},
	{"an integer", func(v any) (any, bool) {
		n, ok := v.(json.Number)
		return json.Number("7"), !ok || strings.Contains(string(n), ".")
	}},
	{"a number with a fraction", func(v any) (any, bool) {
		n, ok := v.(json.Number)
		return json.Number("7.5"), !ok || !strings.Contains(string(n), ".")
	}},
	{"a boolean", func(v any) (any, bool) { _, ok := v.(bool); return true, !ok }},
	{"an object", func(v any) (any, bool) { _, ok := v.(map[string]any); return map[string]any{}, !ok }},
	{"an array", func(v any) (any, bool) { _, ok := v.([]any); return []any{}, !ok }},
}

// otherText returns a different text of the same form, so that a hash remains a hash and a time
// remains a time.
func otherText(s string) string {
	if at := strings.LastIndexAny(s, "0123456789abcdef"); at >= 0 {
		digit := byte('1')
		if s[at] == '1' {
			digit = '2'
		}
		return s[:at] + string(digit) + s[at+1:]
	}
	return s + "x"
}

// words lists groups of values. An event member that allows one value of a group allows the others
// too.
var words = [][]string{
	{"match", "computed", "claimed", "mismatch"}, {"mismatch", "idempotency_key_conflict"}, {"strict", "equivalence_class"}, {"live", "failed", "stale", "quarantined"},
	{"quote", "pointer", "reject", "unrecognised"}, {"available", "unavailable_legacy_run"}, {"HYBRID", "STRICT"}, {"answer", "context", "retrieval"}, {"introduced", "retired"},
	{"ipc_record", "run_dag", "citation_set", "path_fingerprint", "record_state_changed", "path_validated", "source_registered", "source_revoked", "content_redacted", "record_refused", "key_rotated", "ledger_created", "note"},
}

// otherWord returns the word step positions after v in its group, wrapping around. It returns false
// if v is in none of the groups.
func otherWord(v any, step int) (any, bool) {
	for _, group := range words {
		if s, ok := v.(string); ok && slices.Contains(group, s) {
			return group[(slices.Index(group, s)+step+len(group))%len(group)], true
		}
	}
	return nil, false
}

func otherNumber(n json.Number) json.Number {
	if whole, fraction, found := strings.Cut(string(n), "."); found {
		return json.Number(whole + ".7" + fraction)
	}
	i, _ := strconv.ParseUint(string(n), 10, 64)
	return json.Number(strconv.FormatUint(i+1, 10))
}

// places adds v and all values within it to found, keyed by JSON pointer. v itself is at pointer.
func places(pointer string, v any, found map[string]any) {
	found[pointer] = v
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			places(pointer+"/"+strings.ReplaceAll(name, "/", "~1"), member, found)
		}
	case []any:
		for i, element := range v {
			places(pointer+"/"+strconv.Itoa(i), element, found)
		}
	}
}

// replacedAt returns a copy of v in which the value at the given JSON pointer has been replaced.
func replacedAt(v any, pointer string, replacement any) any {
	if pointer == "" {
		return replacement
	}
	name, rest, _ := strings.Cut(pointer[1:], "/")
	if rest != "" {
		rest = "/" + rest
	}
	name = strings.ReplaceAll(name, "~1", "/")
	switch v := v.(type) {
	case map[string]any:
		v = maps.Clone(v)
		v[name] = replacedAt(v[name], rest, replacement)
		if v[name] == (dropped{}) {
			delete(v, name)
		}
		return v
	case []any:
		i, _ := strconv.Atoi(name)
		v = slices.Clone(v)
		if v[i] = replacedAt(v[i], rest, replacement); v[i] == (dropped{}) {
			v = slices.Delete(v, i, i+1)
		}
		return v
	}
	panic("no place " + pointer)
}

// canonicalJSON returns a value in the canonical form that events use.
func canonicalJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	var d pyjson.Document
	require.NoError(t, d.Parse(text))
	return d.Root().AppendCanonical(nil, pyjson.CompactForm)
}

// redigest returns body with the digest of an action recomputed to match the altered event, as a
// dishonest server would do. It leaves the body unchanged if the digest itself was altered or the
// event is not an action.
func redigest(t testing.TB, body []byte, pointer string) []byte {
	t.Helper()
	var d pyjson.Document
	require.NoError(t, d.Parse(body))
	root := d.Root()
	but := []string{"digest", "idempotency_key"}
	switch kind := record.Kind(root.Member("kind").Text()); {
	case pointer == "/record/digest" || kind.IsRecord() || kind == record.KindRecordRefused || kind == record.KindLedgerCreated:
		return body
	case kind == record.KindPathValidated:
		but = append(but, "content_fingerprint", "record_seq")
	}
	digest := root.Member("record").Member("digest")
	if digest.Kind() != pyjson.String {
		return body
	}
	want := digestOf(root.Member("record"), but...)
	return bytes.Replace(body, digest.Raw(), fmt.Appendf(nil, `"%x"`, want), 1)
}

// altered returns a copy of the log in which the event at seq has the given body. The copy has a
// valid chain, tree, and signature.
func (m *memory) altered(t testing.TB, seq int, body []byte) *memory {
	t.Helper()
	c := m.clone()
	c.entries[seq] = slices.Concat(c.entries[seq][:proofs.HashSize], body)
	c.relink(seq)
	c.seal(t)
	return c
}

// rebuild checks an event at seq with the given body, as an audit with --content would. It returns
// the error that the audit would report, or nil if there is none.
func (m *memory) rebuild(t testing.TB, seq int, body []byte) error {
	t.Helper()
	root := bodyOf(t, slices.Concat(make([]byte, proofs.HashSize), body))
	for name, named := range root.Member("record").Member("content").Members() {
		digest, ok := parseDigest(named.Member("sha256").Text())
		require.True(t, ok, "%s", name.Text())
		if size, _ := count(named.Member("size")); uint64(len(m.contents[digest])) != size {
			return fmt.Errorf("content %q does not have the size in the event", name.Text())
		}
	}
	if created := new(event.Body); string(root.Member("kind").Text()) == string(record.KindLedgerCreated) {
		created.Decode(root)
		if _, err := ReadPayloadMemberSecret(created, func() ([]byte, error) { return m.secret, nil }); err != nil {
			return err
		}
	}
	d := new(Rebuilder)
	d.PayloadMemberSecret = testSecret
	if err := d.Check(uint64(seq), body, func(_ string, digest proofs.Hash) ([]byte, error) { return m.contents[digest], nil }); err != nil {
		return err
	}
	if record.Kind(root.Member("kind").Text()).IsRecord() && d.ConfirmedRecords+d.UnconfirmableRecords == 0 {
		t.Errorf("the rebuilt record does not have the digest in the event: %s", body)
	}
	return nil
}

// survivor describes alterations that the walk does not detect at the altered event. pattern
// matches their names, and why is the reason.
type survivor struct{ pattern, why string }

// onlyContentShows lists alterations that only an audit with --content detects. Such an audit
// recomputes the hashes from the content and checks the digest, which covers the whole record.
var onlyContentShows = []survivor{
	{`^[^/]+/record/content/.*(sha256|size): another$`, "the content is beside the log"},
	{`^ipc of an axis payload/record/content/usage: left out$`, "no hash in the event covers the usage"},
	{`^[^/]+/record/digest: another$`, "the digest covers values that the event leaves out"},
	{`^[^/]+/checks/[^/]+/claimed: another$`, "the claim was the writer's"},
	{`^ipc incomplete/checks/ipc_id: left out$`, "the claim was the writer's"},
	{`^run/checks/stage:else: left out$`, "the stages that were claimed are content"},
	{`^[^/]+/record/(labels|producer|run_id|timestamp|usage|subject|project|build|branch|base|model|max_tokens|temperature|seed|payload_schema)[/:]`, "no hash in the event covers it"},
	{`^[^/]+/record: with (labels|producer|timestamp|usage|environment|payload_schema|build|branch|base|seed|answer_mode|lookup_path)$`, "no hash in the event covers it"},
	{`^ipc[^/]*/record/content: with usage$`, "no hash in the event covers the usage"},
	{`^(ipc of an axis payload|last)/checks: with ipc_id$`, "the claim was the writer's"},
	{`^path of another version/record/(hash_version: |content: left out$)`, "no hash in the event covers the content"},
	{`^[^/]+/record/citations`, "no hash in the event covers it"},
	{`^ledger_created/record/member_secret_hash: another$`, "the secret is beside the log"},
	{`^ipc[^/]*/record(/payload_members|: with payload_members$)`, "only the secret shows it"},
	{`^[^/]+/record/hashes/`, "it is a claim or the hash of content"},
	{`^run.*/record/(answer_mode|audit_mode|lookup_path|verifier_method|n_quotes|n_sources|n_verified): `, "the stage that covers it is computed from content"},
	{`^(ipc|run|set|path)[^/]*/checks/[^/]+/result: the (next|last) word$`, "only the writer knows whether there was a claim"},
	{`^run[^/]*/record(/(document_roots|evidence_ids)|: with (document_roots|evidence_ids)$)`, "they are content"},
	{`^run[^/]*/record(/preflight_generation: |: with preflight_generation$)`, "the payload is content"},
	{`^run[^/]*/record/question_mode: the (next|last) word$`, "the question is content"},
}

// onlyReceiptShows lists alterations that nothing in the ledger reveals. Only the receipt of the
// event does.
var onlyReceiptShows = []survivor{
	{`/actor: (another|repeated)$`, "only the server saw the author of the request"},
	{`/time: another$`, "the clock was the server's"},
	{`^(ipc|run|set|path|state|validation|note|registration|revocation|redaction)/record/idempotency_key: another$`, "the ledger does not store keys that clients choose"},
	{`^(state|validation|note|registration|revocation|redaction)/record/idempotency_key: left out$`, "a verb can be requested with or without a key"},
	{`^(state|validation|note|registration|revocation|redaction)/record/(reason|state|title|validated|chunk_hashes|record_seq|seqs|topic|text|original_actor|timestamp)[/:]`, "only the event shows what a verb asks for"},
	{`^revocation/kind: the last word$`, "a registration can have the same record as a revocation"},
	{`^refusal [^/]+/record/(digest|run_id): `, "refused records are not kept"},
	{`^refusal [^/]+/checks/output_hash/(claimed|computed): another$`, "refused records are not kept"},
	{`^run/record/cache_dimensions/[a-z]+_version: null$`, "the event leaves out long texts: the report says NOT CHECKED"},
}

// laterEventShows lists alterations that the walk detects only at a later event, which contradicts
// them.
var laterEventShows = []survivor{
	{`^ledger_created/ledger: (another|repeated)$`, "the walk was given no name; the second event has another one"},
	{`^ledger_created/record/member_secret_hash: left out$`, "records have payload members"},
	{`^ipc/record/idempotency_key: another$`, "a refusal names the key"},
	{`^path/record/project: `, "a validation names the project"},
	{`^path/record/build: `, "a validation names the build"},
	{`^registration/record/source_id: `, "the revocation names another source"},
}

// matched reports whether the name of an alteration matches a pattern in list. If so, it adds the
// first such pattern to needed.
func matched(list []survivor, what string, needed map[string]bool) bool {
	for _, s := range list {
		if regexp.MustCompile(s.pattern).MatchString(what) {
			needed[s.pattern] = true
			return true
		}
	}
	return false
}

// TestEveryMemberIsChecked alters every member of every kind of event in every way and signs the
// log again with its own key. The auditor must report damage, unless one of the lists above names
// the alteration as undetectable.
func TestEveryMemberIsChecked(t *testing.T) {
	m, names := everyKind(t)
	require.Nil(t, newAuditor().walk(t, m).Damage)
	needed := make(map[string]bool)
	events := make([]map[string]any, len(m.entries)) // for each seq, the values in the event, keyed by JSON pointer
	try := func(seq int, pointer, how string, altered any) {
		entry := m.entries[seq]
		body := redigest(t, canonicalJSON(t, replacedAt(events[seq][""], pointer, altered)), pointer)
		if bytes.Equal(body, entry[proofs.HashSize:]) {
			return
		}
		what := fmt.Sprintf("%s%s: %s", names[seq], pointer, how)
		switch damage := newAuditor().walk(t, m.altered(t, seq, body)).Damage; {
		case damage != nil:
			if damage.Seq != uint64(seq) && !matched(laterEventShows, what, needed) {
				t.Errorf("%s: the damage is reported at another event: %v", what, damage)
			}
		case m.rebuild(t, seq, body) != nil:
			if !matched(onlyContentShows, what, needed) {
				t.Errorf("%s: only the content shows the change, but no list names it", what)
			}
		case !matched(onlyReceiptShows, what, needed):
			t.Errorf("%s: nothing shows the change, but no list names it", what)
		}
	}
	for seq, entry := range m.entries {
		require.NoError(t, m.rebuild(t, seq, entry[proofs.HashSize:]))
		var event any
		decoder := json.NewDecoder(bytes.NewReader(entry[proofs.HashSize:]))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&event))
		events[seq] = make(map[string]any)
		places("", event, events[seq])
	}
	for seq, event := range events {
		for pointer, value := range event {
			for _, a := range alterations {
				if altered, ok := a.alter(value); ok && pointer != "" {
					try(seq, pointer, a.name, altered)
				}
			}
			object, ok := value.(map[string]any)
			if !ok {
				continue
			}
			for _, other := range events { // add members that other events of this kind have at this position
				theirs, _ := other[pointer].(map[string]any)
				for name, value := range theirs {
					if _, has := object[name]; !has && other["/kind"] == event["/kind"] {
						added := maps.Clone(object)
						added[name] = value
						try(seq, pointer, "with "+name, added)
					}
				}
			}
		}
	}
	for _, s := range slices.Concat(onlyContentShows, onlyReceiptShows, laterEventShows) {
		require.True(t, needed[s.pattern], "no alteration needs the pattern %s: %s", s.pattern, s.why)
	}
}
