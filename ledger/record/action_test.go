package record

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// pathBuild is the build of the path that actionOn validates.
var pathBuild = "b2"

// actionOn parses the body of an action of the given kind. target is the source's ID or the path's
// project. For an action on a record, the length of target is the record's seq.
func actionOn(kind Kind, target, body string) (*Action, error) {
	switch kind {
	case KindRecordStateChanged:
		return ParseStateChange(uint64(len(target)), []byte(body))
	case KindPathValidated:
		request, err := ParseValidationRequest([]byte(body))
		if err != nil {
			return nil, err
		}
		return request.ActionFor(LatestPathRecord{Project: target, PathID: "0123abcd", Build: &pathBuild, ContentFingerprint: "89abcdef", RecordSeq: 7}), nil
	case KindNote:
		return ParseNote(uint64(len(target)), []byte(body))
	case KindSourceRegistered:
		return ParseSourceRegistration(target, []byte(body))
	default:
		return ParseSourceRevocation(target, []byte(body))
	}
}

func action(t *testing.T, kind Kind, target, body string) *Action {
	t.Helper()
	v, err := actionOn(kind, target, body)
	require.NoError(t, err)
	return v
}

var actionKinds = [...]Kind{KindRecordStateChanged, KindPathValidated, KindNote, KindSourceRegistered, KindSourceRevoked}

// goodActions contains a valid request body for each kind of action.
var goodActions = map[Kind]string{
	KindRecordStateChanged: `{"state":"stale","reason":"r"}`,
	KindPathValidated:      `{"validated":true}`,
	KindNote:               `{"topic":"review"}`,
	KindSourceRegistered:   `{"chunk_hashes":["sha256:` + zeros + `"],"title":"t"}`,
	KindSourceRevoked:      `{}`,
}

