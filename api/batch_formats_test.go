package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/ledger/record/cpython"
	"colophon/ledger/record/formats"
)

// importedAnswer decodes the receipt for a batch line that has a format member.
type importedAnswer struct {
	Seq      uint64
	Replayed bool
	Checks   map[string]struct{ Result string }
	Imported struct {
		Change *struct {
			Kind, Problem string
			Seq           uint64
		}
		Members []struct{ Pointer, Fate, As string }
	}
}

func (a answer) imported() (list []importedAnswer) {
	a.t.Helper()
	for _, text := range a.lines() {
		var l importedAnswer
		require.NoError(a.t, json.Unmarshal(text, &l), "%s", text)
		require.NotZero(a.t, l.Seq, "%s", text)
		require.NotEmpty(a.t, l.Imported.Members, "%s", text)
		list = append(list, l)
	}
	return list
}

// TestBatchAcceptsNativeLines posts lines that the Python implementation wrote, including its
// hashes. No check reports a mismatch, and a second post of the same lines replays them.
func TestBatchAcceptsNativeLines(t *testing.T) {
	oracle := cpython.Start(t)
	s := start(t)
	seeds := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	for _, f := range formats.BatchFormats {
		var body strings.Builder
		lines := 0
		for _, native := range cpython.Ask[int, []byte](t, oracle, strings.ReplaceAll(string(f), "-", "_"), seeds) {
			natives := [][]byte{native}
			if f == formats.ValidationCache {
				natives = nil // one batch line per cache entry
				var cache map[string]json.RawMessage
				require.NoError(t, json.Unmarshal(native, &cache))
				for id, entry := range cache {
					if bytes.HasPrefix(entry, []byte("{")) {
						natives = append(natives, []byte(`{"`+id+`":`+string(entry)+`}`))
					}
				}
			}
			for _, native := range natives {
				body.WriteString(`{"format":"` + string(f) + `","zone":"America/New_York","project":"story","record":` + string(native) + "}\n")
				lines++
			}
		}
		first := s.batch(body.String()).imported()
		require.Len(t, first, lines)
		size, changes := s.size(), 0
		for _, l := range first {
			for field, check := range l.Checks {
				require.NotEqual(t, "mismatch", check.Result, field)
			}
			if c := l.Imported.Change; c != nil {
				require.Empty(t, c.Problem)
				require.Greater(t, c.Seq, l.Seq)
				changes++
			}
		}
		require.Equal(t, f == formats.ValidationCache || f == formats.ProvidenceCache, changes > 0, f)
		for i, l := range s.batch(body.String()).imported() {
			require.Equal(t, first[i].Seq, l.Seq)
			require.True(t, l.Replayed)
			require.Equal(t, first[i].Imported, l.Imported)
		}
		require.Equal(t, size, s.size(), "the second batch adds nothing")
	}
}

// tooManyNativeValues is one more than the maximum number of values that api/batch accepts in a line that
// has a format.
const tooManyNativeValues = 20_001

func TestBatchRefusesNativeLines(t *testing.T) {
	s := start(t)
	for line, want := range map[string]struct {
		status  int
		pointer string
	}{
		`{"format":"poem","record":{}}`:                         {422, "/format"},
		`{"format":7,"record":{}}`:                              {422, "/format"},
		`{"format":"axis-log"}`:                                 {422, "/record"},
		`{"format":"axis-log","record":[]}`:                     {422, "/record"},
		`{"format":"axis-log","record":{"model":"m"}}`:          {422, "/record/payload"},
		`{"format":"axis-log","record":{},"zone":"Nowhere"}`:    {422, "/zone"},
		`{"format":"axis-log","record":{},"kind":"ipc_record"}`: {400, "/kind"},
		`{"format":"citations","record":{}}`:                    {422, "/record"},
		`{"format":"validation-cache","project":"p","record":{"a":{"route":"A"},"b":{"route":"B"}}}`: {422, "/record"},
		`{"format":"validation-cache","project":"p","record":{"last_updated":"2025"}}`:               {422, "/record"},
		`{"format":"providence","record":{"question_text":"Why?"}}`:                                  {422, "/record"},
		`{"format":"axis-log","record":{"a":[` + strings.Repeat("1,", tooManyNativeValues) + `1]}}`:  {422, ""},
		`{"format":"citations","subject":"s","record":{"x":"[` + strings.Repeat("0,", tooManyNativeValues) + `0]","by_section":{"` + strings.Repeat("s", 1<<20) + `":[` + strings.Repeat("{},", 100) + `{}]}}}`: {422, "/record"},
		`{"kind":"ipc_record","record":{"format":1}}`: {400, "/record/format"},
	} {
		answer := s.do(http.MethodPost, "/batch", line, "Content-Type", call.NDJSONMediaType).want(http.StatusOK).parsed()
		require.Len(t, answer, 1)
		require.Equal(t, want.status, answer[0].Status, line[:min(len(line), 100)])
		require.Equal(t, want.pointer, answer[0].Errors[0].Pointer, line[:min(len(line), 100)])
	}
	require.EqualValues(t, 1, s.size())
}

// A native line validates the text that it contains, not a later text of the path.
func TestNativeLinesValidateTheirOwnText(t *testing.T) {
	s := start(t)
	line := func(text, validated string) string {
		return `{"format":"validation-cache","project":"story","record":{"a6122a65":{"route":"Start","content":"` + text + `"` + validated + `}}}` + "\n"
	}
	s.batch(line("A", "")).imported()
	s.batch(`{"kind":"path_fingerprint","record":{"project":"story","build":"2","route":["Start"],"content":"B"}}` + "\n")
	size := s.size()
	late := s.batch(line("A", `,"validated":true`)).imported()[0]
	require.True(t, late.Replayed)
	require.Contains(t, late.Imported.Change.Problem, "another text (event 2)")
	require.Equal(t, size, s.size())

	// A validation that was recorded in time is replayed, also after the text has changed.
	s.batch(line("C", `,"validated":true`)).imported()
	s.batch(`{"kind":"path_fingerprint","record":{"project":"story","build":"3","route":["Start"],"content":"D"}}` + "\n")
	size = s.size()
	again := s.batch(line("C", `,"validated":true`)).imported()[0]
	require.Empty(t, again.Imported.Change.Problem)
	require.Equal(t, size, s.size())
}

// If a native line causes a state change, the event carries the original actor and the time that
// the line states.
func TestChangesOfNativeLinesHaveTheirOrigin(t *testing.T) {
	s := start(t)
	const dag = `"dag":{"root":"f894810c462d44131493a86edc662b5f863c56f6dd420b525ad3d4da306a27e7","nodes":[{"stage":"question","hash":"94e1ed59d38e2b2f5ef8b4ed5a0ca3b7bcda0b5d2a3bd3a3c2a1ed9c0bde2a11"}]}`
	answer := s.batch(`{"format":"validation-cache","project":"story","zone":"UTC","record":{"a6122a65":{"route":"Start","validated":true,"validated_by":"ann","validated_at":"2025-11-12T18:53:35"}}}` + "\n" +
		`{"format":"providence","record":{"state":"stale","state_changed_by":"ann","state_changed_at":"2025-11-12T18:53:35Z",` + dag + `}}` + "\n")
	for _, l := range answer.imported() {
		require.NotNil(t, l.Imported.Change)
		require.Empty(t, l.Imported.Change.Problem)
		event := string(s.get("/records/" + strconv.FormatUint(l.Imported.Change.Seq, 10)).want(http.StatusOK).body)
		require.Regexp(t, `"original_actor":"ann",.*"timestamp":"2025-11-12T18:53:35Z"`, event)
	}
}
