// Package storagetest tests implementations of the storage contract. For tests of code that uses
// storage, it provides a Store that fails on demand, and an interface for tampering with stored
// data.
package storagetest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// suite holds the configuration for one call to Run.
type suite struct {
	open   func(t *testing.T) storage.Database
	reopen func(t *testing.T, db storage.Database) storage.Database // nil if the implementation cannot reopen a database
}

// Option makes Run test an optional feature.
type Option func(*suite)

// WithReopen makes Run also test that data is still there after the database has been reopened.
// reopen must close the database and return a newly opened one with the same data.
func WithReopen(reopen func(t *testing.T, db storage.Database) storage.Database) Option {
	return func(s *suite) { s.reopen = reopen }
}

// Run tests an implementation of the storage contract. Each call to open must return a new, empty
// database, which Run closes.
func Run(t *testing.T, open func(t *testing.T) storage.Database, options ...Option) {
	s := &suite{open: open}
	for _, option := range options {
		option(s)
	}
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"Ledgers", testLedgers},
		{"CreateRace", testCreateRace},
		{"Freeze", testFreeze},
		{"Isolation", testIsolation},
		{"Settings", testSettings},
		{"Commit", testCommit},
		{"Conflict", testConflict},
		{"Invalid", testInvalid},
		{"EmptyCommit", testEmptyCommit},
		{"Entries", testEntries},
		{"Tiles", testTiles},
		{"Keys", testKeys},
		{"KeysTogether", testKeysTogether},
		{"Deduplication", testDeduplication},
		{"References", testReferences},
		{"Redact", testRedact},
		{"RedactTwice", testRedactTwice},
		{"RedactOthers", testRedactOthers},
		{"ManyReferences", testManyReferences},
		{"Slices", testSlices},
		{"Context", testContext},
		{"Archive", testArchive},
		{"Pages", testPages},
		{"Readers", testReaders},
		{"Writers", testWriters},
		{"Reopen", testReopen},
		{"Model", testModel},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// database returns an empty database that is closed at the end of the test.
func (s *suite) database(t *testing.T) storage.Database {
	db := s.open(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// ledger returns a new ledger in a database of its own, which is closed at the end of the test.
func (s *suite) ledger(t *testing.T) storage.Store {
	return create(t, s.database(t), "default")
}

func create(t *testing.T, db storage.Database, name string) storage.Store {
	store, err := db.CreateLedger(t.Context(), info(name))
	require.NoError(t, err)
	return store
}

// info returns the description of a ledger with the given name. Its creation time is in
// microseconds, the precision that a store must preserve.
func info(name string) storage.LedgerInfo {
	return storage.LedgerInfo{
		Name:    name,
		Origin:  "ledger.example/" + name,
		Created: time.Date(2024, 2, 29, 23, 59, 59, 123_456_000, time.UTC),
	}
}

// hash returns the SHA-256 digest of word.
func hash(word string) storage.Hash { return sha256.Sum256([]byte(word)) }

// follow returns a batch that extends old by the given entries, including the resulting head.
func follow(old storage.Head, entries ...string) storage.Batch {
	b := storage.Batch{Head: old}
	for _, e := range entries {
		b.Entries = append(b.Entries, []byte(e))
		b.Head.Tip = sha256.Sum256(append(b.Head.Tip[:], e...))
	}
	b.Head.Size += uint64(len(entries))
	b.Head.TimeMicros++
	b.Head.Checkpoint = fmt.Appendf(nil, "checkpoint at %d", b.Head.Size)
	return b
}

// commit commits b, which must extend old, and returns the new head.
func commit(t *testing.T, store storage.Store, old storage.Head, b storage.Batch) storage.Head {
	require.NoError(t, store.Commit(t.Context(), old, b))
	return b.Head
}

// content returns a piece of content in slot 0 of event seq. Its digest is hash(word).
func content(word string, seq uint64, text string) storage.Content {
	return storage.Content{Digest: hash(word), Seq: seq, Bytes: []byte(text)}
}

// redaction returns a redaction of record seq by event by. The digests of the record's content are
// the hashes of words.
func redaction(seq, by uint64, words ...string) storage.Redaction {
	r := storage.Redaction{Seq: seq, RedactingSeq: by}
	for _, word := range words {
		r.Digests = append(r.Digests, hash(word))
	}
	return r
}

// tile returns a tile of n hashes, each of which encodes its position.
func tile(level uint8, index uint64, n int) storage.Tile {
	t := storage.Tile{Level: level, Index: index}
	for i := range n {
		t.Hashes = append(t.Hashes, make([]byte, storage.HashSize-8)...)
		t.Hashes = binary.BigEndian.AppendUint64(t.Hashes, uint64(i)+1)
	}
	return t
}

// collect returns all entries whose seq is at least from.
func collect(t *testing.T, r storage.Reader, from uint64) []string {
	var all []string
	for e, err := range r.Entries(t.Context(), from) {
		require.NoError(t, err)
		require.Equal(t, from+uint64(len(all)), e.Seq)
		all = append(all, string(e.Bytes))
	}
	return all
}

// requireContent requires that the content with digest hash(word) is text, or that it is missing
// if text is empty.
func requireContent(t *testing.T, r storage.Reader, word, text string) {
	t.Helper()
	got, err := r.Content(t.Context(), hash(word))
	if text == "" {
		require.ErrorIs(t, err, storage.ErrNotFound)
		return
	}
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// requireReferences requires that exactly the records in want, in this order, need the content with
// digest hash(word).
func requireReferences(t *testing.T, r storage.Reader, word string, want ...uint64) {
	t.Helper()
	var got []uint64
	for seq, err := range r.References(t.Context(), hash(word)) {
		require.NoError(t, err)
		got = append(got, seq)
	}
	require.Equal(t, want, got)
	for seq := range 10 {
		referenced, err := r.HasReference(t.Context(), hash(word), uint64(seq))
		require.NoError(t, err)
		require.Equal(t, slices.Contains(want, uint64(seq)), referenced, "record %d", seq)
	}
}

// requireRedactions requires that the ledger has exactly the redactions in want, which alternates
// between the seq of a record and the seq of the event that redacted it.
func requireRedactions(t *testing.T, r storage.Reader, want ...uint64) {
	t.Helper()
	var got []uint64
	for redaction, err := range r.Redactions(t.Context()) {
		require.NoError(t, err)
		require.Empty(t, redaction.Digests)
		got = append(got, redaction.Seq, redaction.RedactingSeq)
	}
	require.Equal(t, want, got)
}
