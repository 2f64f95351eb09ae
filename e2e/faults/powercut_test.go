package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"colophon/storage/pebble/pebbletest"
)

// The tests in this file check that nothing is lost if the power fails while clients write
// concurrently. The power can fail before any operation on the files of the log or the index, and
// sometimes fails again during recovery.

func TestPowerCut(t *testing.T) { campaign(t, powerRound) }

// cut holds the state of the files after a simulated power failure, and the number of receipts that
// clients had by then.
type cut struct {
	files     *pebbletest.CrashFS
	acks      int
	operation int
	percent   int
}

func (c cut) String() string {
	return fmt.Sprintf("before operation %d, keeping %d %% of the data that was not synced", c.operation, c.percent)
}

// cutter simulates power failures before random file system operations by copying the files as they
// would be afterwards. The server itself continues.
type cutter struct {
	history *history
	files   *pebbletest.CrashFS

	mu   sync.Mutex // guards the fields below
	r    *rand.Rand
	most int // maximum number of cuts
	cuts []cut
}

// before sometimes simulates a power failure before a file system operation.
func (c *cutter) before(operation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cuts) == c.most || c.r.IntN(25) > 0 {
		return
	}
	percent := []int{0, 30, 50, 70, 100}[c.r.IntN(5)]
	acks := c.history.acknowledgements() // counted before the files are copied, so that the copy must contain the events of all these receipts
	c.cuts = append(c.cuts, cut{c.files.AfterPowerCut(percent, c.r.Uint64()), acks, operation, percent})
}

// powerRound runs a server three times on the same files, and then inspects the files that each
// simulated power failure left behind.
func powerRound(t *testing.T, r *rand.Rand, name string) (done tally, err error) {
	h := newHistory(name, r.Uint64())
	h.largest = 100_000
	c := &cutter{history: h, files: pebbletest.NewCrashFS(), r: r, most: 20}
	c.files.BeforeEachOperation(c.before)
	for range 3 {
		if err := useFiles(t.Context(), c.files, h); err != nil {
			return done, err
		}
	}
	c.files.BeforeEachOperation(nil)
	done.faults = make(map[string]int)
	for _, cut := range c.cuts {
		again, err := cut.inspect(t.Context(), h, r)
		done.faults["once"]++
		if again {
			done.faults["while it recovered"]++
		}
		done.receipts += cut.acks
		if err != nil {
			return done, fmt.Errorf("power cut %s: %w", cut, err)
		}
	}
	return done, nil
}

// useFiles opens a node on files and lets clients use it. Power failures are simulated during that time.
func useFiles(ctx context.Context, files *pebbletest.CrashFS, h *history) error {
	n, err := openOn(ctx, files, nil)
	if err != nil {
		return err
	}
	return errors.Join(n.use(ctx, h, 4, 5), n.close())
}

// openOn opens a node on an in-memory file system that simulates power failures.
func openOn(ctx context.Context, files *pebbletest.CrashFS, clock func() time.Time) (*node, error) {
	database, err := openPebble(ctx, files.FS(), "db", func(msg string) { panic(msg) }, nil)
	if err != nil {
		return nil, err
	}
	return openNode(ctx, nodeConfig{database: database, indexFiles: files.FS(), indexDir: "index", keys: new(oneKey), clock: clock})
}

// inspect opens the files that a power failure left behind and calls the oracle. If the power fails
// again during recovery, inspect also checks the files that the second failure left behind, and
// returns true.
func (c cut) inspect(ctx context.Context, h *history, r *rand.Rand) (again bool, err error) {
	second := &cutter{history: h, files: c.files, r: r}
	if r.IntN(3) == 0 {
		second.most = 1
	}
	c.files.BeforeEachOperation(second.before)
	n, err := openOn(ctx, c.files, nil)
	c.files.BeforeEachOperation(nil)
	if err != nil {
		return false, fmt.Errorf("opening what the power failure left: %w", err)
	}
	if err := errors.Join(check(ctx, n, h.until(c.acks)), n.close()); err != nil {
		return false, err
	}
	for _, cut := range second.cuts {
		cut.acks = c.acks
		if _, err := cut.inspect(ctx, h, r); err != nil {
			return true, fmt.Errorf("second power failure, during recovery, %s: %w", cut, err)
		}
	}
	return len(second.cuts) > 0, nil
}
