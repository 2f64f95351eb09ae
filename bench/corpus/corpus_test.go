package corpus_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/bench/corpus"
	"colophon/ledger/record"
)

// Every record is valid, has four correct claims, and is about 1.5 KB long.
func TestClaimedHashesAreCorrect(t *testing.T) {
	c := corpus.New(1)
	size, unique := 0, 0
	const records = 3000
	for i := range uint64(records) {
		body, u := c.Append(nil, i)
		r, err := record.Parse(record.KindIPCRecord, body)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("bench/", i), r.RunID)
		require.Len(t, r.Checks, 4)
		for _, check := range r.Checks {
			require.Equal(t, record.ResultMatch, check.Result, "%s of %s", check.Field, body)
		}
		require.Len(t, r.Contents, 3)
		size, unique = size+len(body), unique+u
		r.Release()
	}
	require.InDelta(t, 1500, size/records, 100)
	require.Less(t, unique, size)
}

// The same seed yields the same records, and a different seed yields different ones.
func TestRecordsAreReproducible(t *testing.T) {
	one, _ := corpus.New(7).Append(nil, 12345)
	again, _ := corpus.New(7).Append([]byte("before"), 12345)
	require.Equal(t, string(one), string(bytes.TrimPrefix(again, []byte("before"))))
	other, _ := corpus.New(8).Append(nil, 12345)
	require.NotEqual(t, string(one), string(other))
}

// MakeBodies generates the same bodies as Append.
func TestBodies(t *testing.T) {
	c := corpus.New(1)
	const first, count = 100, 5000
	b, err := c.MakeBodies(first, count)
	require.NoError(t, err)
	require.Equal(t, count, b.Len())
	var all, unique int64
	for i := range count {
		want, u := c.Append(nil, uint64(first+i))
		require.Equal(t, string(want), string(b.Body(i)))
		all, unique = all+int64(len(want)), unique+int64(u)
	}
	gotAll, gotUnique := b.TotalBytes()
	require.Equal(t, []int64{all, unique}, []int64{gotAll, gotUnique})
	require.NoError(t, b.Free())
}

// Append counts the bytes of a text as unique only if no earlier record contains the text.
func TestUniqueBytes(t *testing.T) {
	c := corpus.New(3)
	seen := make(map[[32]byte]bool)
	for i := range uint64(5000) {
		body, unique := c.Append(nil, i)
		r, err := record.Parse(record.KindIPCRecord, body)
		require.NoError(t, err)
		repeated := 0
		for _, content := range r.Contents {
			digest := sha256.Sum256(content.Bytes)
			if seen[digest] {
				repeated += len(bytes.ReplaceAll(content.Bytes, []byte("\n"), []byte(`\n`)))
			}
			seen[digest] = true
		}
		require.Equal(t, len(body)-repeated, unique, "record %d", i)
		r.Release()
	}
}
