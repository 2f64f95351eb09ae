package faults_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/memory"
)

// folded holds a log and the files of a closed index that covers the whole log.
type folded struct {
	files vfs.FS
	log   storage.Reader
	size  uint64
}

func fold(t *testing.T) folded {
	t.Helper()
	w := &storeWorld{history: newHistory(t.Name(), settings.seed), database: memory.New(), indexFiles: vfs.NewMem(), keys: new(oneKey)}
	n, err := openNode(t.Context(), w.config())
	require.NoError(t, err)
	require.NoError(t, n.use(t.Context(), w.history, 2, 60))
	f := folded{files: w.indexFiles, size: n.ledger.Head().Size}
	require.NoError(t, n.index.Follower(ledger.DefaultName).WaitForSize(t.Context(), f.size))
	require.NoError(t, n.close())
	f.log, err = w.database.Ledger(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	return f
}

// ask opens a copy of the index, injects faults into its file system, and sends queries of all
// kinds. It returns the answers keyed by query, with "" for a query that failed. It calls opened
// before the first query.
func (f folded) ask(ctx context.Context, faults *faulty.Injector, opened func()) (given map[string]string, err error) {
	copied := vfs.NewMem()
	if _, err := vfs.Clone(f.files, copied, "index", "index"); err != nil {
		return nil, err
	}
	s, err := query.OpenIndex(index.Config{Dir: "index", FS: faulty.NewFS(copied, faults), Logger: testLog(), MemoryBytes: index.MinMemoryBytes})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	follower, err := s.Follow(ledger.DefaultName, f.log)
	if err != nil {
		return nil, err
	}
	if err := follower.WaitForSize(ctx, f.size); err != nil {
		return nil, err
	}
	opened()
	return answers(ctx, follower, f.size)
}

// If a table of the index cannot be opened or read, or if a read returns wrong bytes, queries that
// need the table fail. No answer is wrong or incomplete.
func TestUnreadableIndexSaysNothingWrong(t *testing.T) {
	f := fold(t)
	plan := faulty.Plan{Calls: []string{faulty.CallOpen, faulty.CallRead}, FilePattern: "*.sst"}
	count := plan
	count.Mode, count.FailCount = faulty.ModeSlow, -1 // in mode Slow, a pause of zero has no effect except that the call is counted
	reads, opening := faulty.New(count), 0
	made := func() int { return reads.FaultCounts()[faulty.CallOpen] + reads.FaultCounts()[faulty.CallRead] }
	want, err := f.ask(t.Context(), reads, func() { opening = made() })
	require.NoError(t, err)
	require.Greater(t, made(), opening+5)
	for _, mode := range []faulty.Mode{faulty.ModeFail, faulty.ModeFlipBit} {
		failed := 0
		for skip := opening; skip < made(); skip++ {
			plan.Mode, plan.SkipCount, plan.BitIndex = mode, skip, 37*skip
			given, err := f.ask(t.Context(), faulty.New(plan), func() {})
			if err != nil {
				failed++
			}
			for query, answer := range given {
				// The damaged index may have been replaced by a new one, whose counters are
				// different.
				if answer != "" && query != "counters" {
					require.Equal(t, want[query], answer, "%s, read %d: %s", mode, skip, query)
				}
			}
		}
		require.Positive(t, failed, "%s", mode)
	}
}
