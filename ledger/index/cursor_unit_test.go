package index

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzDecodeCursor(f *testing.F) {
	f.Add(cursor{size: 7, tip: [32]byte{1}}.append(nil, false))
	f.Add(cursor{size: 7}.append(nil, true))
	f.Add(cursor{size: 1}.append(nil, false))
	f.Add([]byte("nonsense"))
	f.Fuzz(func(t *testing.T, value []byte) {
		decoded, err := decodeCursor(value)
		if err != nil {
			return
		}
		require.Equal(t, value, decoded.append(nil, false))
	})
}
