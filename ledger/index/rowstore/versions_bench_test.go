package rowstore

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// BenchmarkVersionsOldestFirst reads rows with one to three versions, and rows that do not exist. It
// compares two ways to read short rows: through the tables' filters, and with an iterator per row.
//
//	go test -run '^$' -bench VersionsOldestFirst ./ledger/index/rowstore
func BenchmarkVersionsOldestFirst(b *testing.B) {
	const rows, batches = 200_000, 40
	s := openTestRows(b, vfs.NewMem())
	defer func() { require.NoError(b, s.Close(nil)) }()
	id := func(row int) []byte {
		var name Identity
		binary.BigEndian.PutUint64(name[:], uint64(row)*0x9e3779b97f4a7c15) // spreads the rows over all keys
		return name[:]
	}
	w := Writer{engine: s.engine, Keyspace: KeyspaceFromNumber(1)}
	seq := uint64(0)
	for range batches {
		w.BeginBatch(Limits{BatchBytes: math.MaxInt})
		for range 2 * rows / batches {
			seq++
			w.Put(testPlain, id(int(seq*7919)%rows), seq, []byte("a value of twenty b."))
		}
		require.NoError(b, w.TakeBatch().Commit())
		require.NoError(b, w.EndBatch())
	}
	for name, first := range map[string]int{"present": 0, "absent": rows} {
		r := &Reader{Keyspace: w.Keyspace, snapshot: s.engine.NewSnapshot(), size: seq + 1}
		b.Run(name+"/filtered", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				for _, err := range r.VersionsOldestFirst(testPlain, id(first+i%rows), 0) {
					require.NoError(b, err)
				}
			}
		})
		b.Run(name+"/bounded", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				_, err := r.eachBackwards(testPlain, id(first+i%rows), 0, func(Version, error) bool { return true })
				require.NoError(b, err)
			}
		})
		require.NoError(b, r.Close())
	}
}
