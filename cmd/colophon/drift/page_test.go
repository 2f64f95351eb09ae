package drift

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHashesAreShortenedUnlessFull(t *testing.T) {
	hash := "0123456789abcdef"
	d := &commands{}
	require.Equal(t, "-", d.hashOr(nil))
	require.Equal(t, "0123456789ab…", d.hashOr(&hash))
	d.full = true
	require.Equal(t, "-", d.hashOr(nil))
	require.Equal(t, hash, d.hashOr(&hash))
}
