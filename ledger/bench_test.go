package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/pebble"
)

// BenchmarkSubmit measures the time from Submit to the durable acknowledgement for different
// numbers of writers. Each record has content and a key, and the database is on disk.
func BenchmarkSubmit(b *testing.B) {
	for _, writers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint(writers, "writers"), func(b *testing.B) {
			database, err := pebble.Open(b.Context(), pebble.Config{Dir: b.TempDir(), Logger: discard()})
			require.NoError(b, err)
			l, err := ledger.Open(b.Context(), store(b, storage.Database(database)), config(b))
			require.NoError(b, err)
			submissions := make([]ledger.Submission, b.N)
			for i := range submissions {
				submissions[i] = submission(b, l, ipc(b, fmt.Sprint("run/", i), fmt.Sprint("output ", i)), "")
			}
			commits := 0
			l.OnCommit(func(ledger.Commit) { commits++ })
			b.ReportAllocs()
			b.ResetTimer()
			parallel(writers, func(w int) {
				for i := w; i < len(submissions); i += writers {
					if _, err := l.Submit(submissions[i]); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			require.NoError(b, l.Close())
			b.ReportMetric(float64(b.N)/float64(max(commits, 1)), "records/commit")
			require.NoError(b, database.Close())
		})
	}
}
