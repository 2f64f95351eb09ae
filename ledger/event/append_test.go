package event_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
)

// bodies returns events of several kinds, encoded as the ledger writes them. The keys of the map
// are used only in messages.
func bodies(t *testing.T) map[string][]byte {
	t.Helper()
	key := record.Hash{1}
	frame := record.EventContext{Actor: "lab \"one\"", Ledger: "default", IdempotencyKeyDigest: &key}
	events := make(map[string][]byte)
	add := func(name string, body []byte) {
		events[name] = record.AppendBodySuffix(body, 7, time.Unix(7, 0))
	}
	zeros := strings.Repeat("0", 64)
	for kind, text := range map[record.Kind]string{
		record.KindIPCRecord: `{"run_id":"r\n","payload":{"seed":42},"system_prompt":"Be brief.","output":"Ana.","output_hash":"` + zeros + `","ipc_id_advanced":"` + zeros +
			`","model":"m","temperature":1e-7,"max_tokens":16,"environment":{"model_digest":"d"},"usage":{"tokens":5},"labels":{"b":"é","a":"\\"},"producer":{"id":"p","seq":0}}`,
		record.KindRunDAG:          `{"question":"Who?","dag":{"root":"` + zeros + `","nodes":[{"stage":"question","hash":"` + zeros + `"},{"stage":"question","hash":"` + zeros + `"}]}}`,
		record.KindCitationSet:     `{"subject":"s","citations":[{"source_id":"x","text":"Ana.","weight":1,"section":""},{"source_id":"","chunk_hash":"sha256:` + zeros + `","weight":0.5}]}`,
		record.KindPathFingerprint: `{"project":"p","build":"2","branch":"main","base":"1","route":["Start",""],"content":"The [[quay]]."}`,
	} {
		r, err := record.Parse(kind, []byte(text))
		require.NoError(t, err)
		add(string(kind), r.AppendBodyPrefix(nil, frame))
		add("refused "+string(kind), r.AppendRefusal(nil, frame, record.RefusalKeyConflict, 3))
	}
	for name, validation := range map[string]record.ValidationRequest{"validation": {}, "validation in a build": {Build: []byte("b"), ContentFingerprint: []byte("89abcdef")},
		"validation in another system": {ActionOrigin: fields.ActionOrigin{OriginalActor: []byte("ana"), Timestamp: []byte("2026-01-02T03:04:05Z")}}} {
		add(name, validation.ActionFor(record.LatestPathRecord{Project: "p", PathID: "01234567", RecordSeq: 3}).AppendBodyPrefix(nil, frame))
	}
	v, err := record.ParseNote(3, []byte(`{"topic":"review","text":"","original_actor":"ana","timestamp":"2026-01-02T03:04:05Z"}`))
	require.NoError(t, err)
	add("note", v.AppendBodyPrefix(nil, frame))
	v, err = record.ParseStateChange(3, []byte(`{"state":"stale","reason":"r","original_actor":"ana"}`))
	require.NoError(t, err)
	add("state", v.AppendBodyPrefix(nil, frame))
	v, err = record.ParseSourceRegistration("x", []byte(`{"chunk_hashes":[]}`))
	require.NoError(t, err)
	add("registration", v.AppendBodyPrefix(nil, frame))
	return events
}

// Decode and Encode reproduce the bytes of an event that the ledger wrote. For other events, for
// example with unknown members or white space, Encode returns different bytes.
func TestEventsAreWrittenAgain(t *testing.T) {
	var document pyjson.Document
	var body event.Body // reused for all events, because an audit does the same
	written := func(text string) string {
		require.NoError(t, document.Parse([]byte(text)))
		body.Decode(document.Root())
		require.NotNil(t, body.Fields)
		return string(body.Encode())
	}
	for name, text := range bodies(t) {
		require.Equal(t, string(text), written(string(text)), name)
		require.NoError(t, body.Check(), name)
		for what, altered := range map[string]string{
			"an unknown member":               strings.Replace(string(text), `"v":1}`, `"v":1,"w":1}`, 1),
			"an unknown member of the record": strings.Replace(string(text), `"record":{`, `"record":{"a":1,`, 1),
			"white space":                     strings.Replace(string(text), `"rules":1`, `"rules": 1`, 1),
			"another version":                 strings.Replace(string(text), `"v":1}`, `"v":2}`, 1),
			"a hash in capitals":              strings.Replace(string(text), `"digest":"`, `"digest":"A`, 1),
			"a needless escape":               strings.Replace(string(text), `default`, `\u0064efault`, 1),
		} {
			if document.Parse([]byte(altered)) != nil {
				continue // the text is not JSON, or has a duplicate member
			}
			require.NotEqual(t, altered, written(altered), "%s: %s", name, what)
		}
	}
}
