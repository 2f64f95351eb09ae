package indextest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/query"
)

// Only dimensions whose rows have versions declare the length of a row's key.
func TestRowBytes(t *testing.T) {
	for d, n := range index.SchemaOf(query.Families()) {
		if n > 0 {
			require.NotZero(t, d&rowstore.VersionedBit, "%#x", d)
		}
	}
}
