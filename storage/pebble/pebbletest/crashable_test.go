package pebbletest_test

import (
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage/pebble/pebbletest"
)

func read(t *testing.T, files vfs.FS, name string) string {
	f, err := files.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	return string(b)
}

func TestPowerCutKeepsWhatIsSynced(t *testing.T) {
	crashable := pebbletest.NewCrashFS()
	files := crashable.FS()
	var begun []int
	crashable.BeforeEachOperation(func(operation int) { begun = append(begun, operation) })
	f, err := files.Create("file", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write([]byte("synced"))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	root, err := files.OpenDir("/")
	require.NoError(t, err)
	require.NoError(t, root.Sync())
	_, err = f.Write([]byte(" and not"))
	require.NoError(t, err)
	crashable.BeforeEachOperation(nil)

	require.Equal(t, []int{0, 1, 2, 3, 4}, begun, "create, write, sync, sync, write")
	require.Equal(t, 5, crashable.OperationCount())
	require.Equal(t, "synced", read(t, crashable.AfterPowerCut(0, 1).FS(), "file"))
	require.Equal(t, "synced and not", read(t, crashable.AfterPowerCut(100, 1).FS(), "file"))

	left := crashable.AfterPowerCut(0, 1)
	require.NoError(t, left.FS().Remove("file"))
	require.Equal(t, 1, left.OperationCount())
	require.Equal(t, "synced and not", read(t, files, "file"), "the file systems are independent")
	require.Equal(t, "synced", read(t, left.AfterPowerCut(0, 1).FS(), "file"), "an unsynced removal can be lost")
	require.NoError(t, f.Close())
	require.NoError(t, root.Close())
}

func TestTamperNeedsADatabase(t *testing.T) {
	_, err := pebbletest.OpenTamperer(vfs.NewMem(), "nothing", "default")
	require.Error(t, err)
}
