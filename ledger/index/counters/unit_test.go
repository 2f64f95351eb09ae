package counters

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index/rowstore"
)

func FuzzDecodeSeries(f *testing.F) {
	f.Add(SeriesOf(MetricHashChecks, "ipc_record", "ipc_id", "match").appendName(nil))
	f.Add(SeriesOf(MetricCitationConflicts).appendName(nil))
	f.Add([]byte("nonsense"))
	f.Fuzz(func(t *testing.T, name []byte) {
		decoded, err := decodeSeries(name)
		if err != nil {
			require.ErrorIs(t, err, rowstore.ErrDamaged)
			return
		}
		again, err := decodeSeries(decoded.appendName(nil))
		require.NoError(t, err)
		require.Equal(t, decoded, again)
	})
}
