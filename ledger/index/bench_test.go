package index

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkFold builds the index of 100,000 IPC records on disk.
func BenchmarkFold(b *testing.B) {
	const events = 100_000
	log := newJournal(b, "default")
	for n := 0; n < events; n += 1000 {
		log.append(plains(b, n, n+1000)...)
	}
	bytes := 0
	for _, entry := range log.entries {
		bytes += len(entry)
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		s, err := Open(b.TempDir(), slog.New(slog.DiscardHandler))
		require.NoError(b, err)
		log.catchUp(follow(b, s, log))
		require.NoError(b, s.Close())
	}
	b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
