package wire_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/client/wire"
)

func TestMarshalKeepsBytes(t *testing.T) {
	raw := "{ \"b\" : [1e5, \"\\u003c<>&\\ud800\"],\n\t\"a\":null }"
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"raw JSON":        {wire.IPCRecord{Payload: json.RawMessage(raw), Model: "m"}, `{"payload":` + raw + `,"model":"m"}`},
		"raw record":      {&wire.RawRecord{Kind: wire.KindRunDAG, JSON: json.RawMessage(raw)}, raw},
		"line of a batch": {wire.BatchLine{Kind: wire.KindRunDAG, Record: wire.RawRecord{JSON: json.RawMessage(raw)}}, `{"kind":"run_dag","record":` + raw + `}`},
		"surrogates":      {wire.StateChange{Reason: "a\xed\xa0\x80b\xed\xbf\xbf\U0001F30A<>"}, `{"state":"","reason":"a\ud800b\udfff` + "\U0001F30A" + `<>"}`},
		"map":             {map[string]any{"b\"": "\xed\xb0\x80", "a": nil}, `{"a":null,"b\"":"\udc00"}`},
		"empty texts":     {wire.IPCRecord{Output: new(""), Temperature: new(0.0)}, `{"output":"","model":"","temperature":0}`},
		"empty lists":     {wire.SourceRegistration{ChunkHashes: []string{}}, `{"chunk_hashes":[]}`},
		"no lists":        {wire.SourceRegistration{}, `{}`},
		"large integers":  {wire.IPCRecord{Seed: "123456789012345678901234567890", MaxTokens: wire.IntNumber(-7)}, `{"model":"","max_tokens":-7,"seed":123456789012345678901234567890}`},
	} {
		text, err := wire.Marshal(test.value)
		require.NoError(t, err, name)
		require.Equal(t, test.want, string(text), name)
	}
}

func TestMarshalRefuses(t *testing.T) {
	for name, value := range map[string]any{
		"invalid UTF-8":    wire.StateChange{Reason: "a\xff"},
		"cut surrogate":    wire.StateChange{Reason: "\xed\xa0"},
		"overlong":         wire.StateChange{Reason: "\xc0\x80"},
		"in a map":         map[string]string{"\xff": ""},
		"not JSON":         wire.IPCRecord{Payload: json.RawMessage(`{`)},
		"two values":       wire.RawRecord{JSON: json.RawMessage(`{}{}`)},
		"empty raw record": wire.RawRecord{},
		"not an integer":   wire.IPCRecord{Seed: "x"},
		"deep in a value":  wire.RunDAG{Evidence: []wire.Evidence{{ChunkRoot: "\xff"}}},
	} {
		_, err := wire.Marshal(value)
		require.Error(t, err, name)
	}
	_, err := wire.Marshal(wire.StateChange{Reason: "\xff"})
	require.ErrorIs(t, err, wire.ErrInvalidText)
}

// Marshal and encoding/json produce equal JSON for values that both can encode.
func TestMarshalIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, optional := rapid.String(), rapid.Ptr(rapid.String(), true)
		value := wire.RunDAG{
			CommonRecordMembers: wire.CommonRecordMembers{RunID: text.Draw(t, "run"), Labels: rapid.MapOf(text, text).Draw(t, "labels")},
			Question:            optional.Draw(t, "question"),
			SourceRoots:         rapid.SliceOf(text).Draw(t, "roots"),
			RejectedInputs:      &wire.RejectedRunInputs{RejectionReason: text.Draw(t, "reason"), AnswerText: optional.Draw(t, "answer")},
			Inputs:              &wire.RunInputs{NQuotes: wire.IntNumber(rapid.Int().Draw(t, "quotes")), NVerified: "1", Sources: []wire.RunSource{{Score: json.RawMessage(`1`)}}},
		}
		ours, err := wire.Marshal(value)
		require.NoError(t, err)
		theirs, err := json.Marshal(value)
		require.NoError(t, err)
		require.JSONEq(t, string(theirs), string(ours))
		var again wire.RunDAG
		require.NoError(t, json.Unmarshal(ours, &again))
		if len(value.Labels) == 0 {
			value.Labels, again.Labels = nil, nil
		}
		require.True(t, reflect.DeepEqual(value, again), "%#v %#v", value, again)
	})
}

func TestNullable(t *testing.T) {
	for _, text := range []string{`{"result":"match"}`, `{"result":"mismatch","claimed":"a","computed":null}`, `{"result":"mismatch","claimed":null,"computed":"b"}`} {
		var check wire.Check
		require.NoError(t, json.Unmarshal([]byte(text), &check))
		again, err := json.Marshal(check)
		require.NoError(t, err)
		require.Equal(t, text, string(again))
	}
}

func TestSeqRange(t *testing.T) {
	var seqs []wire.SeqRange
	require.NoError(t, json.Unmarshal([]byte(`[7,[9,12]]`), &seqs))
	require.Equal(t, []wire.SeqRange{{7, 7}, {9, 12}}, seqs)
	text, err := json.Marshal(seqs)
	require.NoError(t, err)
	require.Equal(t, `[7,[9,12]]`, string(text))
	for _, text := range []string{`[[]]`, `[[1]]`, `[[1,2,3]]`, `["7"]`, `[-1]`} {
		require.Error(t, json.Unmarshal([]byte(text), &seqs), text)
	}
}

func TestTime(t *testing.T) {
	at, err := wire.Time("2026-01-02T03:04:05.100000Z").Parse()
	require.NoError(t, err)
	require.Equal(t, 100_000_000, at.Nanosecond())
	_, err = wire.Time("yesterday").Parse()
	require.Error(t, err)
}

func TestEventsOfUnknownKinds(t *testing.T) {
	event, err := wire.ParseEvent([]byte(`{"kind":"newer","seq":3,"record":{}}`))
	require.NoError(t, err)
	_, err = event.Decode()
	require.ErrorContains(t, err, "unknown kind")
	event.Kind, event.Record = wire.KindRunDAG, json.RawMessage(`{"nodes":1}`)
	_, err = event.Decode()
	require.Error(t, err)
	_, err = wire.ParseEvent([]byte(`{"seq":"x"}`))
	require.Error(t, err)
}
