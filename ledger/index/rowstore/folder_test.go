package rowstore

import (
	"slices"
	"strings"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// filledRows returns the files of a closed store with two keyspaces, and the store's dump.
func filledRows(t *testing.T) (files *vfs.MemFS, lines []string) {
	t.Helper()
	files = vfs.NewMem()
	s := openTestRows(t, files)
	for _, name := range []string{"a", "b"} {
		keys, err := s.KeyspaceOf(name)
		require.NoError(t, err)
		for seq := range uint64(20) {
			require.NoError(t, s.engine.Set(AppendSeq(keys.AppendPrefix(nil, testSeq), seq), []byte("value"), engine.NoSync))
		}
	}
	lines, err := s.Dump()
	require.NoError(t, err)
	require.NoError(t, s.Close(nil))
	return files, lines
}

// If emptying a store is interrupted at any moment, the next start completes it. A partly emptied
// store is never opened.
func TestEmptyingIsInterrupted(t *testing.T) {
	for fail := 0; ; fail++ {
		files, lines := filledRows(t)
		folder := (&Config{FS: files, Dir: "index", Layout: "a layout of tests\n"}).folder()
		whole, err := folder.contents()
		require.NoError(t, err)
		operations := 0
		broken := folder
		broken.files = errorfs.Wrap(files, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
				return nil
			}
			if operations++; operations > fail {
				return errorfs.ErrInjected
			}
			return nil
		}))
		err = broken.empty()
		if err == nil {
			require.Greater(t, fail, len(whole))
			break
		}
		require.ErrorIs(t, err, errorfs.ErrInjected)
		left, err := folder.contents()
		require.NoError(t, err)
		stored, err := folder.readLayout()
		require.NoError(t, err)
		require.True(t, stored == damagedLayout || len(left) == len(whole) || len(left) == 0, "%q with %q", stored, left)
		s := openTestRows(t, files)
		got, err := s.Dump()
		require.NoError(t, err)
		require.True(t, len(got) == 0 || slices.Equal(lines, got), "%s", strings.Join(got, "\n"))
		keys, err := s.KeyspaceOf("a")
		require.NoError(t, err)
		require.NoError(t, s.engine.Set(AppendSeq(keys.AppendPrefix(nil, testSeq), 21), nil, engine.NoSync))
		require.NoError(t, s.Close(nil))
	}
}