func TestVerbEvents(t *testing.T) {
	const hash = "sha256:" + zeros
	for _, c := range []struct {
		kind           Kind
		target, body   string
		asked, present string // asked is the JSON that the digest covers; present is the record in the event
	}{
		{KindRecordStateChanged, "1234", `{"state":"stale","reason":"the model was\n withdrawn"}`,
			`{"reason":"the model was\n withdrawn","record_seq":4,"state":"stale"}`,
			`{%s,"reason":"the model was\n withdrawn","record_seq":4,"state":"stale"}`},
		{KindPathValidated, "harrow/é", `{"validated":false,"reason":""}`,
			`{"path_id":"0123abcd","project":"harrow/é","reason":"","validated":false}`,
			`{"build":"b2","content_fingerprint":"89abcdef",%s,"path_id":"0123abcd","project":"harrow/é","reason":"","record_seq":7,"validated":false}`},
		{KindPathValidated, "p", `{"validated":true,"reason":null}`,
			`{"path_id":"0123abcd","project":"p","validated":true}`,
			`{"build":"b2","content_fingerprint":"89abcdef",%s,"path_id":"0123abcd","project":"p","record_seq":7,"validated":true}`},
		{KindPathValidated, "p", `{"validated":true,"build":"b1"}`,
			`{"build":"b1","path_id":"0123abcd","project":"p","validated":true}`,
			`{"build":"b1","content_fingerprint":"89abcdef",%s,"names":["build"],"path_id":"0123abcd","project":"p","record_seq":7,"validated":true}`},
		{KindPathValidated, "p", `{"validated":true,"build":"b2","content_fingerprint":"01234567"}`,
			`{"build":"b2","content_fingerprint":"01234567","path_id":"0123abcd","project":"p","validated":true}`,
			`{"build":"b2","content_fingerprint":"01234567",%s,"names":["build","content_fingerprint"],"path_id":"0123abcd","project":"p","record_seq":7,"validated":true}`},
		{KindRecordStateChanged, "1", `{"state":"failed","reason":"r","original_actor":"Ana Varga","timestamp":"2025-11-30T12:00:00.5+01:00"}`,
			`{"original_actor":"Ana Varga","reason":"r","record_seq":1,"state":"failed","timestamp":"2025-11-30T12:00:00.5+01:00"}`,
			`{%s,"original_actor":"Ana Varga","reason":"r","record_seq":1,"state":"failed","timestamp":"2025-11-30T12:00:00.5+01:00"}`},
		{KindPathValidated, "p", `{"validated":true,"original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"}`,
			`{"original_actor":"ana","path_id":"0123abcd","project":"p","timestamp":"2025-11-30T12:00:00Z","validated":true}`,
			`{"build":"b2","content_fingerprint":"89abcdef",%s,"original_actor":"ana","path_id":"0123abcd","project":"p","record_seq":7,"timestamp":"2025-11-30T12:00:00Z","validated":true}`},
		{KindNote, "12", `{"topic":"review","text":"Good\n enough.","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"}`,
			`{"original_actor":"ana","record_seq":2,"text":"Good\n enough.","timestamp":"2025-11-30T12:00:00Z","topic":"review"}`,
			`{%s,"original_actor":"ana","record_seq":2,"text":"Good\n enough.","timestamp":"2025-11-30T12:00:00Z","topic":"review"}`},
		{KindNote, "", `{"topic":"burn","text":null,"original_actor":null}`, `{"record_seq":0,"topic":"burn"}`, `{%s,"record_seq":0,"topic":"burn"}`},
		{KindSourceRegistered, "s#4", `{"title":"Harbour records","reason":"r","chunk_hashes":["` + hash + `"]}`,
			`{"chunk_hashes":["` + hash + `"],"reason":"r","source_id":"s#4","title":"Harbour records"}`,
			`{"chunk_hashes":["` + hash + `"],%s,"reason":"r","source_id":"s#4","title":"Harbour records"}`},
		{KindSourceRegistered, "s", `{"chunk_hashes":[]}`, `{"chunk_hashes":[],"source_id":"s"}`, `{"chunk_hashes":[],%s,"source_id":"s"}`},
		{KindSourceRegistered, "s", `{}`, `{"source_id":"s"}`, `{%s,"source_id":"s"}`},
		{KindSourceRevoked, "s", ``, `{"source_id":"s"}`, `{%s,"source_id":"s"}`},
		{KindSourceRevoked, "s", `{"reason":"r"}`, `{"reason":"r","source_id":"s"}`, `{%s,"reason":"r","source_id":"s"}`},
	} {
		v := action(t, c.kind, c.target, c.body)
		require.Equal(t, digestOf(c.asked), v.Digest, "%s", c.body)
		key := Hash{7}
		digest := fmt.Sprintf(`"digest":"%x"`, v.Digest)
		for want, e := range map[string]EventContext{
			digest: {Actor: "alice", Ledger: "l"},
			digest + fmt.Sprintf(`,"idempotency_key":"%x"`, key): {Actor: "alice", Ledger: "l", IdempotencyKeyDigest: &key},
		} {
			require.Equal(t, `{"actor":"alice","checks":{},"kind":"`+string(c.kind)+`","ledger":"l","record":`+fmt.Sprintf(c.present, want)+
				`,"rules":1,"seq":9,"time":"1970-01-01T00:00:00.000000Z","v":1}`,
				string(AppendBodySuffix(v.AppendBodyPrefix(nil, e), 9, time.Unix(0, 0))))
		}
		require.Equal(t, `{"actor":"alice","checks":{},"kind":"record_refused","ledger":"l","record":{`+digest+
			fmt.Sprintf(`,"first_seq":5,"idempotency_key":"%x","kind":"%s","mismatches":0,"reason":"idempotency_key_conflict"},"rules":1,`, key, c.kind),
			string(v.AppendRefusal(nil, EventContext{Actor: "alice", Ledger: "l", IdempotencyKeyDigest: &key}, 5)))
	}
}

func TestPathWithoutFingerprint(t *testing.T) {
	request, err := ParseValidationRequest([]byte(`{"validated":true}`))
	require.NoError(t, err)
	v := request.ActionFor(LatestPathRecord{Project: "p", PathID: "0123abcd", RecordSeq: 7})
	require.Contains(t, string(v.AppendBodyPrefix(nil, EventContext{})), `"content_fingerprint":null,`)
}

