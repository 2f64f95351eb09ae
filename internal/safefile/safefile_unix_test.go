//go:build unix

package safefile

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const stranger = 54321 // the ID of another user

// give changes the owner of a file. If the test does not run as root, give skips the test.
func give(t *testing.T, path string, uid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can give a file to another user")
	}
	require.NoError(t, os.Lchown(path, uid, uid))
}

// made creates a folder that contains a file named f, sets the given modes, and returns the paths
// of both.
func made(t *testing.T, folder, file fs.FileMode) (dir, path string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "folder")
	path = filepath.Join(dir, "f")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	require.NoError(t, os.Chmod(path, file))
	require.NoError(t, os.Chmod(dir, folder))
	return dir, path
}

func TestModesOfFiles(t *testing.T) {
	for _, c := range []struct {
		mode                         fs.FileMode
		read, private, named, secret bool // whether the function under test accepts the file
	}{
		{0o600, true, true, true, true},
		{0o400, true, true, true, true},
		{0o640, true, false, true, true},
		{0o660, true, false, true, true},
		{0o644, true, false, true, false},
		{0o602, false, false, false, false},
		{0o666, false, false, false, false},
	} {
		_, path := made(t, 0o700, c.mode)
		_, err := Read(path)
		require.Equal(t, c.read, err == nil, "Read, mode %o: %v", c.mode, err)
		_, err = ReadPrivate(path)
		require.Equal(t, c.private, err == nil, "ReadPrivate, mode %o: %v", c.mode, err)
		err = CheckUserFile(path, false)
		require.Equal(t, c.named, err == nil, "CheckUserFile, mode %o: %v", c.mode, err)
		err = CheckUserFile(path, true)
		require.Equal(t, c.secret, err == nil, "CheckUserFile of a secret, mode %o: %v", c.mode, err)
	}
}

func TestModesOfFolders(t *testing.T) {
	for _, c := range []struct {
		mode         fs.FileMode
		folder, data bool // whether the function under test accepts the folder
	}{
		{0o700, true, true}, {0o755, true, true}, {0o770, false, true}, {0o777, false, false}, {0o702, false, false},
	} {
		dir, path := made(t, c.mode, 0o600)
		err := CheckFolder(dir)
		require.Equal(t, c.folder, err == nil, "CheckFolder, mode %o: %v", c.mode, err)
		err = CheckDataFolder(dir)
		require.Equal(t, c.data, err == nil, "CheckDataFolder, mode %o: %v", c.mode, err)
		require.Error(t, CheckFolder(path))
		require.Error(t, CheckDataFolder(path))
	}
}

// Read, ReadPrivate, and Create do not follow links and do not block on pipes.
func TestOnlyRegularFiles(t *testing.T) {
	for name, put := range map[string]func(path, other string) error{
		"a link":            func(path, other string) error { return os.Symlink(other, path) },
		"a link to nowhere": func(path, other string) error { return os.Symlink(other+"x", path) },
		"a pipe":            func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":          func(path, _ string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, other := made(t, 0o700, 0o600)
			path := filepath.Join(dir, "put")
			require.NoError(t, put(path, other))
			_, err := Read(path)
			require.ErrorContains(t, err, "not a regular file")
			_, err = ReadPrivate(path)
			require.ErrorContains(t, err, "not a regular file")
			_, err = Create(path)
			require.ErrorContains(t, err, "not a regular file")
			text, err := os.ReadFile(other)
			require.NoError(t, err)
			require.Equal(t, "text", string(text))
		})
	}
	dir, path := made(t, 0o700, 0o666)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(dir, link))
	require.ErrorContains(t, CheckNotSymlink(link), "is a link")
	require.NoError(t, CheckNotSymlink(dir))
	require.NoError(t, CheckFolder(link), "the owner may move the folder and leave a link")
	require.NoError(t, os.Chmod(path, 0o600))
	named := filepath.Join(dir, "named")
	require.NoError(t, os.Symlink(path, named))
	require.NoError(t, CheckUserFile(named, true), "a link that the operator names must be followed")
	require.NoError(t, os.Chmod(path, 0o666))
	require.Error(t, CheckUserFile(named, true))
	f, err := Create(path)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.EqualValues(t, 0o600, info.Mode().Perm(), "a new file, not the old one")
	_, err = Read(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A file that belongs to another user is refused, unless root reads it in a folder that belongs to
// that user.
func TestOwners(t *testing.T) {
	dir, path := made(t, 0o755, 0o600)
	give(t, path, stranger)
	_, err := Read(path)
	require.ErrorContains(t, err, "belongs to another user (uid 54321)")
	_, err = ReadPrivate(path)
	require.ErrorContains(t, err, "belongs to another user")
	give(t, dir, stranger)
	_, err = ReadPrivate(path)
	require.NoError(t, err, "the administrator works for the owner of the folder")
	require.ErrorContains(t, CheckFolder(dir), "belongs to another user")
	require.NoError(t, CheckDataFolder(dir))
	give(t, filepath.Dir(dir), stranger)
	require.NoError(t, CheckFolder(dir))
}

// A link that belongs to another user is refused, even if it points to a safe folder.
func TestLinksOfOthers(t *testing.T) {
	dir, _ := made(t, 0o700, 0o600)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, CheckFolder(link))
	give(t, link, stranger)
	require.ErrorContains(t, CheckFolder(link), "is a link that belongs to another user (uid 54321)")
	give(t, filepath.Dir(link), stranger)
	require.Error(t, CheckFolder(link), "a link in a folder of another user must be refused too")
}

// MkdirAll creates missing parents and accepts an existing folder. It does not succeed before the new
// folder is durable in its parent.
func TestMkdirAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 {
		require.NoError(t, MkdirAll(dir))
		info, err := os.Stat(filepath.Dir(dir))
		require.NoError(t, err)
		require.EqualValues(t, 0o700, info.Mode().Perm())
	}
	_, file := made(t, 0o700, 0o600)
	require.Error(t, MkdirAll(file))
	require.Error(t, MkdirAll(filepath.Join(file, "sub")))

	if os.Geteuid() == 0 {
		t.Skip("needs a user other than root: root can open every folder")
	}
	unread, _ := made(t, 0o300, 0o600) // a folder that cannot be opened cannot be synced
	require.ErrorIs(t, MkdirAll(filepath.Join(unread, "sub")), fs.ErrPermission)
	require.DirExists(t, filepath.Join(unread, "sub"))
	require.NoError(t, os.Chmod(unread, 0o700), "so that the test can remove it")
}

// OpenIn and CreateIn never leave the root, even if a folder in it is replaced by a link while the root
// is open.
func TestNothingOutsideOfARoot(t *testing.T) {
	outside, other := made(t, 0o700, 0o600)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "f"), []byte("inside"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	file, err := OpenIn(root, "sub/f")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	file, err = CreateIn(root, "sub/f")
	require.NoError(t, err)
	info, err := file.Stat()
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Zero(t, info.Size(), "a new file, not the old one")
	require.EqualValues(t, 0o600, info.Mode().Perm())

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "sub")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "sub")))
	for name, put := range map[string]func(path string) error{
		"sub/f":  func(string) error { return nil },
		"a link": func(path string) error { return os.Symlink(other, path) },
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		require.NoError(t, put(filepath.Join(dir, name)))
		_, err = OpenIn(root, name)
		require.Error(t, err, name)
		_, err = CreateIn(root, name)
		require.Error(t, err, name)
	}
	_, err = CreateIn(root, "sub/new")
	require.Error(t, err)
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}
