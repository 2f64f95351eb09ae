// Package rowstoretest has what tests of values of rows share.
package rowstoretest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/rowstore"
)

// Reread fails unless a value cannot be decoded, because it is damaged, or decodes to what
// is encoded as a value that decodes to the same.
func Reread[S any](t *testing.T, value []byte, decode func([]byte) (S, error), encode func(S) []byte) {
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