// Two requests of one kind have the same digest if and only if they request the same change to the
// same target, no matter how they are written or what the state of the ledger is.
func TestDigestsOfVerbs(t *testing.T) {
	v := action(t, KindRecordStateChanged, "1", goodActions[KindRecordStateChanged])
	require.Equal(t, v.Digest, action(t, KindRecordStateChanged, "1", "{ \"reason\" : \"\\u0072\",\n\"state\":\"stale\"}").Digest)
	request, err := ParseValidationRequest([]byte(`{"validated":true}`))
	require.NoError(t, err)
	later := request.ActionFor(LatestPathRecord{Project: "p", PathID: "0123abcd", RecordSeq: 70})
	require.Equal(t, action(t, KindPathValidated, "p", `{"validated":true,"reason":null}`).Digest, later.Digest)

	seen := make(map[Hash]string)
	for kind, good := range goodActions {
		for _, target := range []string{"x", "xy"} {
			d := DigestWithKind(kind, action(t, kind, target, good).Digest)
			require.Empty(t, seen[d], "%s of %s", kind, target)
			seen[d] = fmt.Sprint(kind, " of ", target)
		}
	}
	for _, body := range []string{`{}`, `{"chunk_hashes":[]}`, `{"title":""}`, `{"reason":""}`} {
		d := action(t, KindSourceRegistered, "s", body).Digest
		require.Empty(t, seen[d], "%s", body)
		seen[d] = body
	}
}

