package pebble

import (
	"bytes"
	"context"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/internal/erase"
	"colophon/storage/pebble/pebbletest"
)

// damage flips a bit in the middle of each file in testDir whose name matches the pattern.
func damage(t *testing.T, files *vfs.MemFS, pattern string) {
	done := 0
	for _, name := range matching(t, files, pattern) {
		data, err := files.UnsafeGetFileDataBuffer(files.PathJoin(testDir, name))
		require.NoError(t, err)
		if len(data) > 0 {
			data[len(data)/2] ^= 1
			done++
		}
	}
	require.Positive(t, done)
}

// matching returns the names of the files in testDir that match the pattern.
func matching(t *testing.T, files vfs.FS, pattern string) (matching []string) {
	names, err := files.List(testDir)
	require.NoError(t, err)
	for _, name := range names {
		matches, err := path.Match(pattern, name)
		require.NoError(t, err)
		if matches {
			matching = append(matching, name)
		}
	}
	return matching
}

// commits makes n commits to the empty ledger and returns their batches.
func commits(t *testing.T, l *ledger, n int) []storage.Batch {
	var all []storage.Batch
	var head storage.Head
	for range n {
		b := batch(head, 4, 20<<10)
		require.NoError(t, l.Commit(t.Context(), head, b))
		head = b.Head
		all = append(all, b)
	}
	return all
}

// If a file is damaged, every read that needs the file returns an error, including the reads in
// Open. No read panics, returns a wrong value, or stops the process.
func TestDamagedFile(t *testing.T) {
	files := vfs.NewCrashableMem()
	db, l := newLedger(t, files)
	all := commits(t, l, 8)
	require.NoError(t, db.engine.Flush())
	require.NoError(t, db.Close())
	for _, suffix := range []string{erase.TableSuffix, erase.ValueFileSuffix} {
		names := matching(t, files, "*"+suffix)
		require.NotEmpty(t, names)
		for _, name := range names {
			left := files.CrashClone(vfs.CrashCloneCfg{})
			damage(t, left, name)
			requireDamage(t, left, all)
		}
	}
}

// requireDamage requires that Open fails or that some of the reads report damage. No read may
// return a wrong value or stop the process.
func requireDamage(t *testing.T, files *vfs.MemFS, all []storage.Batch) {
	config := testConfig(files)
	config.Fatal = func(msg string) { panic(msg) }
	db, err := Open(t.Context(), config)
	if err != nil {
		require.NotErrorIs(t, err, storage.ErrUnknownFormat)
		return
	}
	defer func() { require.NoError(t, db.Close()) }()
	store, err := db.Ledger(t.Context(), "default")
	if err != nil {
		require.NotErrorIs(t, err, storage.ErrNotFound)
		return
	}
	failed := 0
	for _, b := range all {
		failed += readDamaged(t.Context(), t, store, b)
	}
	require.Positive(t, failed)

	var seen int
	var last error
	for e, err := range store.Entries(t.Context(), 0) {
		if last = err; err != nil {
			break
		}
		seen++
		require.Equal(t, uint64(seen-1), e.Seq)
	}
	if seen < 4*len(all) {
		require.Error(t, last)
	}
}

// readDamaged reads everything that the batch wrote, and returns how many reads failed because of
// damage. All other results must be correct.
func readDamaged(ctx context.Context, t *testing.T, store storage.Store, b storage.Batch) int {
	failed := 0
	right := func(got []byte, err error, want []byte) {
		if err != nil {
			require.ErrorIs(t, err, storage.ErrDamaged)
			require.NotContains(t, err.Error(), "\n")
			failed++
			return
		}
		require.True(t, bytes.Equal(want, got))
	}
	first := b.Head.Size - uint64(len(b.Entries))
	for i, want := range b.Entries {
		got, err := store.Entry(ctx, first+uint64(i))
		right(got, err, want)
	}
	text, err := store.Content(ctx, b.Contents[0].Digest)
	right(text, err, b.Contents[0].Bytes)
	hashes, err := store.Tile(ctx, 0, b.Tiles[0].Index)
	right(hashes, err, b.Tiles[0].Hashes)
	claim, err := store.KeyClaim(ctx, b.Claims[0].KeyDigest)
	right(claim.RecordDigest[:], err, b.Claims[0].RecordDigest[:])
	return failed
}

// Open does not mistake damage inside the write-ahead log for the end of the log. That would
// silently drop acknowledged commits. Only damage to the last commit looks like the end.
func TestDamagedLog(t *testing.T) {
	crashable := vfs.NewCrashableMem()
	db, l := newLedger(t, crashable)
	commits(t, l, 9)
	left := crashable.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, db.Close())
	damage(t, left, "*.log")
	_, err := Open(t.Context(), testConfig(left))
	require.Error(t, err)
	require.NotErrorIs(t, err, storage.ErrInUse)
	require.NotErrorIs(t, err, storage.ErrUnknownFormat)
}

// Open does not mistake a database without its manifest for a new one.
func TestLostManifest(t *testing.T) {
	files := pebbletest.NewCrashFS()
	db, l := newLedger(t, files.FS())
	commits(t, l, 1)
	require.NoError(t, db.Close())
	for _, name := range matching(t, files.FS(), "MANIFEST-*") {
		require.NoError(t, files.FS().Remove(testDir+"/"+name))
	}
	_, err := Open(t.Context(), testConfig(files.FS()))
	require.ErrorContains(t, err, "manifest")
}
