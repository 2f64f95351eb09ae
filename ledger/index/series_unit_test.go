package index

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

func FuzzDecodeSeries(f *testing.F) {
	f.Add(counters.SeriesOf(counters.ChecksTotal, "ipc_record", "ipc_id", "match").AppendName(nil))
	f.Add(counters.SeriesOf(counters.ConflictsTotal).AppendName(nil))
	f.Add([]byte("nonsense"))
	f.Fuzz(func(t *testing.T, name []byte) {
		decoded, err := counters.DecodeSeries(name)
		if err != nil {
			require.ErrorIs(t, err, rowstore.ErrDamaged)
			return
		}
		again, err := counters.DecodeSeries(decoded.AppendName(nil))
		require.NoError(t, err)
		require.Equal(t, decoded, again)
	})
}
