package indextest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/records"
	"colophon/ledger/query/prefix"
	"colophon/ledger/record"
)

// Find returns the same hashes whether it reads the whole log or uses the index. It refuses a
// search that exceeds its bounds. If the index alone shows that there are too many hashes, Find
// reads no events.
func TestHashesAreFoundByFirstDigits(t *testing.T) {
	hash := func(first string) string { return first + strings.Repeat("0", 64-len(first)) }
	chunk := "sha256:" + hash("cccccccc")
	bodies := []string{
		runBody(t, "m", "yes", ""), runBody(t, "m", "no", ""), runBody(t, "m", "no", ""),
		posted(t, record.KindIPCRecord, `{"payload":{},"model":"m","temperature":1,"max_tokens":1,"labels":{"a":"bbbbbbbb"},"output_hash":"`+hash("bbbbbbbb1")+`"}`),
		dagBody(hash("aaaaaaaa"), `{"hash":"`+hash("dddddddd")+`","stage":"answer"}`),
		rawBody("run_dag", "{}", `{"document_roots":["`+hash("eeeeeeee")+`"],"hashes":{"output_hash":"`+hash("bbbbbbbb2")+`","root":"`+hash("bbbbbbbb3")+`"}}`),
		citationSet("s", citation("a", chunk, "null")),
		posted(t, record.KindIPCRecord, `{"payload":{},"model":"m","temperature":1,"max_tokens":1,"output_hash":"`+hash("bbbbbbbb4")+`"}`),
	}
	for range 20 {
		bodies = append(bodies, stateOf(1, "stale"), stateOf(1, "live"))
	}
	f, log := foldBodies(t, bodies...)
	large, small := prefix.Bounds{MaxEvents: 1000, MaxBytes: 1 << 20}, prefix.Bounds{MaxEvents: 5, MaxBytes: 1 << 20}
	for _, c := range []struct {
		name, digits string
		size         uint64
		want         []string
	}{
		{"output_hash", "bbbbbbbb", log.head.Size, []string{hash("bbbbbbbb1"), hash("bbbbbbbb4")}},
		{"output_hash", "bbbbbbbb", 8, []string{hash("bbbbbbbb1")}},
		{"output_hash", "bbbbbbbb4", log.head.Size, []string{hash("bbbbbbbb4")}},
		{"stage:answer", "dddddddd", log.head.Size, []string{hash("dddddddd")}},
		{"stage:context", "dddddddd", log.head.Size, nil},
		{prefix.DocumentRootName, "eeeeeeee", log.head.Size, []string{hash("eeeeeeee")}},
		{prefix.ChunkHashName, "sha256:cccccccc", log.head.Size, []string{chunk}},
		{prefix.ChunkHashName, "sha256:cccccccc", 7, nil},
	} {
		v := viewOf(t, f, c.size)
		for _, bounds := range []prefix.Bounds{large, small} {
			found, err := bounds.Find(t.Context(), v, c.name, c.digits)
			require.NoError(t, err)
			require.Equal(t, c.want, found, fmt.Sprint(c, bounds))
		}
	}
	v := viewOf(t, f, log.head.Size)
	for name, want := range map[string]string{"output_hash": "bbbbbbbb2", "root": "bbbbbbbb3", "question_hash": "aaaaaaaa"} { // hashes of run-DAGs
		found, err := large.Find(t.Context(), v, name, want)
		require.NoError(t, err)
		require.Equal(t, []string{hash(want)}, found)
	}
	for _, c := range []struct {
		name, digits string
		bounds       prefix.Bounds
		keys         int // maximum number of keys that Find may read before it refuses the search
	}{
		{"root", "bbbbbbbb", small, 0},
		{"output_hash", "bbbbbbbb", prefix.Bounds{MaxEvents: 3, MaxBytes: 1 << 20}, 4},
		{"stage:answer", "dddddddd", prefix.Bounds{MaxEvents: 1, MaxBytes: 1 << 20}, 2},
	} {
		keys, bytes := v.KeysRead(), v.EventBytesRead()
		_, err := c.bounds.Find(t.Context(), v, c.name, c.digits)
		require.ErrorIs(t, err, prefix.ErrTooManyHashes, c.name)
		require.LessOrEqual(t, v.KeysRead()-keys, c.keys)
		require.Equal(t, bytes, v.EventBytesRead(), "no event is read")
	}
	for _, bounds := range []prefix.Bounds{{MaxEvents: 1000, MaxBytes: 100}, {MaxEvents: 5, MaxBytes: 100}} {
		_, err := bounds.Find(t.Context(), v, "output_hash", "bbbbbbbb")
		require.ErrorIs(t, err, prefix.ErrTooManyHashes)
	}
	runs := 0
	for seq, err := range records.SeqsOfKind(v, record.KindIPCRecord) {
		require.NoError(t, err)
		require.Contains(t, []uint64{1, 2, 3, 4, 8}, seq)
		runs++
	}
	require.Equal(t, 5, runs)
}
