// Package rowstoretest has helpers for tests of row values.
package rowstoretest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/rowstore"
)

// RequireRoundTrip decodes a value, encodes the result, and decodes it again. It requires both results
// to be equal, unless the first decoding returns ErrDamaged.
func RequireRoundTrip[S any](t *testing.T, value []byte, decode func([]byte) (S, error), encode func(S) []byte) {
	t.Helper()
	s, err := decode(value)
	if err != nil {
		require.ErrorIs(t, err, rowstore.ErrDamaged)
		return
	}
	again, err := decode(encode(s))
	require.NoError(t, err)
	require.Equal(t, s, again)
}
