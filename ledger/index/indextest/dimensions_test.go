package indextest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/query"
)

// Every dimension with versions says how long its rows are, and no other does.
func TestRowBytes(t *testing.T) {
	for d, n := range index.SchemaOf(query.Families()) {
		if n > 0 {
			require.NotZero(t, d&rowstore.VersionedBit, "%#x", d)
		}
	}
}
