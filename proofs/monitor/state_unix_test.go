//go:build unix

package monitor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An audit does not follow links that another user has put in place of its state, and does not
// trust files that other users can write to.
func TestStatesThatOthersCanChangeAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	for name, put := range map[string]func(dir string) error{
		"is a link": func(dir string) error { return os.Symlink(filepath.Dir(path), dir) },
		"can put files into": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777))
		},
		"not a regular file": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Symlink(path, filepath.Join(dir, "LOCK")))
		},
	} {
		file := filepath.Join(t.TempDir(), "state.json")
		require.NoError(t, put(file+".d"))
		_, err := openState(file, nil)
		require.ErrorContains(t, err, name)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "precious", string(text))
	}
	file := filepath.Join(t.TempDir(), "state.json")
	require.NoError(t, os.WriteFile(file, []byte("{}"), 0o600))
	require.NoError(t, os.Chmod(file, 0o666))
	_, err := openState(file, nil)
	require.ErrorContains(t, err, "anyone can write to")
}
