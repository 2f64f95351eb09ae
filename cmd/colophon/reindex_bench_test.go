//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/storage/pebble"
)

// BenchmarkReindex posts records without HTTP while an index follows the log, and then rebuilds the
// index with reindex. It reports and compares the speed and the CPU time of both steps.
func BenchmarkReindex(b *testing.B) {
	for _, corpus := range []struct {
		name    string
		records int
		again   func(n int, random *rand.Rand) (input, output int)
	}{
		{"hardly any value is repeated", 200_000, func(n int, random *rand.Rand) (input, output int) {
			if input, output = n, n; random.IntN(10) == 0 {
				input = random.IntN(n + 1)
			}
			if random.IntN(20) == 0 {
				output = random.IntN(n + 1)
			}
			return input, output
		}},
		{"every input occurs ten times", 200_000, func(n int, random *rand.Rand) (input, output int) {
			return outputOf(n, random.IntN(20_000))
		}},
		{"a million records, one input fifty thousand times", 1_000_000, func(n int, random *rand.Rand) (input, output int) {
			if input = random.IntN(100_000); n%20 == 0 {
				input = 100_000
			}
			return outputOf(n, input)
		}},
	} {
		b.Run(corpus.name, func(b *testing.B) {
			for b.Loop() {
				data, random := b.TempDir(), rand.New(rand.NewPCG(5, 5))
				bodies := make([]string, corpus.records)
				for n := range bodies {
					input, output := corpus.again(n, random)
					bodies[n] = generation(n, input, output)
				}
				in := spent(b, func() { ingest(b, data, bodies) })
				bodies = nil
				debug.FreeOSMemory() // so that reindex starts as if in a new process
				rebuilt := spent(b, func() {
					c := &cli.Console{Out: io.Discard, Err: io.Discard}
					require.NoError(b, reindex(b.Context(), c, reindexOptions{offlineOptions: offlineOptions{data: data}}))
				})
				records := float64(corpus.records)
				b.ReportMetric(records/in.wall.Seconds(), "taken-in/s")
				b.ReportMetric(records/rebuilt.wall.Seconds(), "reindexed/s")
				b.ReportMetric(in.wall.Seconds()/rebuilt.wall.Seconds(), "times-as-fast")
				b.ReportMetric(in.cpu.Seconds()/rebuilt.cpu.Seconds(), "times-less-cpu")
				b.ReportMetric(float64(in.cpu.Microseconds())/records, "taking-in-cpu-us")
				b.ReportMetric(float64(rebuilt.cpu.Microseconds())/records, "reindex-cpu-us")
			}
		})
	}
}

// outputOf returns the input number and the output number of run n. One in three runs shares its
// output with many other runs.
func outputOf(n, input int) (_, output int) {
	if n%3 == 0 {
		return input, -input % 1000
	}
	return input, n
}

// generation returns the JSON of a record of about 1.5 KB.
func generation(n, input, output int) string {
	return fmt.Sprintf(`{"run_id":"run-%d","payload":{"seed":42,"q":"why %d?","context":%q},"system_prompt":"Be kind %d.","output":"because %d, %s",
		"model":"model-%d","temperature":0.7,"max_tokens":512,"labels":{"experiment":"e-%d"}}`,
		n, input, strings.Repeat("as it was said before ", 20), n%32, output, strings.Repeat("for reasons ", 60), n%3, n/5000)
}

// ingest posts records to a new ledger from many goroutines, and waits until the index has folded
// them all.
func ingest(b *testing.B, data string, bodies []string) {
	b.Helper()
	ctx, log := b.Context(), slog.New(slog.DiscardHandler)
	database, err := pebble.Open(ctx, pebble.Config{Dir: datadir.DatabaseFolder(data), Logger: log})
	require.NoError(b, err)
	host, err := ledger.OpenHost(ctx, database, keystore.KeyFiles{Dir: b.TempDir()}, func(string) ledger.Config { return ledger.Config{Logger: log} })
	require.NoError(b, err)
	l, err := host.Create(ctx, ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(b, err)
	folded, err := query.OpenIndex(index.Config{Dir: datadir.IndexFolder(data), Logger: log})
	require.NoError(b, err)
	follower, err := folded.Follow(l.Name(), l.Reader())
	require.NoError(b, err)
	l.OnCommit(func(ledger.Commit) { follower.Wake() })
	var next atomic.Int64
	var posting sync.WaitGroup
	for range 1024 {
		posting.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(bodies)); n = next.Add(1) - 1 {
				if err := post(ctx, l, bodies[n]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	posting.Wait()
	require.NoError(b, follower.WaitForSize(ctx, uint64(len(bodies))+1))
	require.NoError(b, folded.Close())
	require.NoError(b, host.Close())
	require.NoError(b, database.Close())
}

// post submits a record as the API does. It returns once the record is durable.
func post(ctx context.Context, l *ledger.Ledger, body string) error {
	r, err := record.DefaultLimits().WithPayloadMemberSecret(l.PayloadMemberSecret()).ParseRecord(record.KindIPCRecord, []byte(body))
	if err != nil {
		return err
	}
	defer r.Release()
	submission, err := l.PrepareRecord(r, ledger.AnonymousActor, "")
	if err != nil {
		return err
	}
	ticket, err := l.Enqueue(ctx, submission)
	if err != nil {
		return err
	}
	_, err = ticket.Wait()
	return err
}

// cost holds the wall-clock time and the CPU time of a step.
type cost struct{ wall, cpu time.Duration }

// spent calls do and returns the time that the call took.
func spent(b *testing.B, do func()) cost {
	b.Helper()
	begin, used := time.Now(), processorTime(b)
	do()
	return cost{time.Since(begin), processorTime(b) - used}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
