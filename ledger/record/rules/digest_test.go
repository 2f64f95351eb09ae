package rules_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/rules"
)

// TestIsDigest checks that IsDigest agrees with IsHexDigits for every byte at every position.
func TestIsDigest(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 4)
	require.True(t, rules.IsDigest(text))
	require.False(t, rules.IsDigest(text[1:]))
	require.False(t, rules.IsDigest(append(bytes.Clone(text), '0')))
	require.False(t, rules.IsDigest(nil))
	for at := range text {
		for c := range 256 {
			changed := bytes.Clone(text)
			changed[at] = byte(c)
			require.Equal(t, rules.IsHexDigits(changed, len(changed)), rules.IsDigest(changed), "%q at %d", c, at)
		}
	}
}
