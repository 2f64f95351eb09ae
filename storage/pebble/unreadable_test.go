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

// shared is the number of pieces of content and of keys. Two events need each piece: n and
// shared+n.
const (
	shared = 1500
	every  = 100 // one of this many is redacted, or posted again
)

func pieceNo(n int) storage.Content {
	return storage.Content{Digest: digestOf(uint64(n)), Bytes: fmt.Appendf(nil, "piece %d", n)}
}

// storedInTables makes a database with keys and content in tables. It returns the head.
func storedInTables(t *testing.T) (vfs.FS, storage.Head) {
	files := vfs.NewMem()
	db, l := one(t, files)
	b := storage.Batch{Head: storage.Head{Size: 2 * shared, Tip: digestOf(1)}}
	for n := range 2 * shared {
		b.Entries = append(b.Entries, fmt.Append(nil, "entry ", n))
		c := pieceNo(n % shared)
		c.Seq = uint64(n)
		b.Contents = append(b.Contents, c)
		b.Keys = append(b.Keys, storage.Key{Key: digestOf(uint64(1000 + n)), Record: digestOf(uint64(n)), Seq: uint64(n)})
	}
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, b))
	require.NoError(t, db.engine.Flush())
	require.NoError(t, db.Close())
	return files, b.Head
}

// following redacts events whose content others need. It posts content that is stored and
// content that is not.
func following(old storage.Head) storage.Batch {
	b := storage.Batch{Head: storage.Head{Size: old.Size + 1, Tip: digestOf(2)}, Entries: [][]byte{{1}}}
	for n := 0; n < shared; n += every {
		b.Redactions = append(b.Redactions, storage.Redaction{Seq: uint64(n), By: old.Size, Digests: []storage.Hash{pieceNo(n).Digest}})
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

// requireNeeded checks which event needs which piece, before or after the following batch.
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
			// The engine also reads in the background. If the fault hits such a read, a reader
			// of the same block gets its error, and the next one reads the block again.
			text, err = l.Content(t.Context(), pieceNo(n).Digest)
		}
		require.NoError(t, err)
		require.Equal(t, pieceNo(n).Bytes, text)
	}
}

// tryReads runs do repeatedly. In each run a different read or opening of a file that matches path
// fails, until each has failed once.
func tryReads(t *testing.T, files vfs.FS, mode faulty.Mode, path string, do func(store storage.Store) error, check func(store storage.Store, err error)) {
	calls := []string{faulty.Open, faulty.Read}
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
		// A filter that is never filled, because filling it reads the same files.
		store.(*ledger).digests.filter = bloom.New(db.fillers.take)
		return db, store, nil
	}
	// A pause of no time changes nothing and is counted.
	reads := faulty.New(faulty.Plan{Mode: faulty.Slow, Calls: calls, Path: path, Count: -1})
	count := func() int { return reads.Injected()[faulty.Open] + reads.Injected()[faulty.Read] }
	db, store, err := open(faulty.NewFiles(copied(), reads))
	require.NoError(t, err)
	opening := count()
	require.NoError(t, do(store))
	all := count()
	require.NoError(t, db.Close())
	require.Greater(t, all, opening, "it reads %s", path)
	for skip := opening; skip < all; skip++ {
		faults := faulty.New(faulty.Plan{Mode: mode, Calls: calls, Path: path, Skip: skip, Bit: 37 * skip})
		db, store, err := open(faulty.NewFiles(copied(), faults))
		if err != nil { // it has read in another order
			require.NotErrorIs(t, err, storage.ErrNotFound)
			require.NotErrorIs(t, err, storage.ErrFormat)
			continue
		}
		err = do(store)
		faults.Stop()
		check(store, err)
		require.NoError(t, db.Close())
	}
}

// A commit that cannot read stored items fails and changes nothing. It does not take them for
// absent.
func TestCommitThatCannotRead(t *testing.T) {
	for _, mode := range []faulty.Mode{faulty.Fail, faulty.Garble} {
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

// A key that cannot be read is not taken for a new one.
func TestKeysThatCannotBeRead(t *testing.T) {
	for _, mode := range []faulty.Mode{faulty.Fail, faulty.Garble} {
		files, _ := storedInTables(t)
		var asked []storage.Hash
		held := 0
		for n := 0; n < 3*shared; n += every { // of which the last third is not there
			asked = append(asked, digestOf(uint64(1000+n)))
			if n < 2*shared {
				held++
			}
		}
		var found []storage.Key
		failed := 0
		tryReads(t, files, mode, "*"+erase.TableSuffix, func(store storage.Store) (err error) {
			found, err = store.Keys(t.Context(), asked)
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
