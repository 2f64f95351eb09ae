package record

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/seqs"
	"colophon/ledger/record/strict"
)

func seqList(t testing.TB, list ...uint64) *seqs.List {
	t.Helper()
	l := new(seqs.List)
	for _, seq := range list {
		require.True(t, l.Append(seq))
	}
	return l
}

func parseSeqs(t testing.TB, text string) (*seqs.List, error) {
	t.Helper()
	var d pyjson.Document
	require.NoError(t, d.Parse([]byte(text)))
	return seqs.Parse(d.Root())
}

func TestSeqLists(t *testing.T) {
	for text, seqs := range map[string][]uint64{
		`[7]`:                 {7},
		`[0,2]`:               {0, 2},
		`[[0,1]]`:             {0, 1},
		`[1,[9,12],14]`:       {1, 9, 10, 11, 12, 14},
		`[[9,10],[12,13]]`:    {9, 10, 12, 13},
		`[[99,100],102,1000]`: {99, 100, 102, 1000},
		fmt.Sprintf(`[[%d,%d]]`, uint64(math.MaxUint64-1), uint64(math.MaxUint64)): {math.MaxUint64 - 1, math.MaxUint64},
	} {
		require.Equal(t, text, string(seqList(t, seqs...).AppendJSON(nil)))
		l, err := parseSeqs(t, text)
		require.NoError(t, err, text)
		require.Equal(t, seqs, slices.Collect(l.All()))
		require.Equal(t, seqs[len(seqs)-1], l.Last())
	}
	for _, text := range []string{
		`[]`, `7`, `{}`, `["7"]`, `[-1]`, `[-0]`, `[7.0]`, `[18446744073709551616]`, `[null]`, `[[]]`, `[[1]]`, `[[1,2,3]]`, `[[1,[2]]]`,
		`[[2,2]]`, `[[2,1]]`, `[2,1]`, `[2,2]`, `[2,3]`, `[[1,2],3]`, `[[1,2],[3,4]]`, `[[1,3],2]`, `[0,[0,1]]`, `[[0,4096]]`,
		`[[0,18446744073709551615]]`, `[[0,4094],4096,4098]`, `[18446744073709551615,0]`,
	} {
		_, err := parseSeqs(t, text)
		require.Error(t, err, text)
	}
	l, err := parseSeqs(t, `[[0,4094],4096]`)
	require.NoError(t, err)
	require.Equal(t, seqs.MaxListLen, l.Len())
	require.False(t, l.Append(5000), "full")
}

// Add returns false before a list becomes too long for an event, whatever its numbers are.
func TestFullSeqLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Uint64Range(0, math.MaxUint64/2).Draw(t, "first")
		widest := rapid.Uint64Range(1, 1<<40).Draw(t, "widest")
		steps := rapid.SliceOfN(rapid.Uint64Range(1, widest), 1, 50).Draw(t, "steps")
		l, want := new(seqs.List), []uint64(nil)
		for i := 0; l.Append(seq); i++ {
			want = append(want, seq)
			seq += steps[i%len(steps)]
		}
		require.Equal(t, len(want), l.Len())
		require.Equal(t, want, slices.Collect(l.All()))
		text := l.AppendJSON(nil)
		require.LessOrEqual(t, len(text), seqs.MaxJSONBytes+len("[]"))
		require.True(t, l.Len() == seqs.MaxListLen || len(text) > seqs.MaxJSONBytes-50, "the list is full")
		var d pyjson.Document
		require.NoError(t, d.Parse(text))
		again, err := seqs.Parse(d.Root())
		require.NoError(t, err)
		require.Equal(t, l, again)
		require.False(t, l.Has(seq))
		for _, s := range want {
			require.True(t, l.Has(s))
			require.Equal(t, slices.Contains(want, s+1), l.Has(s+1))
		}
	})
}