func TestBadVerbsAreReported(t *testing.T) {
	long := strings.Repeat("x", maxReason+1)
	for _, c := range []struct {
		kind      Kind
		body      string
		malformed bool
		pointer   string
	}{
		{KindRecordStateChanged, ``, true, ""},
		{KindRecordStateChanged, `{"state"`, true, ""},
		{KindRecordStateChanged, `[]`, false, ""},
		{KindRecordStateChanged, `{"state":"stale","reason":"r","record_seq":1}`, true, "/record_seq"},
		{KindRecordStateChanged, `{"state":"stale","state":"live","reason":"r"}`, true, ""},
		{KindRecordStateChanged, `{"reason":"r"}`, false, "/state"},
		{KindRecordStateChanged, `{"state":"Stale","reason":"r"}`, false, "/state"},
		{KindRecordStateChanged, `{"state":true,"reason":"r"}`, false, "/state"},
		{KindRecordStateChanged, `{"state":"stale"}`, false, "/reason"},
		{KindRecordStateChanged, `{"state":"stale","reason":null}`, false, "/reason"},
		{KindRecordStateChanged, `{"state":"stale","reason":""}`, false, "/reason"},
		{KindRecordStateChanged, `{"state":"stale","reason":"` + long + `"}`, false, "/reason"},
		{KindRecordStateChanged, `{"state":"stale","reason":"\ud800"}`, false, "/reason"},
		{KindPathValidated, `{}`, false, "/validated"},
		{KindPathValidated, `{"validated":null}`, false, "/validated"},
		{KindPathValidated, `{"validated":1}`, false, "/validated"},
		{KindPathValidated, `{"validated":"true"}`, false, "/validated"},
		{KindPathValidated, `{"validated":true,"reason":"` + long + `"}`, false, "/reason"},
		{KindPathValidated, `{"validated":true,"record_seq":7}`, true, "/record_seq"},
		{KindPathValidated, `{"validated":true,"content_fingerprint":"89ABCDEF"}`, false, "/content_fingerprint"},
		{KindPathValidated, `{"validated":true,"build":7}`, false, "/build"},
		{KindPathValidated, `{"validated":true,"build":"` + strings.Repeat("x", maxName+1) + `"}`, false, "/build"},
		{KindRecordStateChanged, `{"state":"stale","reason":"r","original_actor":""}`, false, "/original_actor"},
		{KindRecordStateChanged, `{"state":"stale","reason":"r","original_actor":"` + long[:maxName+1] + `"}`, false, "/original_actor"},
		{KindRecordStateChanged, `{"state":"stale","reason":"r","timestamp":"yesterday"}`, false, "/timestamp"},
		{KindPathValidated, `{"validated":true,"original_actor":7}`, false, "/original_actor"},
		{KindPathValidated, `{"validated":true,"timestamp":"2025-11-30"}`, false, "/timestamp"},
		{KindNote, ``, true, ""},
		{KindNote, `{}`, false, "/topic"},
		{KindNote, `{"topic":""}`, false, "/topic"},
		{KindNote, `{"topic":"` + long[:fields.MaxTopicBytes+1] + `"}`, false, "/topic"},
		{KindNote, `{"topic":"review","text":"` + long + `"}`, false, "/text"},
		{KindNote, `{"topic":"review","text":"\ud800"}`, false, "/text"},
		{KindNote, `{"topic":"review","timestamp":7}`, false, "/timestamp"},
		{KindNote, `{"topic":"review","record_seq":1}`, true, "/record_seq"},
		{KindSourceRegistered, ``, true, ""},
		{KindSourceRegistered, `{"source_id":"s"}`, true, "/source_id"},
		{KindSourceRegistered, `{"title":"` + strings.Repeat("x", fields.MaxTitleBytes+1) + `"}`, false, "/title"},
		{KindSourceRegistered, `{"title":7}`, false, "/title"},
		{KindSourceRegistered, `{"reason":"\udfff"}`, false, "/reason"},
		{KindSourceRegistered, `{"chunk_hashes":{}}`, false, "/chunk_hashes"},
		{KindSourceRegistered, `{"chunk_hashes":[null]}`, false, "/chunk_hashes/0"},
		{KindSourceRegistered, `{"chunk_hashes":["` + zeros + `"]}`, false, "/chunk_hashes/0"},
		{KindSourceRegistered, `{"chunk_hashes":["sha256:` + strings.Repeat("A", 64) + `"]}`, false, "/chunk_hashes/0"},
		{KindSourceRegistered, `{"chunk_hashes":["sha256:` + zeros + `","sha256:` + strings.Repeat("1", 64) + `","sha\u003256:` + zeros + `"]}`, false, "/chunk_hashes/2"},
		{KindSourceRevoked, `null`, false, ""},
		{KindSourceRevoked, ` `, true, ""},
		{KindSourceRevoked, `{"reason":[]}`, false, "/reason"},
		{KindSourceRevoked, `{"title":"t"}`, true, "/title"},
	} {
		_, err := actionOn(c.kind, "x", c.body)
		var problem *strict.Error
		require.ErrorAs(t, err, &problem, "%.200s", c.body)
		require.Equal(t, c.malformed, problem.Malformed, "%.200s: %v", c.body, err)
		require.Equal(t, c.pointer, problem.Problems[0].Pointer, "%.200s: %v", c.body, err)
		require.NotEmpty(t, problem.Problems[0].Detail)
	}
	_, err := ParseSourceRegistration("s", []byte(`{"chunk_hashes":[`+strings.Repeat("1,", 500)+`1]}`))
	var problem *strict.Error
	require.ErrorAs(t, err, &problem)
	require.Len(t, problem.Problems, strict.MaxProblems)
}

