//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package folderlock

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// Taking a lock neither truncates the lock file nor follows a symbolic link, even if the link is
// created after the check for links.
func TestLockFilesAreNotEmptied(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "LOCK")
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	lock, err := Take(dir)
	require.NoError(t, err)
	_, err = Take(dir)
	require.ErrorIs(t, err, storage.ErrInUse)
	require.NoError(t, lock.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))

	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(path, link))
	_, err = lockFiles(vfs.Default).Lock(link)
	require.Error(t, err)
}
