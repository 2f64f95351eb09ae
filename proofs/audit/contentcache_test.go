package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// ContentCache keeps the most recently used pieces that fit into its capacity. It also keeps a
// single piece that exceeds the capacity.
func TestContentCache(t *testing.T) {
	c := NewContentCache(10)
	put := func(name byte, size int) { c.Put(proofs.Hash{name}, make([]byte, size)) }
	kept := func() (names string) {
		for name := byte('a'); name < 'h'; name++ {
			if at, is := c.pieces[proofs.Hash{name}]; is {
				require.Len(t, at.Value.(cachedPiece).bytes, int(name-'a'))
				names += string(name)
			}
		}
		return names
	}
	put('d', 3)
	put('e', 4)
	put('d', 3) // d is already cached
	require.Equal(t, "de", kept())
	require.Equal(t, 7, c.bytes)
	_, cached := c.Get(proofs.Hash{'d'})
	require.True(t, cached)
	put('f', 5) // e is the least recently used piece
	require.Equal(t, "df", kept())
	_, cached = c.Get(proofs.Hash{'e'})
	require.False(t, cached)
	c = NewContentCache(3)
	put('f', 5)
	require.Equal(t, "f", kept())
	put('c', 2)
	require.Equal(t, "c", kept())
	require.Equal(t, 2, c.bytes)
}