// Only a list of chunks can make an action too large for an entry.
func TestSizesOfVerbs(t *testing.T) {
	worst := func(bytes int) string { return strings.Repeat(`\u0001`, bytes) }
	target := strings.Repeat("\x01", fields.MaxSourceIDBytes)
	key := Hash{1}
	e := EventContext{Actor: strings.Repeat("\x01", 128), Ledger: strings.Repeat("l", 64), IdempotencyKeyDigest: &key}
	reason := `"reason":"` + worst(maxReason) + `"`
	actor := `"original_actor":"` + worst(maxName) + `","timestamp":"2025-11-30T12:00:00.` + strings.Repeat("0", 43) + `Z",`
	for kind, body := range map[Kind]string{
		KindRecordStateChanged: `{"state":"quarantined",` + actor + reason + `}`,
		KindPathValidated:      `{"validated":false,"build":"` + worst(maxName) + `",` + actor + reason + `}`,
		KindNote:               `{"topic":"` + worst(fields.MaxTopicBytes) + `",` + actor + `"text":"` + worst(fields.MaxNoteTextBytes) + `"}`,
		KindSourceRegistered:   `{"title":"` + worst(fields.MaxTitleBytes) + `",` + reason + `}`,
		KindSourceRevoked:      `{` + reason + `}`,
	} {
		v := action(t, kind, target, body)
		require.NoError(t, v.CheckEntrySize(v.AppendBodyPrefix(nil, e)), kind)
		require.NoError(t, v.CheckEntrySize(v.AppendRefusal(nil, e, 1<<63)), kind)
	}

	register := func(chunks int) ([]byte, *Action) {
		hashes := make([]string, chunks)
		for i := range hashes {
			hashes[i] = fmt.Sprintf(`"sha256:%064x"`, i)
		}
		v := action(t, KindSourceRegistered, "s", `{"chunk_hashes":[`+strings.Join(hashes, ",")+`]}`)
		return v.AppendBodyPrefix(nil, EventContext{}), v
	}
	body, v := register(800)
	require.NoError(t, v.CheckEntrySize(body))
	body, v = register(884)
	var problem *strict.Error
	require.ErrorAs(t, v.CheckEntrySize(body), &problem)
	require.False(t, problem.Malformed)
	require.Equal(t, "/chunk_hashes", problem.Problems[0].Pointer)
	require.Contains(t, problem.Problems[0].Detail, "register the source in parts")
	require.NoError(t, v.CheckEntrySize(v.AppendRefusal(nil, EventContext{IdempotencyKeyDigest: &key}, 1)))
}

func TestKindsWithAState(t *testing.T) {
	var with []Kind
	for _, k := range append(append([]Kind{KindLedgerCreated, KindRecordRefused}, RecordKinds[:]...), actionKinds[:]...) {
		if k.HasState() {
			with = append(with, k)
		}
	}
	require.ElementsMatch(t, []Kind{KindIPCRecord, KindRunDAG}, with)
}

// The event contains everything that the request contains, and the digest of the request can be
// computed from the event.
func TestVerbDigestFollowsFromTheEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(actionKinds[:]).Draw(t, "kind")
		v, err := actionOn(kind, rapid.String().Draw(t, "target"), randomRequest(t, kind))
		require.NoError(t, err)
		key := Hash{3}
		event := AppendBodySuffix(v.AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l", IdempotencyKeyDigest: &key}), 1, time.Unix(0, 0))
		var d pyjson.Document
		require.NoError(t, d.Parse(event))
		require.Equal(t, string(event), string(d.Root().AppendCanonical(nil, pyjson.CompactForm)))
		w := new(pyjson.Builder)
		w.BeginObject()
		for name, value := range d.Root().Member("record").Members() {
			switch n := string(name.Text()); {
			case n == "digest" || n == "idempotency_key":
			case kind == KindPathValidated && (n == "names" || n == "record_seq"):
			case kind == KindPathValidated && (n == "build" || n == "content_fingerprint") && !names(d.Root().Member("record"), n):
			default:
				w.AddValue(n, value)
			}
		}
		w.EndObject()
		require.Equal(t, digestOf(string(w.Buf)), v.Digest)
	})
}

// names reports whether the event of a validation says that the request contained the member.
func names(validation pyjson.Value, member string) bool {
	for name := range validation.Member("names").Elements() {
		if string(name.Text()) == member {
			return true
		}
	}
	return false
}

func digestOf(canonical string) Hash {
	r := new(Record)
	return r.addContent("", []byte(canonical))
}

