package indextest

import (
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/ledger/record"
)

// distinct returns the body of the n-th record. These records have almost nothing in common,
// so they are the most expensive ones to index.
func distinct(t tester, n int) string {
	t.Helper()
	return posted(t, record.KindIPCRecord, fmt.Sprintf(
		`{"run_id":"run-%d","payload":{"instruction":"why %d?","seed":7},"system_prompt":"Be kind.","output":"because %d","model":"gpt-4",
		"temperature":0.7,"max_tokens":256}`, n, n, n))
}

// distinctBatches returns the bodies of the given number of events, split into batches of the given
// size, as a ledger commits them.
func distinctBatches(t tester, events, each int) [][]string {
	t.Helper()
	var batches [][]string
	for n := 0; n < events; n += each {
		batch := make([]string, 0, each)
		for i := range each {
			batch = append(batch, distinct(t, n+i))
		}
		batches = append(batches, batch)
	}
	return batches
}

// cpuTime returns the CPU time that the process has used, in microseconds.
func cpuTime(t tester) float64 {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	in := func(v syscall.Timeval) float64 { return float64(v.Sec)*1e6 + float64(v.Usec) }
	return in(usage.Utime) + in(usage.Stime)
}

// indexCost sums the costs of several indexes.
type indexCost struct {
	events                         int
	cpu                            float64 // in microseconds
	flushed, compacted, left, keys uint64  // keys is a count; the others are in bytes
}

// add adds the cost of an index that is about to be closed. It first waits until no compaction is
// running.
func (c *indexCost) add(t tester, s *index.Store, events int) {
	t.Helper()
	require.NoError(t, s.RowStore().DB().Flush())
	m := s.RowStore().DB().Metrics()
	for m.Compact.NumInProgress > 0 {
		time.Sleep(10 * time.Millisecond)
		m = s.RowStore().DB().Metrics()
	}
	c.cpu += cpuTime(t)
	for _, level := range m.Levels {
		c.flushed += level.TableBytesFlushed
		c.compacted += level.TableBytesCompacted
		c.left += uint64(level.TablesSize)
	}
	it, err := s.RowStore().DB().NewIter(nil)
	require.NoError(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		c.keys++
	}
	require.NoError(t, it.Close())
	c.events += events
}

func (c *indexCost) report(b *testing.B) {
	b.Helper()
	each := func(n float64, unit string) { b.ReportMetric(n/float64(c.events), unit+"/event") }
	each(c.cpu, "cpu-us")
	each(float64(c.keys), "keys")
	each(float64(c.flushed), "flushed-B")
	each(float64(c.compacted), "compacted-B")
	each(float64(c.left), "disk-B")
}

// BenchmarkFoldDistinct builds the index of an existing log.
func BenchmarkFoldDistinct(b *testing.B) {
	const events = 300_000
	log := newJournal(b, "default")
	log.forgetful = true
	for _, bodies := range distinctBatches(b, events, 1000) {
		log.append(bodies...)
	}
	benchmarkFold(b, log, events)
}

// benchmarkFold builds the index of a log that has the given number of events.
func benchmarkFold(b *testing.B, log *journal, events int) {
	b.Helper()
	var cost indexCost
	b.ReportAllocs()
	for b.Loop() {
		begin := cpuTime(b)
		s, err := query.OpenIndex(index.Config{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(b, err)
		log.catchUp(follow(b, s, log))
		cost.cpu -= begin
		cost.add(b, s, events)
		require.NoError(b, s.Close())
	}
	cost.report(b)
}

// BenchmarkFollowDistinct follows a log that grows in small commits.
func BenchmarkFollowDistinct(b *testing.B) {
	const events, each = 300_000, 64
	batches := distinctBatches(b, events, each)
	var cost indexCost
	b.ReportAllocs()
	for b.Loop() {
		log := newJournal(b, "default")
		log.forgetful = true
		s, err := query.OpenIndex(index.Config{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(b, err)
		f := follow(b, s, log)
		begin := cpuTime(b)
		for _, bodies := range batches {
			log.append(bodies...)
			log.catchUp(f)
		}
		cost.cpu -= begin
		cost.add(b, s, len(batches)*each)
		require.NoError(b, s.Close())
	}
	cost.report(b)
}
