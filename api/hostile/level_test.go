package hostile_test

import (
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// level holds the amounts of resources that an idle server uses.
type level struct {
	goroutines float64
	ledgers    float64
	open       []string // open files, excluding those of the databases; see openOutsideData
	// heap is the heap size, in bytes, at which the next garbage collection starts. It is twice the
	// memory that the last collection found to be in use.
	heap     float64
	resident float64 // resident memory in bytes; 0 if the system does not report it
}

func (l level) String() string {
	return fmt.Sprintf("%.0f goroutines, %d open files outside the databases, collections at %.0f MiB of heap, %.0f MiB resident, %.0f ledgers",
		l.goroutines, len(l.open), l.heap/(1<<20), l.resident/(1<<20), l.ledgers)
}

// Memory limits for the server's databases, in bytes. They are small, so that the warm-up of a long
// attack fills this memory. Growth after the warm-up then has another cause.
const (
	databaseCache = 8 << 20
	memTable      = 16 << 20 // size of each of the database's two memtables
	indexMemory   = 16 << 20
)

// above names a resource that the server uses more of than after the warm-up, or returns "" if
// there is none. It allows for additional ledgers, and for database caches that were not full yet.
// Any other growth is a leak.
func (l level) above(warm level) string {
	const (
		spareGoroutines = 8 // goroutines that the databases and the measurement itself might start
		perLedger       = 4 // goroutines
		spareFiles      = 4 // files that are open for the measurement itself
		caches          = databaseCache + 2*memTable + indexMemory
		spareHeap       = 2*caches + 32<<20   // in bytes
		spareResident   = spareHeap + 192<<20 // in bytes; large, because Go returns memory to the system late
	)
	switch {
	case l.goroutines > warm.goroutines+spareGoroutines+perLedger*(l.ledgers-warm.ledgers):
		return "goroutines are left"
	case len(l.open) > len(warm.open)+spareFiles:
		return fmt.Sprintf("files are left open: %v", l.open)
	case l.heap > warm.heap+spareHeap:
		return "the heap grew"
	case l.resident > warm.resident+spareResident:
		return "the memory grew"
	}
	return ""
}

// await calls check until it returns "", which means that nothing is wrong. After 3 minutes, it
// fails the test.
func await(t *testing.T, check func() string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; {
		found := check()
		if found == "" {
			return
		}
		require.True(t, time.Now().Before(end), found)
	}
}

// measure waits until the index is up to date and at least two garbage collections have run. Then
// it returns the resources that the server holds.
func (p *process) measure(t *testing.T) (l level) {
	t.Helper()
	begun := p.collections(t)
	await(t, func() string {
		families := p.families(t)
		for _, m := range families["colophon_index_lag_events"].GetMetric() {
			if m.GetGauge().GetValue() > 0 {
				return "the index is behind"
			}
		}
		l = level{
			goroutines: gauge(families["go_goroutines"]), ledgers: float64(len(families["colophon_ledger_tree_size"].GetMetric())),
			heap: gauge(families["go_memstats_next_gc_bytes"]), resident: gauge(families["process_resident_memory_bytes"]),
			open: p.openOutsideData(t),
		}
		if families["go_gc_duration_seconds"].GetMetric()[0].GetSummary().GetSampleCount() < begun+2 {
			return "fewer than two garbage collections have run"
		}
		return ""
	})
	return l
}

func (p *process) collections(t *testing.T) uint64 {
	t.Helper()
	return p.families(t)["go_gc_duration_seconds"].GetMetric()[0].GetSummary().GetSampleCount()
}

func gauge(f *dto.MetricFamily) float64 {
	if f == nil {
		return 0
	}
	return f.GetMetric()[0].GetGauge().GetValue()
}