// randomRequest returns a random valid request body for an action of the given kind.
func randomRequest(t *rapid.T, kind Kind) string {
	var b pyjson.Builder
	b.BeginObject()
	text := func(name string, least int) {
		b.AddText(name, []byte(rapid.StringN(least, 40, fields.MaxTitleBytes).Draw(t, name)))
	}
	maybe := func(name string) {
		if rapid.Bool().Draw(t, "has "+name) {
			text(name, 0)
		}
	}
	if kind == KindRecordStateChanged || kind == KindPathValidated || kind == KindNote {
		if rapid.Bool().Draw(t, "has an actor") {
			text("original_actor", 1)
		}
		if rapid.Bool().Draw(t, "has a time") {
			b.AddText("timestamp", []byte("2025-11-30T12:00:00.5+01:00"))
		}
	}
	switch kind {
	case KindNote:
		b.AddText("topic", []byte(rapid.StringN(1, 20, fields.MaxTopicBytes).Draw(t, "topic")))
		maybe("text")
	case KindRecordStateChanged:
		b.AddText("state", []byte(rapid.SampledFrom(States[:]).Draw(t, "state")))
		text("reason", 1)
	case KindPathValidated:
		b.AddRaw("validated", []byte(rapid.SampledFrom([]string{"true", "false"}).Draw(t, "validated")))
		maybe("reason")
		maybe("build")
		if rapid.Bool().Draw(t, "has fingerprint") {
			b.AddText("content_fingerprint", []byte(rapid.StringMatching("[0-9a-f]{8}").Draw(t, "fingerprint")))
		}
	case KindSourceRegistered:
		if n := rapid.IntRange(-1, 5).Draw(t, "chunks"); n >= 0 {
			chunks := make([]string, n)
			for i := range chunks {
				chunks[i] = fmt.Sprintf(`"sha256:%064x"`, n-i)
			}
			b.AddRaw("chunk_hashes", []byte("["+strings.Join(chunks, " , ")+"]"))
		}
		maybe("title")
		maybe("reason")
	default:
		maybe("reason")
	}
	b.EndObject()
	return string(b.Buf)
}

// An action in a line of a batch results in the same event as a separate request.
func TestVerbsAreLines(t *testing.T) {
	for kind, body := range map[Kind]string{
		KindRecordStateChanged: `"state":"stale","reason":"so","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"`,
		KindNote:               `"topic":"review","text":"Good.","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"`,
	} {
		text := []byte(`{"idempotency_key":"k","kind":"` + string(kind) + `","record":{"record_seq":4,` + body + `}}`)
		l, err := ParseBatchLine(text)
		require.NoError(t, err)
		clear(text) // must not affect the action
		require.Nil(t, l.Record)
		require.Equal(t, "k", l.Key)
		require.Equal(t, uint64(4), l.Action.RecordSeq)
		alone := action(t, kind, "1234", "{"+body+"}")
		require.Equal(t, string(alone.AppendBodyPrefix(nil, EventContext{})), string(l.Action.AppendBodyPrefix(nil, EventContext{})))
		require.Equal(t, alone.Digest, l.Action.Digest)
	}
	const body = `"validated":true,"reason":"so","build":"b","content_fingerprint":"00000001","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"`
	l, err := ParseBatchLine([]byte(`{"kind":"path_validated","record":{"project":"p","path_id":"a6122a65",` + body + `},"idempotency_key":"k"}`))
	require.NoError(t, err)
	require.Equal(t, "k", l.Key)
	alone, err := ParseValidationRequest([]byte("{" + body + "}"))
	require.NoError(t, err)
	require.Equal(t, &PathValidationLine{Project: "p", PathID: "a6122a65", ValidationRequest: *alone}, l.Validation)
	for _, c := range []struct {
		kind      Kind
		record    string
		malformed bool
		pointer   string
	}{
		{KindNote, `{"topic":"review"}`, false, "/record/record_seq"},
		{KindNote, `{"topic":"review","record_seq":null}`, false, "/record/record_seq"},
		{KindNote, `{"topic":"review","record_seq":-1}`, false, "/record/record_seq"},
		{KindNote, `{"topic":"review","record_seq":"1"}`, false, "/record/record_seq"},
		{KindNote, `{"topic":"","record_seq":1}`, false, "/record/topic"},
		{KindNote, `{"topic":"review","record_seq":1,"state":"live"}`, true, "/record/state"},
		{KindRecordStateChanged, `{"state":"gone","reason":"r","record_seq":1}`, false, "/record/state"},
		{KindRecordStateChanged, `[]`, false, "/record"},
		{KindPathValidated, `{"path_id":"a6122a65","validated":true}`, false, "/record/project"},
		{KindPathValidated, `{"project":"p","validated":true}`, false, "/record/path_id"},
		{KindPathValidated, `{"project":"p","path_id":"a6122a65"}`, false, "/record/validated"},
		{KindPathValidated, `{"project":"p","path_id":"a6122a65","validated":true,"content_fingerprint":"x"}`, false, "/record/content_fingerprint"},
		{KindPathValidated, `{"project":"p","path_id":"a6122a65","validated":true,"record_seq":1}`, true, "/record/record_seq"},
		{KindSourceRevoked, `{"source_id":"x"}`, false, "/kind"},
	} {
		_, err := ParseBatchLine([]byte(`{"kind":"` + string(c.kind) + `","record":` + c.record + `}`))
		var problem *strict.Error
		require.ErrorAs(t, err, &problem, c.record)
		require.Equal(t, c.malformed, problem.Malformed, c.record)
		require.Equal(t, c.pointer, problem.Problems[0].Pointer, c.record)
	}
}

