package pebble

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/storage"
)

// recent contains only digests that were added and not removed, and its size is bounded.
func TestRecent(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const limit = 4
		set := newRecent(limit)
		held := make(map[storage.Hash]bool)
		draw := func(r *rapid.T) storage.Hash { return digestOf(rapid.Uint64Max(20).Draw(r, "digest")) }
		r.Repeat(map[string]func(*rapid.T){
			"add": func(r *rapid.T) {
				digest := draw(r)
				set.add(digest)
				held[digest] = true
				require.True(r, set.has(digest))
			},
			"remove": func(r *rapid.T) {
				digest := draw(r)
				set.remove(digest)
				delete(held, digest)
				require.False(r, set.has(digest))
			},
			"has": func(r *rapid.T) {
				digest := draw(r)
				if set.has(digest) {
					require.True(r, held[digest])
				}
			},
			"": func(r *rapid.T) {
				require.LessOrEqual(r, len(set.current), limit)
				require.LessOrEqual(r, len(set.previous), limit)
			},
		})
	})
}

// recent keeps a digest that is looked up after each addition. It drops a digest that is not looked
// up again.
func TestRecentKeepsLookedUpDigests(t *testing.T) {
	set := newRecent(4)
	prompt := digestOf(0)
	set.add(prompt)
	for i := range uint64(100) {
		set.add(digestOf(i + 1))
		require.True(t, set.has(prompt))
	}
	require.False(t, set.has(digestOf(1)))
}

// If content has been posted twice, Commit remembers its digest and does not look it up again. If
// the content is erased, a later Commit stores it again.
func TestContentBeyondMemory(t *testing.T) {
	_, l := newLedger(t, vfs.NewMem())
	l.recent = newRecent(2)
	ctx := t.Context()
	var head storage.Head
	step := func(redact []uint64, digests ...uint64) {
		b := storage.Batch{Head: storage.Head{Size: head.Size + 1}, Entries: [][]byte{{1}}}
		for _, seq := range redact {
			b.Redactions = append(b.Redactions, storage.Redaction{
				Seq: seq, RedactingSeq: head.Size, Digests: []storage.Hash{digestOf(0), digestOf(5)},
			})
		}
		for slot, n := range digests {
			b.Contents = append(b.Contents, storage.Content{
				Digest: digestOf(n), Seq: head.Size, Slot: uint16(slot), Bytes: []byte{byte(head.Size)},
			})
		}
		require.NoError(t, l.Commit(ctx, head, b))
		head = b.Head
	}
	broughtBy := func(n uint64) byte {
		text, err := l.Content(ctx, digestOf(n))
		require.NoError(t, err)
		return text[0]
	}
	step(nil, 0, 1, 2, 3, 4, 5)
	require.False(t, l.recent.has(digestOf(0)), "posted once")
	step(nil, 0)
	require.True(t, l.recent.has(digestOf(0)), "the digest was found and is remembered")
	require.Equal(t, byte(0), broughtBy(0), "not stored again")
	step([]uint64{0, 1})
	require.False(t, l.recent.has(digestOf(0)))
	step(nil, 0)
	require.Equal(t, byte(3), broughtBy(0), "stored again")
	step([]uint64{3}, 0)
	require.Equal(t, byte(4), broughtBy(0), "erased and posted in the same commit")
	_, err := l.Content(ctx, digestOf(5))
	require.ErrorIs(t, err, storage.ErrNotFound)
}
