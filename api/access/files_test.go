//go:build !windows

package access

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// If another kind of file replaces the tokens file, no request blocks, all tokens are rejected, and
// only one line is logged. The original file works again once it is back.
func TestOnlyARegularFileHasTokens(t *testing.T) {
	b := open(t, Rules{})
	made := b.token("one")
	b.accepts(with("Bearer "+made.Text), "one")
	path := filepath.Join(b.store.Dir, tokensFile)
	kept := filepath.Join(t.TempDir(), "kept")
	for name, put := range map[string]func() error{
		"a pipe":                    func() error { return syscall.Mkfifo(path, 0o600) },
		"a folder":                  func() error { return os.Mkdir(path, 0o700) },
		"a link to the file itself": func() error { return os.Symlink(kept, path) },
		"a link to nowhere":         func() error { return os.Symlink(kept+"x", path) },
		"a link to a device":        func() error { return os.Symlink("/dev/zero", path) },
	} {
		require.NoError(t, os.Rename(path, kept))
		require.NoError(t, put(), name)
		before := len(b.log.String())
		b.refuses(with("Bearer "+made.Text), "all tokens are rejected")
		b.refuses(with("Bearer "+made.Text), "is not a regular file")
		require.True(t, b.RequiresIdentity(), name)
		require.Equal(t, 1, strings.Count(b.log.String()[before:], "level=ERROR"), name)
		_, err := b.store.List()
		require.ErrorContains(t, err, "is not a regular file", name)
		_, err = Open(Config{Dir: b.store.Dir})
		require.ErrorContains(t, err, "is not a regular file", name)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Rename(kept, path))
		b.accepts(with("Bearer "+made.Text), "one")
	}
}

// A dangling link in place of the tokens file does not admit requests without credentials, even if no token
// ever existed.
func TestDanglingLinksCountAsStores(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "access")
	require.NoError(t, os.Symlink(dir+"x", dir))
	_, err := Open(Config{Dir: dir})
	require.ErrorContains(t, err, "is missing")

	b := open(t, Rules{}) // without tokens
	require.NoError(t, os.MkdirAll(b.store.Dir, 0o700))
	require.NoError(t, os.Symlink("x", filepath.Join(b.store.Dir, tokensFile)))
	require.True(t, b.RequiresIdentity())
}

func TestLastUsesAreInARegularFile(t *testing.T) {
	b := open(t, Rules{})
	made := b.token("one")
	require.NoError(t, syscall.Mkfifo(filepath.Join(b.store.Dir, lastUseFile), 0o600))
	b.reopen(Rules{})
	require.Contains(t, b.log.String(), "is not a regular file")
	list, err := b.store.List()
	require.NoError(t, err)
	require.True(t, list[0].LastUse.IsZero())
	b.accepts(with("Bearer "+made.Text), "one") // the running server replaces the pipe with a file
	list, err = b.store.List()
	require.NoError(t, err)
	require.False(t, list[0].LastUse.IsZero())
}
