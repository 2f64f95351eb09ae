package pebble

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage/pebble/internal/erase"
)

// The footer of a file locates its other blocks and is read first. If any bit of a footer is
// flipped, operations that need the file fail, but the process continues.
func TestEveryBitOfAFooter(t *testing.T) {
	const footer = 38 // in bytes; about the length of the shortest table footer
	files := vfs.NewMem()
	db, l := newLedger(t, files)
	all := commits(t, l, 1)
	require.NoError(t, db.engine.Flush())
	require.NoError(t, db.Close())
	for _, suffix := range []string{erase.TableSuffix, erase.ValueFileSuffix} {
		for _, name := range matching(t, files, "*"+suffix) {
			sound := readFile(t, files, name)
			for bit := 8 * (len(sound) - footer); bit < 8*len(sound); bit++ {
				damaged := append([]byte{}, sound...)
				damaged[bit/8] ^= 1 << (bit % 8)
				left := vfs.NewMem()
				_, err := vfs.Clone(files, left, testDir, testDir)
				require.NoError(t, err)
				writeFile(t, left, name, damaged)
				requireDamage(t, left, all)
			}
		}
	}
}
