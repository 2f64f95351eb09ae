package recent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckpoints(t *testing.T) {
	var c Checkpoints
	require.Nil(t, c.Get(1))
	for size := uint64(2); size <= 4*most; size += 2 {
		c.Add(size, []byte{byte(size)})
	}
	require.Equal(t, []byte{byte(4 * most & 0xff)}, c.Get(4*most))
	require.NotNil(t, c.Get(2*most+2))
	require.Nil(t, c.Get(2*most))
	require.Nil(t, c.Get(2*most+3))
	require.Len(t, c.sizes, most)
}
