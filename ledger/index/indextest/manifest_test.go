package indextest

import (
	"io"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// latestFile returns the name and contents of the last index file, by name, that matches pattern.
func latestFile(t *testing.T, files vfs.FS, pattern string) (name string, text []byte) {
	t.Helper()
	names, err := files.List("index")
	require.NoError(t, err)
	for _, one := range names {
		matched, err := path.Match(pattern, one)
		require.NoError(t, err)
		if matched {
			name = max(name, one)
		}
	}
	require.NotEmpty(t, name)
	name = files.PathJoin("index", name)
	f, err := files.Open(name)
	require.NoError(t, err)
	text, err = io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return name, text
}

// An index is rebuilt if one bit of its manifest has changed. Otherwise, the engine would continue
// from the state before the changed record. It would reuse sequence numbers, and old writes would
// hide new ones.
func TestOneBitOfTheManifest(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 50)...)
	files := vfs.NewMem()
	c := testConfig(files)
	for _, size := range []int{70, 90} { // one log size for each of the two manifests
		s := openTest(t, c)
		log.catchUp(follow(t, s, log))
		log.append(plains(t, size-20, size)...)
		require.NoError(t, s.Close())
	}
	name, sound := latestFile(t, files, "MANIFEST-*")
	whole := log.refold()
	for at := range sound {
		damaged := vfs.NewMem()
		_, err := vfs.Clone(files, damaged, "index", "index")
		require.NoError(t, err)
		f, err := damaged.Create(name, vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		text := append([]byte(nil), sound...)
		text[at] ^= 1 << (at % 8)
		_, err = f.Write(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())

		c.RowStore.FS = damaged
		s := openTest(t, c)
		follower := follow(t, s, log)
		log.catchUp(follower)
		log.check(follower)
		requireSame(t, whole, dump(t, s))
		require.NoError(t, s.Close())
	}
}
