package hostile_test

import (
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// level is the amount of each resource that an idle server holds.
type level struct {
	goroutines float64
	ledgers    float64
	open       []string // open files, except those of the databases (see openOutsideData)
	// heap is the size in bytes at which the next collection begins: twice what the last
	// collection found in use.
	heap     float64
	resident float64 // bytes; 0 if the system does not show it
}

func (l level) String() string {
	return fmt.Sprintf("%.0f goroutines, %d open files outside the databases, collections at %.0f MiB of heap, %.0f MiB resident, %.0f ledgers",
		l.goroutines, len(l.open), l.heap/(1<<20), l.resident/(1<<20), l.ledgers)
}

// The memory of the server's databases, in bytes. It is small, so that the warm-up of a long
// attack fills it. It then cannot hide other growth.
const (
	databaseCache = 8 << 20
	memTable      = 16 << 20 // size of each of the two memory tables of the database
	indexMemory   = 16 << 20
)

// above names a resource that has grown since the warm-up, or returns "". It allows for what
// additional ledgers need, and for database caches that are not yet full. Requests must not use
// up anything else.
func (l level) above(warm level) string {
	const (
		spareGoroutines = 8 // goroutines of the databases and of the measurement
		perLedger       = 4 // goroutines
		spareFiles      = 4 // files that the measurement itself opens
		caches          = databaseCache + 2*memTable + indexMemory
		spareHeap       = 2*caches + 32<<20   // bytes
		spareResident   = spareHeap + 192<<20 // in bytes; large, because the collector returns memory late
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

// await repeats a check until it finds nothing wrong, for at most 3 minutes.
func await(t *testing.T, amiss func() string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; {
		found := amiss()
		if found == "" {
			return
		}
		require.True(t, time.Now().Before(end), found)
	}
}

// measure waits until the index is up to date and two garbage collections have run, and returns
// the resources that the server then holds.
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