func TestStateRequests(t *testing.T) {
	body := []byte(`{"state":"stale","reason":"so","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z","filter":{"model":"m"},"dry_run":false,"as_of":9}`)
	r, err := ParseStateChangeRequest(body)
	require.NoError(t, err)
	clear(body) // must not affect the request
	require.Equal(t, StateStale, r.State)
	require.Equal(t, Selection{Filter: map[string]string{"model": "m"}, AsOf: new(uint64(9))}, r.Selection)
	const alone = `{"state":"stale","reason":"so","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"}`
	require.Equal(t, action(t, KindRecordStateChanged, "1234", alone).Digest, r.ActionFor(4).Digest)
	require.Equal(t, action(t, KindRecordStateChanged, "1", alone).Digest, r.ActionFor(1).Digest)
	for body, pointer := range map[string]string{
		`{"reason":"so","seqs":[1]}`: "/state", `{"state":"stale","seqs":[1]}`: "/reason", `{"state":"stale","reason":"so"}`: "",
		`{"state":"stale","reason":"so","seqs":[1],"dry_run":false}`: "/as_of", `{"state":"stale","reason":"so","seqs":[1],"record_seq":1}`: "/record_seq",
	} {
		_, err := ParseStateChangeRequest([]byte(body))
		var problem *strict.Error
		require.ErrorAs(t, err, &problem, body)
		require.Equal(t, pointer, problem.Problems[0].Pointer, body)
	}
}

// FuzzVerb checks that every input is either refused or results in a canonical event body.
func FuzzVerb(f *testing.F) {
	for i, kind := range actionKinds {
		f.Add(uint8(i), "s#4/é", []byte(goodActions[kind]))
	}
	f.Add(uint8(0), "", []byte(`{"state":null,"reason":"\ud800"}`))
	f.Fuzz(func(t *testing.T, kind uint8, target string, body []byte) {
		if !utf8.ValidString(target) {
			return
		}
		v, err := actionOn(actionKinds[int(kind)%len(actionKinds)], target, string(body))
		if err != nil {
			var problem *strict.Error
			require.ErrorAs(t, err, &problem)
			require.NotEmpty(t, problem.Problems)
			return
		}
		event := AppendBodySuffix(v.AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"}), 1, time.Unix(0, 0))
		var d pyjson.Document
		require.NoError(t, d.Parse(event))
		require.Equal(t, string(event), string(d.Root().AppendCanonical(nil, pyjson.CompactForm)))
		_, surrogate := d.Root().FindLoneSurrogate()
		require.False(t, surrogate)
	})
}
