package pebble

import (
	"io"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/faulty"
)

// contents returns the contents of the files in testDir, keyed by name.
func contents(t *testing.T, files vfs.FS) map[string]string {
	t.Helper()
	names, err := files.List(testDir)
	require.NoError(t, err)
	all := make(map[string]string)
	for _, name := range names {
		all[name] = string(readFile(t, files, name))
	}
	return all
}

func readFile(t *testing.T, files vfs.FS, name string) []byte {
	t.Helper()
	f, err := files.Open(files.PathJoin(testDir, name))
	require.NoError(t, err)
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return text
}

func writeFile(t *testing.T, files vfs.FS, name string, text []byte) {
	t.Helper()
	f, err := files.Create(files.PathJoin(testDir, name), vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// If a bit in the manifest or the write-ahead log of a database is flipped, Open refuses the
// database and does not change it. Once the bit has been restored, every commit can be read.
// (Pebble alone would open the database with fewer commits and delete the rest.)
func TestOneBit(t *testing.T) {
	for _, pattern := range []string{"MANIFEST-*", "*.log"} {
		for _, part := range []int{0, 1, 2, 3} {
			files := vfs.NewMem()
			db, l := newLedger(t, files)
			all := commits(t, l, 6)
			require.NoError(t, db.Close())
			name := fileOf(t, files, pattern)
			intact := readFile(t, files, name)
			at := len(intact)/4*part + 9
			damaged := append([]byte{}, intact...)
			damaged[at] ^= 0x10
			writeFile(t, files, name, damaged)

			before := contents(t, files)
			_, err := Open(t.Context(), testConfig(files))
			require.ErrorIs(t, err, storage.ErrDamaged, "%s, byte %d", name, at)
			require.ErrorContains(t, err, name+" is damaged at byte")
			require.Equal(t, before, contents(t, files))

			writeFile(t, files, name, intact)
			db = openOn(t, files)
			store, err := db.Ledger(t.Context(), "default")
			require.NoError(t, err)
			for _, b := range all {
				require.Zero(t, readDamaged(t.Context(), t, store, b))
			}
			require.NoError(t, db.Close())
		}
	}
}

// fileOf returns the name of the file in testDir that matches the pattern. If several match, it
// returns the last one by name.
func fileOf(t *testing.T, files vfs.FS, pattern string) (found string) {
	t.Helper()
	for name := range contents(t, files) {
		ok, err := path.Match(pattern, name)
		require.NoError(t, err)
		if ok {
			found = max(found, name)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// Open does not report a failed read as damage, because the read can succeed the next time.
func TestUnreadableLog(t *testing.T) {
	memory := vfs.NewMem()
	db, l := newLedger(t, memory)
	b := batch(storage.Head{}, 1, 100)
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, b))
	require.NoError(t, db.Close())
	faults := faulty.New(faulty.Plan{Mode: faulty.ModeFail, Calls: []string{faulty.CallRead}, FilePattern: "*.log"})
	_, err := Open(t.Context(), testConfig(faulty.NewFS(memory, faults)))
	require.ErrorIs(t, err, faulty.ErrInjected)
	require.NotErrorIs(t, err, storage.ErrDamaged)
	left := openOn(t, memory)
	store, err := left.Ledger(t.Context(), "default")
	require.NoError(t, err)
	require.Zero(t, readDamaged(t.Context(), t, store, b))
	require.NoError(t, left.Close())
}

// If the manifest is cut off at any byte, Open either reports damage or loses nothing, so that old and
// new commits can be read. If Open overlooked the damage, new writes could get lower internal sequence
// numbers than stored ones, and the stored ones would hide them.
func TestManifestThatIsCutOff(t *testing.T) {
	files := vfs.NewMem()
	db, l := newLedger(t, files)
	all := commits(t, l, 3)
	require.NoError(t, db.engine.Flush())
	require.NoError(t, db.Close())
	require.NoError(t, openOn(t, files).Close())
	name := fileOf(t, files, "MANIFEST-*")
	intact := readFile(t, files, name)
	for at := range intact {
		left := vfs.NewMem()
		_, err := vfs.Clone(files, left, testDir, testDir)
		require.NoError(t, err)
		writeFile(t, left, name, intact[:at])
		db, err := Open(t.Context(), testConfig(left))
		if err != nil {
			require.ErrorIs(t, err, storage.ErrDamaged, "%d of %d bytes", at, len(intact))
			continue
		}
		store, err := db.Ledger(t.Context(), "default")
		require.NoError(t, err)
		head := all[len(all)-1].Head
		next := batch(head, 1, 10)
		require.NoError(t, store.Commit(t.Context(), head, next))
		require.NoError(t, db.Close())
		db = openOn(t, left)
		store, err = db.Ledger(t.Context(), "default")
		require.NoError(t, err)
		for _, b := range append(all, next) {
			require.Zero(t, readDamaged(t.Context(), t, store, b), "%d of %d bytes", at, len(intact))
		}
		require.NoError(t, db.Close())
	}
}
