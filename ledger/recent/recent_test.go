package recent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckpoints(t *testing.T) {
	var c Checkpoints
	require.Nil(t, c.Get(1))
	for size := uint64(2); size <= 4*maxCheckpoints; size += 2 {
		c.Add(size, []byte{byte(size)})
	}
	require.Equal(t, []byte{byte(4 * maxCheckpoints & 0xff)}, c.Get(4*maxCheckpoints))
	require.NotNil(t, c.Get(2*maxCheckpoints+2))
	require.Nil(t, c.Get(2*maxCheckpoints))
	require.Nil(t, c.Get(2*maxCheckpoints+3))
	require.Len(t, c.sizes, maxCheckpoints)
}
