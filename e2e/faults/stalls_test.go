package faults_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/storage/faulty"
)

// TestWriteStalls checks that nothing is lost if tables are written so slowly that the storage
// engine makes writers wait.

func TestWriteStalls(t *testing.T) { campaign(t, stallRound) }

// stallCounter is a log handler that counts the database's messages about write stalls.
type stallCounter struct {
	slog.Handler
	stalls *atomic.Int64
}

// Handle implements slog.Handler.
func (s stallCounter) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "writes are stalled until a flush or a compaction finishes" {
		s.stalls.Add(1)
	}
	return nil
}

// Enabled implements slog.Handler.
func (s stallCounter) Enabled(context.Context, slog.Level) bool { return true }

// stallRound runs a server whose flushes or compactions are slow.
func stallRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	h := newHistory(name, r.Uint64())
	h.smallest, h.largest = 4_000, 40_000
	plan := faulty.Plan{Mode: faulty.ModeSlow, Calls: []string{faulty.CallWrite}, FilePattern: "*.sst", FailCount: -1, Pause: 2 * time.Millisecond}
	if r.IntN(2) == 0 {
		plan.Calls, plan.Pause = []string{faulty.CallCompact}, 200*time.Millisecond
	}
	memory := vfs.NewMem()
	var stalls atomic.Int64
	faults := faulty.New(plan)
	database, err := openPebble(t.Context(), faulty.NewFS(memory, faults), "db", func(msg string) { panic(msg) },
		slog.New(stallCounter{slog.DiscardHandler, &stalls}))
	if err != nil {
		return done, err
	}
	n, err := openNode(t.Context(), nodeConfig{database: database, indexFiles: memory, indexDir: "index", keys: new(oneKey)})
	if err != nil {
		return done, err
	}
	err = n.use(t.Context(), h, 6, 8)
	faults.StopInjecting()
	done = tally{faults: map[string]int{plan.Calls[0]: int(stalls.Load())}, receipts: h.acknowledgements()}
	if err := errors.Join(err, n.close()); err != nil {
		return done, err
	}
	return done, openAndCheck(t.Context(), memory, "", nodeConfig{keys: new(oneKey)}, h)
}
