//go:build unix

package keystore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
)

// init sets a umask with which only the owner can write to new folders. With umask 002, the group
// could write too, and the key store would refuse the folders.
func init() { syscall.Umask(0o022) }

// The folders of keys and marks become durable in the data folder before a write succeeds. Otherwise,
// a power loss could keep the log without them.
func TestNewFoldersAreDurable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs a user other than root: root can open every folder")
	}
	signer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(data, 0o300)) // a folder that cannot be opened cannot be synced
	require.ErrorIs(t, keystore.KeyFiles{Dir: filepath.Join(data, "keys")}.Stage("a", signer), fs.ErrPermission)
	require.ErrorIs(t, keystore.HighWaterMarkFiles{Dir: filepath.Join(data, "marks")}.SetMark("a", []byte("mark")), fs.ErrPermission)
	require.NoError(t, os.Chmod(data, 0o700), "so that the test can remove it")
}

// Keys and marks are refused if other users can write to their folder, or if the path is a symbolic
// link.
func TestFoldersAndLinksOfOthersAreRefused(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	keys, marks := keystore.KeyFiles{Dir: filepath.Join(dir, "keys")}, keystore.HighWaterMarkFiles{Dir: filepath.Join(dir, "marks")}
	require.NoError(t, keys.Stage("a", signer))
	require.NoError(t, keys.ConfirmStaged("a"))
	require.NoError(t, marks.SetMark("a", []byte("mark")))

	for _, mode := range []os.FileMode{0o777, 0o770, 0o702} {
		require.NoError(t, os.Chmod(keys.Dir, mode))
		require.NoError(t, os.Chmod(marks.Dir, mode))
		_, err = keys.Load("a")
		require.ErrorContains(t, err, "other users can put files into")
		require.ErrorContains(t, keys.StageNext("a", signer), "other users can put files into")
		require.NoFileExists(t, keys.NextKeyPath("a"))
		_, err = marks.Mark("a")
		require.ErrorContains(t, err, "other users can put files into")
		require.ErrorContains(t, marks.SetMark("a", []byte("new")), "other users can put files into")
	}
	require.NoError(t, os.Chmod(keys.Dir, 0o700))
	require.NoError(t, os.Chmod(marks.Dir, 0o700))

	require.NoError(t, os.Rename(keys.Path("a"), kept))
	require.NoError(t, os.Symlink(kept, keys.Path("a")))
	_, err = keys.Load("a")
	require.ErrorContains(t, err, "not a regular file")
	require.NotErrorIs(t, err, storage.ErrNotFound)
	require.NoError(t, os.Symlink(kept, keys.NextKeyPath("a")))
	_, err = keys.LoadNext("a", nil)
	require.ErrorContains(t, err, "not a regular file")
	variables := keystore.EnvKeys{KeyFiles: keys, Lookup: func(string) (string, bool) { return signer.Secret(), true }}
	require.NoError(t, os.Remove(keys.Path("a")))
	require.NoError(t, os.Symlink(kept, variables.LastSignerPath("a")))
	_, err = variables.Load("a")
	require.ErrorContains(t, err, "not a regular file")

	before, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(kept, marks.Path("a")+".new"))
	require.ErrorContains(t, marks.SetMark("a", []byte("new")), "not a regular file")
	after, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, os.Remove(marks.Path("a")))
	require.NoError(t, os.Symlink(kept, marks.Path("a")))
	_, err = marks.Mark("a")
	require.ErrorContains(t, err, "not a regular file")
	require.NotErrorIs(t, err, storage.ErrNotFound)
}

// Only the owner can read the key files. A key file that other users can read or write is refused.
func TestKeyFilesThatOthersCanRead(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	keys := keystore.KeyFiles{Dir: filepath.Join(t.TempDir(), "keys")}
	require.NoError(t, keys.Stage("a", signer))
	require.NoError(t, keys.StageNext("a", signer))
	require.NoError(t, os.Link(keys.NextKeyPath("a"), keys.PreviousKeyPath("a")))
	for path, load := range map[string]func() error{
		keys.StagedKeyPath("a"):   func() error { _, err := keys.LoadStaged("a"); return err },
		keys.NextKeyPath("a"):     func() error { _, err := keys.LoadNext("a", nil); return err },
		keys.PreviousKeyPath("a"): func() error { _, err := keys.LoadOtherSigners("a"); return err },
	} {
		require.NoError(t, load(), path)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm(), path)
		for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602} {
			require.NoError(t, os.Chmod(path, mode))
			require.ErrorContains(t, load(), "run: chmod 600 ", "%s, mode %o", path, mode)
		}
		require.NoError(t, os.Chmod(path, 0o600))
	}
}
