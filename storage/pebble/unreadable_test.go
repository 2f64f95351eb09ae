package pebble

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/internal/bloom"
	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/pebble/internal/erase"
)

// shared is the number of pieces of content. Events n and shared+n both need piece n.
const (
	shared = 1500
	every  = 100 // following redacts every 100th of the first events and posts every 100th piece again
)

func pieceNo(n int) storage.Content {
	return storage.Content{Digest: digestOf(uint64(n)), Bytes: fmt.Appendf(nil, "piece %d", n)}
}

// storedInTables creates a database that has keys and content in tables. It returns the file system
// and the ledger's head.
func storedInTables(t *testing.T) (vfs.FS, storage.Head) {
	files := vfs.NewMem()
	db, l := newLedger(t, files)
	b := storage.Batch{Head: storage.Head{Size: 2 * shared, Tip: digestOf(1)}}
	for n := range 2 * shared {
		b.Entries = append(b.Entries, fmt.Append(nil, "entry ", n))
		c := pieceNo(n % shared)
		c.Seq = uint64(n)
		b.Contents = append(b.Contents, c)
		b.Claims = append(b.Claims, storage.Claim{KeyDigest: digestOf(uint64(1000 + n)), RecordDigest: digestOf(uint64(n)), Seq: uint64(n)})
	}
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, b))
	require.NoError(t, db.engine.Flush())
	require.NoError(t, db.Close())
	return files, b.Head
}

// following returns a batch that extends old. It redacts events whose content other events need,
// and it posts both new content and content that is already stored.
func following(old storage.Head) storage.Batch {
	b := storage.Batch{Head: storage.Head{Size: old.Size + 1, Tip: digestOf(2)}, Entries: [][]byte{{1}}}
	for n := 0; n < shared; n += every {
		b.Redactions = append(b.Redactions, storage.Redaction{Seq: uint64(n), RedactingSeq: old.Size, Digests: []storage.Hash{pieceNo(n).Digest}})
	}
	for slot := range shared / every {
		for i, n := range []int{slot*every + every/2, shared + slot} {
			c := pieceNo(n)
			c.Seq, c.Slot = old.Size, uint16(2*slot+i)
			b.Contents = append(b.Contents, c)
		}
	}
	return b
}

// requireNeeded checks that the right events need each piece of content. after is true if the batch
// returned by following has been committed.
func requireNeeded(t *testing.T, l storage.Store, size uint64, after bool) {
	t.Helper()
	for n := 0; n < shared; n += every / 2 {
		want := []uint64{uint64(n), uint64(shared + n)}
		switch {
		case after && n%every == 0:
			want = want[1:]
		case after:
			want = append(want, size)
		}
		var got []uint64
		for seq, err := range l.References(t.Context(), pieceNo(n).Digest) {
			require.NoError(t, err)
			got = append(got, seq)
		}
		require.Equal(t, want, got, "piece %d", n)
		text, err := l.Content(t.Context(), pieceNo(n).Digest)
		if err != nil {
			// The engine also reads in the background. If the fault hits such a read, a reader of
			// the same block gets the error. The next reader reads the block again.
			text, err = l.Content(t.Context(), pieceNo(n).Digest)
		}
		require.NoError(t, err)
		require.Equal(t, pieceNo(n).Bytes, text)
	}
}

// tryReads calls do repeatedly. Each time, a different read or open of a file that matches path
// fails, until each of them has failed once. After each call, tryReads passes the error from do to
// check.
func tryReads(t *testing.T, files vfs.FS, mode faulty.Mode, path string, do func(store storage.Store) error, check func(store storage.Store, err error)) {
	calls := []string{faulty.CallOpen, faulty.CallRead}
	copied := func() vfs.FS {
		to := vfs.NewMem()
		_, err := vfs.Clone(files, to, testDir, testDir)
		require.NoError(t, err)
		return to
	}
	open := func(files vfs.FS) (*Database, storage.Store, error) {
		db, err := Open(t.Context(), testConfig(files))
		if err != nil {
			return nil, nil, err
		}
		store, err := db.Ledger(t.Context(), "default")
		if err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
		// Use a filter that is never filled, because filling it would read the same files.
		store.(*ledger).digests.filter = bloom.New(db.fillers.take)
		return db, store, nil
	}
	// In mode ModeSlow with a pause of zero, calls are counted but do not fail.
	reads := faulty.New(faulty.Plan{Mode: faulty.ModeSlow, Calls: calls, FilePattern: path, FailCount: -1})
	count := func() int { return reads.FaultCounts()[faulty.CallOpen] + reads.FaultCounts()[faulty.CallRead] }
	db, store, err := open(faulty.NewFS(copied(), reads))
	require.NoError(t, err)
	opening := count()
	require.NoError(t, do(store))
	all := count()
	require.NoError(t, db.Close())
	require.Greater(t, all, opening, "do must read %s", path)
	for skip := opening; skip < all; skip++ {
		faults := faulty.New(faulty.Plan{Mode: mode, Calls: calls, FilePattern: path, SkipCount: skip, BitIndex: 37 * skip})
		db, store, err := open(faulty.NewFS(copied(), faults))
		if err != nil { // the order of the reads can vary, so opening can fail
			require.NotErrorIs(t, err, storage.ErrNotFound)
			require.NotErrorIs(t, err, storage.ErrUnknownFormat)
			continue
		}
		err = do(store)
		faults.StopInjecting()
		check(store, err)
		require.NoError(t, db.Close())
	}
}

// A commit that cannot read stored items fails and changes nothing. It does not treat such items as
// absent.
func TestCommitThatCannotRead(t *testing.T) {
	for _, mode := range []faulty.Mode{faulty.ModeFail, faulty.ModeFlipBit} {
		files, head := storedInTables(t)
		failed := 0
		tryReads(t, files, mode, "*"+erase.TableSuffix, func(store storage.Store) error {
			return store.Commit(t.Context(), head, following(head))
		}, func(store storage.Store, err error) {
			if err != nil {
				failed++
			}
			requireNeeded(t, store, head.Size, err == nil)
		})
		require.Positive(t, failed, "%s", mode)
	}
}

// If an idempotency key cannot be read, KeyClaims returns an error. It does not treat the key as
// new.
func TestKeysThatCannotBeRead(t *testing.T) {
	for _, mode := range []faulty.Mode{faulty.ModeFail, faulty.ModeFlipBit} {
		files, _ := storedInTables(t)
		var requested []storage.Hash
		held := 0
		for n := 0; n < 3*shared; n += every { // the last third of these keys does not exist
			requested = append(requested, digestOf(uint64(1000+n)))
			if n < 2*shared {
				held++
			}
		}
		var found []storage.Claim
		failed := 0
		tryReads(t, files, mode, "*"+erase.TableSuffix, func(store storage.Store) (err error) {
			found, err = store.KeyClaims(t.Context(), requested)
			return err
		}, func(_ storage.Store, err error) {
			if err != nil {
				failed++
				return
			}
			require.Len(t, found, held)
		})
		require.Positive(t, failed, "%s", mode)
	}
}
