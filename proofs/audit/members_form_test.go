package audit

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// isDigest says of every byte in every place what isDigits says.
func TestIsDigest(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 4)
	require.True(t, isDigest(text))
	require.False(t, isDigest(text[1:]))
	require.False(t, isDigest(append(bytes.Clone(text), '0')))
	require.False(t, isDigest(nil))
	for at := range text {
		for c := range 256 {
			changed := bytes.Clone(text)
			changed[at] = byte(c)
			require.Equal(t, isDigits(changed, len(changed)), isDigest(changed), "%q at %d", c, at)
		}
	}
}
