package rowstore

import (
	"bytes"
	"cmp"
	"math"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawKey returns a random key of the index. It uses few distinct bytes, so that keys share
// prefixes.
func drawKey(t *rapid.T, name string, d Dimension) []byte {
	k := KeyspaceFromNumber(rapid.Uint16Range(0, 2).Draw(t, name+" ledger")).AppendPrefix(nil, d)
	some := rapid.SampledFrom([]byte{0, 1, 0xff})
	if testSchema[d] == 0 {
		return append(k, rapid.SliceOfN(some, 0, 30).Draw(t, name)...)
	}
	row := rapid.SliceOfN(some, testSchema[d], testSchema[d]).Draw(t, name)
	return AppendVersion(append(k, row...), rapid.SampledFrom([]uint64{0, 1, 1 << 40, math.MaxUint64}).Draw(t, name+" version"))
}

// The comparer orders keys by their bytes, both with and without the version at the end. The engine
// relies on both orders.
func TestComparer(t *testing.T) {
	c := testSchema.comparer()
	require.NotEqual(t, engine.DefaultComparer.Name, c.Name, "an index with another comparer is refused")
	rapid.Check(t, func(t *rapid.T) {
		dimensions := rapid.SampledFrom([]Dimension{numberDimension, 0x01, 0x02, 0x22, testPlain, testSeq, testOnly})
		of := dimensions.Draw(t, "dimension")
		a, b := drawKey(t, "a", of), drawKey(t, "b", rapid.SampledFrom([]Dimension{of, of, dimensions.Draw(t, "another")}).Draw(t, "of b"))
		order := bytes.Compare(a, b)
		require.Equal(t, order, c.Compare(a, b))
		require.Equal(t, order == 0, c.Equal(a, b))
		if c.AbbreviatedKey(a) < c.AbbreviatedKey(b) {
			require.Negative(t, order)
		}
		rowA, rowB := a[:c.Split(a)], b[:c.Split(b)]
		if a[len(Keyspace{})]&VersionedBit > 0 {
			require.Len(t, rowA, len(a)-VersionSize)
			require.Negative(t, c.Compare(rowA, a))
		} else {
			require.Equal(t, a, rowA)
		}
		require.Equal(t, len(rowA), c.Split(rowA), "Split returns the length of a row that has no version")
		if order <= 0 {
			require.LessOrEqual(t, c.Compare(rowA, rowB), 0)
		}
		if bytes.Equal(rowA, rowB) {
			require.Equal(t, order, c.ComparePointSuffixes(a[len(rowA):], b[len(rowB):]))
		}
		require.LessOrEqual(t, c.Compare(a, c.Successor(nil, a)), 0)
		if order < 0 {
			between := c.Separator(nil, a, b)
			require.LessOrEqual(t, c.Compare(a, between), 0)
			require.Negative(t, c.Compare(between, b))
		}
	})
}

// Keys with later versions sort first, and DecodeVersion returns the seq in a key.
func TestVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		first, second := AppendVersion([]byte("row"), a), AppendVersion([]byte("row"), b)
		require.Equal(t, a, DecodeVersion(first))
		require.Equal(t, cmp.Compare(b, a), bytes.Compare(first, second))
	})
}