func FuzzSeqList(f *testing.F) {
	for _, text := range []string{`[7]`, `[1,[9,12],14]`, `[[0,4095]]`, `[[2,2]]`, `[1,2]`, `[[1,2],3]`, `[-0]`, `[[0,18446744073709551615]]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var d pyjson.Document
		if d.Parse(text) != nil {
			return
		}
		l, err := seqs.Parse(d.Root())
		if err != nil {
			return
		}
		require.Equal(t, string(d.Root().AppendCanonical(nil, pyjson.CompactForm)), string(l.AppendJSON(nil)), "each list has one encoding")
		again := new(seqs.List)
		for seq := range l.All() {
			require.True(t, again.Append(seq))
		}
		require.Equal(t, l, again)
	})
}

func TestRedactionEvents(t *testing.T) {
	one, err := ParseRedaction(7, []byte(`{"reason":"asked\nfor"}`))
	require.NoError(t, err)
	many := NewRedaction("asked\nfor", seqList(t, 1, 2, 3, 7))
	for seqs, v := range map[string]*Action{`[7]`: one, `[[1,3],7]`: many} {
		require.Equal(t, digestOf(`{"reason":"asked\nfor","seqs":`+seqs+`}`), v.Digest)
		require.Equal(t, `{"actor":"alice","checks":{},"kind":"content_redacted","ledger":"l","record":{`+
			fmt.Sprintf(`"digest":"%x"`, v.Digest)+`,"reason":"asked\nfor","seqs":`+seqs+`},"rules":1,"seq":9,"time":"1970-01-01T00:00:00.000000Z","v":1}`,
			string(AppendBodySuffix(v.AppendBodyPrefix(nil, EventContext{Actor: "alice", Ledger: "l"}), 9, time.Unix(0, 0))))
	}
	for _, c := range badReasons {
		_, err := ParseRedaction(7, []byte(`{`+c.member+`}`))
		requireProblem(t, err, c.malformed, c.pointer)
	}
}

// badReasons lists members that make a request invalid: a missing or invalid reason, or an unknown
// member.
var badReasons = []struct {
	member    string
	malformed bool
	pointer   string
}{
	{``, false, "/reason"},
	{`"reason":null`, false, "/reason"},
	{`"reason":""`, false, "/reason"},
	{`"reason":7`, false, "/reason"},
	{`"reason":"\ud800"`, false, "/reason"},
	{`"reason":"` + strings.Repeat("x", maxReason+1) + `"`, false, "/reason"},
	{`"reason":"r","why":1`, true, "/why"},
}

func requireProblem(t *testing.T, err error, malformed bool, pointer string) {
	t.Helper()
	var problem *strict.Error
	require.ErrorAs(t, err, &problem)
	require.Equal(t, malformed, problem.Malformed, "%v", err)
	require.Equal(t, pointer, problem.Problems[0].Pointer, "%v", err)
}

// The event of a redaction always fits in an entry.
func TestSizesOfRedactions(t *testing.T) {
	for _, step := range []uint64{1, 2, 1 << 40} {
		l := new(seqs.List)
		for seq := uint64(math.MaxUint64 / 2); l.Append(seq); seq += step {
			require.NotZero(t, seq)
		}
		key := Hash{1}
		v := NewRedaction(strings.Repeat("\x01", maxReason), l)
		body := v.AppendBodyPrefix(nil, EventContext{Actor: strings.Repeat("\x01", 256), Ledger: strings.Repeat("l", 64), IdempotencyKeyDigest: &key})
		require.NoError(t, v.CheckEntrySize(body))
	}
}

func TestRedactionRequests(t *testing.T) {
	size := uint64(9)
	for body, want := range map[string]RedactionRequest{
		`{"reason":"r","filter":{"run_id":"x"}}`: {"r", Selection{Filter: map[string]string{"run_id": "x"}, DryRun: true}},
		`{"reason":"r","filter":{"producer":"p","producer_seq":7,"kind":null},"as_of":9}`: {
			"r", Selection{Filter: map[string]string{"producer": "p", "producer_seq": "7"}, DryRun: true, AsOf: &size}},
		`{"reason":"r","filter":{"label:é":""},"dry_run":false,"as_of":9}`: {"r", Selection{Filter: map[string]string{"label:é": ""}, AsOf: &size}},
		`{"reason":"r","seqs":[9,3],"filter":null,"dry_run":null}`:         {"r", Selection{Seqs: []uint64{9, 3}, DryRun: true}},
	} {
		r, err := ParseRedactionRequest([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, *r, body)
	}
	const rest = `"reason":"r",`
	for _, c := range []struct {
		body      string
		malformed bool
		pointer   string
	}{
		{``, true, ""},
		{`[]`, false, ""},
		{`{"reason":"r"}`, false, ""},
		{`{` + rest + `"seqs":[1],"filter":{"run_id":"x"}}`, false, ""},
		{`{` + rest + `"seqs":[1],"seq":1}`, true, "/seq"},
		{`{` + rest + `"seqs":1}`, false, "/seqs"},
		{`{` + rest + `"seqs":[]}`, false, "/seqs"},
		{`{` + rest + `"seqs":[` + strings.Repeat("1,", maxListedSeqs) + `1]}`, false, "/seqs"},
		{`{` + rest + `"seqs":[0,-1]}`, false, "/seqs/1"},
		{`{` + rest + `"seqs":[[1,2]]}`, false, "/seqs/0"},
		{`{` + rest + `"seqs":[3,2,3]}`, false, "/seqs/2"},
		{`{` + rest + `"filter":[]}`, false, "/filter"},
		{`{` + rest + `"filter":{}}`, false, "/filter"},
		{`{` + rest + `"filter":{"kind":null}}`, false, "/filter"},
		{`{` + rest + `"filter":{"kind":7.5}}`, false, "/filter/kind"},
		{`{` + rest + `"filter":{"run_id":"\ud800"}}`, false, "/filter/run_id"},
		{`{` + rest + `"filter":{"label:\ud800":"x"}}`, false, "/filter"},
		{`{` + rest + `"filter":{"run_id":["x"]}}`, false, "/filter/run_id"},
		{`{` + rest + `"seqs":[1],"dry_run":0}`, false, "/dry_run"},
		{`{` + rest + `"seqs":[1],"as_of":"9"}`, false, "/as_of"},
		{`{` + rest + `"seqs":[1],"dry_run":false}`, false, "/as_of"},
	} {
		_, err := ParseRedactionRequest([]byte(c.body))
		requireProblem(t, err, c.malformed, c.pointer)
	}
	for _, c := range badReasons {
		_, err := ParseRedactionRequest([]byte(strings.TrimSuffix(`{"seqs":[1],`+c.member, ",") + `}`))
		requireProblem(t, err, c.malformed, c.pointer)
	}
}

func FuzzRedactionRequest(f *testing.F) {
	f.Add([]byte(`{"reason":"r","filter":{"run_id":"x","producer_seq":7},"dry_run":false,"as_of":9}`))
	f.Add([]byte(`{"reason":"r","seqs":[9,3]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseRedactionRequest(body)
		if err != nil {
			var problem *strict.Error
			require.ErrorAs(t, err, &problem)
			return
		}
		require.NotEmpty(t, r.Reason)
		require.NotEqual(t, len(r.Filter) > 0, len(r.Seqs) > 0)
		require.True(t, r.DryRun || r.AsOf != nil)
	})
}
