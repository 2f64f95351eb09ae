package pebble

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
	"colophon/storage/pebble/pebbletest"
)

func TestOpenOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 { // creates the database, then opens it
		db, err := Open(t.Context(), Config{Dir: dir, Logger: silent()})
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
}

func TestOpenRefusesBadConfig(t *testing.T) {
	_, err := Open(t.Context(), Config{FS: vfs.NewMem()})
	require.ErrorContains(t, err, "the database folder")
	_, err = Open(t.Context(), Config{Dir: testDir, FS: vfs.NewMem(), CacheBytes: -1})
	require.ErrorContains(t, err, "cache size")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(ctx, testConfig(vfs.NewMem()))
	require.ErrorIs(t, err, context.Canceled)
}

func TestOpenTwiceInOneProcess(t *testing.T) {
	root := t.TempDir()
	dir, alias := filepath.Join(root, "real"), filepath.Join(root, "alias")
	require.NoError(t, os.Symlink(root, alias))
	db, err := Open(t.Context(), Config{Dir: dir, Logger: silent()})
	require.NoError(t, err)
	for _, name := range []string{dir, dir + "/.", filepath.Join(alias, "real")} {
		_, err = Open(t.Context(), Config{Dir: name, Logger: silent()})
		require.ErrorIs(t, err, storage.ErrInUse)
		require.ErrorContains(t, err, dir)
	}
	require.NoError(t, db.Close())
	db, err = Open(t.Context(), Config{Dir: filepath.Join(alias, "real"), Logger: silent()})
	require.NoError(t, err, "the database can be opened again")
	require.NoError(t, db.Close())
}

// A database that is open cannot be opened again even if its lock file has been deleted.
func TestOpenTwiceWithoutLockFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a lock file in use cannot be deleted on this system")
	}
	dir := t.TempDir()
	db, err := Open(t.Context(), Config{Dir: dir, Logger: silent()})
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "LOCK")))
	printed, err := process(t, "open", dir).Output()
	require.NoError(t, err, string(printed))
	require.True(t, strings.HasPrefix(string(printed), "in use: "), string(printed))
	_, err = Open(t.Context(), Config{Dir: dir, Logger: silent()})
	require.ErrorIs(t, err, storage.ErrInUse)
	require.NoError(t, db.Close())
	db, err = Open(t.Context(), Config{Dir: dir, Logger: silent()})
	require.NoError(t, err, "the database can be opened again")
	require.NoError(t, db.Close())
}

func TestOpenTwiceInMemory(t *testing.T) {
	files := vfs.NewMem()
	db := openOn(t, files)
	_, err := Open(t.Context(), testConfig(files))
	require.ErrorIs(t, err, storage.ErrInUse)
	require.NoError(t, db.Close())
}

func TestOpenRefusesOtherFormat(t *testing.T) {
	files := vfs.NewMem()
	db, _ := newLedger(t, files)
	require.NoError(t, db.Close())
	tamper, err := pebbletest.OpenTamperer(files, testDir, "default")
	require.NoError(t, err)
	require.NoError(t, tamper.SetFormatVersion(keys.FormatVersion+5))
	require.NoError(t, tamper.Close())

	_, err = Open(t.Context(), testConfig(files))
	require.ErrorIs(t, err, storage.ErrUnknownFormat)
	require.ErrorContains(t, err, "version 9")
	require.ErrorContains(t, err, "version 4")
	_, err = Open(t.Context(), testConfig(files))
	require.ErrorIs(t, err, storage.ErrUnknownFormat, "the failed opening did not keep the lock")
}

func TestOpenRefusesForeignFolder(t *testing.T) {
	files := vfs.NewMem()
	require.NoError(t, files.MkdirAll(testDir, 0o700))
	f, err := files.Create(testDir+"/thesis.txt", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = Open(t.Context(), testConfig(files))
	require.ErrorContains(t, err, `"thesis.txt"`)
	names, err := files.List(testDir)
	require.NoError(t, err)
	require.Equal(t, []string{"thesis.txt"}, names, "nothing was added")
}

func TestOpenRefusesForeignDatabase(t *testing.T) {
	files := vfs.NewMem()
	foreign, err := engine.Open(testDir, &engine.Options{FS: files, Logger: testConfigLogger(nil)})
	require.NoError(t, err)
	require.NoError(t, foreign.Set([]byte("colour"), []byte("green"), engine.Sync))
	format := foreign.FormatMajorVersion()
	require.NoError(t, foreign.Close())
	_, err = Open(t.Context(), testConfig(files))
	require.ErrorContains(t, err, "another program")

	foreign, err = engine.Open(testDir, &engine.Options{FS: files, Logger: testConfigLogger(nil)})
	require.NoError(t, err)
	require.Equal(t, format, foreign.FormatMajorVersion(), "its files were not converted")
	require.NoError(t, foreign.Close())
}

func TestOpenRefusesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	_, err := Open(t.Context(), Config{Dir: file, Logger: silent()})
	require.Error(t, err)
	require.NotErrorIs(t, err, storage.ErrInUse)
}

func TestFolderMayContainLostAndFound(t *testing.T) {
	files := vfs.NewMem()
	require.NoError(t, files.MkdirAll(testDir+"/lost+found", 0o700))
	require.NoError(t, openOn(t, files).Close())
}
