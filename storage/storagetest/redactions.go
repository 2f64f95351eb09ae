package storagetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// writer commits one event at a time to a ledger.
type writer struct {
	t     *testing.T
	store storage.Store
	head  storage.Head
}

// post commits an event that has content under the digests of the given names, and returns its seq.
func (w *writer) post(digests ...string) uint64 { return w.step(nil, digests...) }

// redact commits an event that redacts records, and returns its seq. records maps the seq of each
// record to the words whose hashes are the digests of its content.
func (w *writer) redact(records map[uint64][]string) uint64 { return w.step(records) }

// step commits one event that both redacts records and posts content, and returns its seq.
func (w *writer) step(records map[uint64][]string, digests ...string) uint64 {
	seq := w.head.Size
	b := follow(w.head, "e")
	for record, names := range records {
		b.Redactions = append(b.Redactions, redaction(record, seq, names...))
	}
	for slot, digest := range digests {
		b.Contents = append(b.Contents, storage.Content{
			Digest: hash(digest), Seq: seq, Slot: uint16(slot), Bytes: []byte(textOf(digest, seq)),
		})
	}
	w.head = commit(w.t, w.store, w.head, b)
	return seq
}

// textOf returns the content that event seq stores under a digest. Each event stores a different
// text, so that a test can tell which one was kept.
func textOf(digest string, seq uint64) string { return digest + string(rune('A'+seq)) }

func testReferences(t *testing.T, s *suite) {
	w := &writer{t: t, store: s.ledger(t)}
	requireReferences(t, w.store, "x")
	w.post("x", "y")
	w.post("y", "y", "z")
	w.post()
	w.post("x", "x")
	b := follow(w.head, "a", "b", "c")
	for seq := w.head.Size; seq < b.Head.Size; seq++ {
		b.Contents = append(b.Contents, content("x", seq, "x"), storage.Content{Digest: hash("w"), Seq: seq, Slot: 1})
	}
	earlier := w.store.References(t.Context(), hash("x"))
	w.head = commit(t, w.store, w.head, b)
	requireReferences(t, w.store, "x", 0, 3, 4, 5, 6)
	requireReferences(t, w.store, "y", 0, 1)
	requireReferences(t, w.store, "z", 1)
	requireReferences(t, w.store, "w", 4, 5, 6)
	for range 2 {
		var seen []uint64
		for seq, err := range earlier {
			require.NoError(t, err)
			seen = append(seen, seq)
		}
		require.Equal(t, []uint64{0, 3}, seen, "only references below the head at the time of the call")
	}
	for seq, err := range w.store.References(t.Context(), hash("x")) {
		require.NoError(t, err)
		require.Zero(t, seq)
		break // callers can stop the iteration early
	}
}

func testRedact(t *testing.T, s *suite) {
	w := &writer{t: t, store: s.ledger(t)}
	ctx := t.Context()
	w.post("x", "y")
	w.post("x", "z")
	_, err := w.store.RedactingSeq(ctx, 0)
	require.ErrorIs(t, err, storage.ErrNotFound)

	by := w.redact(map[uint64][]string{0: {"x", "y"}})
	got, err := w.store.RedactingSeq(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, by, got)
	requireRedactions(t, w.store, 0, by)
	earlier := w.store.Redactions(ctx)
	requireContent(t, w.store, "x", textOf("x", 0))
	requireReferences(t, w.store, "x", 1)
	requireContent(t, w.store, "y", "")
	requireReferences(t, w.store, "y")

	w.post("x")
	requireReferences(t, w.store, "x", 1, 3)
	w.redact(map[uint64][]string{3: {"x"}})
	requireReferences(t, w.store, "x", 1)
	w.redact(map[uint64][]string{1: {"x", "z"}})
	requireContent(t, w.store, "x", "")
	requireContent(t, w.store, "z", "")
	for r, err := range earlier {
		require.NoError(t, err)
		require.Equal(t, redaction(0, by), r, "only redactions below the head at the time of the call")
	}
	requireRedactions(t, w.store, 0, 2, 1, 5, 3, 4)
	for r, err := range w.store.Redactions(ctx) {
		require.NoError(t, err)
		require.Zero(t, r.Seq)
		break // callers can stop the iteration early
	}

	again := w.post("x")
	requireContent(t, w.store, "x", textOf("x", again))
	requireReferences(t, w.store, "x", again)
	moved := w.step(map[uint64][]string{again: {"x"}}, "x", "x")
	requireContent(t, w.store, "x", textOf("x", moved))
	requireReferences(t, w.store, "x", moved)
	w.post("x")
	stays := w.step(map[uint64][]string{moved: {"x"}}, "x")
	requireContent(t, w.store, "x", textOf("x", moved))
	requireReferences(t, w.store, "x", stays-1, stays)
	w.redact(map[uint64][]string{stays - 1: {"x"}, stays: {"x"}})
	requireContent(t, w.store, "x", "")
	requireReferences(t, w.store, "x")
}

// testRedactTwice checks that only the first redaction of a record is stored.
func testRedactTwice(t *testing.T, s *suite) {
	w := &writer{t: t, store: s.ledger(t)}
	ctx := t.Context()
	w.post("x")
	b := follow(w.head, "a", "b")
	b.Redactions = []storage.Redaction{redaction(0, 2, "x", "x"), redaction(0, 1, "x")}
	w.head = commit(t, w.store, w.head, b)
	requireContent(t, w.store, "x", "")
	w.post("x")
	w.redact(map[uint64][]string{0: {"x"}})
	by, err := w.store.RedactingSeq(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, uint64(2), by)
	requireContent(t, w.store, "x", textOf("x", 3))
	requireReferences(t, w.store, "x", 3)
}

// testRedactOthers checks that a redaction withdraws content only from the record that it redacts.
func testRedactOthers(t *testing.T, s *suite) {
	w := &writer{t: t, store: s.ledger(t)}
	w.post("x")
	w.post("y")
	w.post()
	w.post("y")
	by := w.redact(map[uint64][]string{0: nil, 2: {"x", "y", "never"}})
	for _, record := range []uint64{0, 2} {
		got, err := w.store.RedactingSeq(t.Context(), record)
		require.NoError(t, err)
		require.Equal(t, by, got)
	}
	requireContent(t, w.store, "x", textOf("x", 0))
	requireContent(t, w.store, "y", textOf("y", 1))
	requireReferences(t, w.store, "x", 0)
	requireReferences(t, w.store, "y", 1, 3)
}

// testManyReferences stores more references than any implementation reads at once.
func testManyReferences(t *testing.T, s *suite) {
	const records = 3000
	w := &writer{t: t, store: s.ledger(t)}
	b := follow(w.head, make([]string, records)...)
	var want []uint64
	for seq := range uint64(records) {
		b.Contents = append(b.Contents, content("x", seq, "text"))
		want = append(want, seq)
	}
	w.head = commit(t, w.store, w.head, b)
	requireReferences(t, w.store, "x", want...)
	redactions := make(map[uint64][]string)
	for _, seq := range want[:records-1] {
		redactions[seq] = []string{"x"}
	}
	w.redact(redactions)
	requireReferences(t, w.store, "x", records-1)
	var pairs []uint64
	for _, seq := range want[:records-1] {
		pairs = append(pairs, seq, records)
	}
	requireRedactions(t, w.store, pairs...)
	requireContent(t, w.store, "x", "text")
	w.redact(map[uint64][]string{records - 1: {"x"}})
	requireContent(t, w.store, "x", "")
}
