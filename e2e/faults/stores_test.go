package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/memory"
)

// The tests in this file make calls to the storage fail while clients use a server.

func TestStoreCallsFail(t *testing.T) { campaign(t, storeRound(faulty.ModeFail)) }

func TestStoreCallsTakeEffectButFail(t *testing.T) {
	campaign(t, storeRound(faulty.ModeFailAfterSuccess))
}

func TestStoreCallsEndEarly(t *testing.T) { campaign(t, storeRound(faulty.ModeShortWrite)) }

func TestStoreCallsAreSlow(t *testing.T) { campaign(t, storeRound(faulty.ModeSlow)) }

func TestStoreHasNoSpace(t *testing.T) { campaign(t, storeRound(faulty.ModeNoSpace)) }

func TestStoreHasWrongChecksums(t *testing.T) { campaign(t, storeRound(faulty.ModeFlipBit)) }

// used lists the storage calls that a server makes. It omits Freeze and the calls that only audits
// make.
var used = []string{"Head", "Tile", "Entry", "Entries", "Content", "References", "Redaction", "Key", "Keys", "Setting", "Info", "Commit",
	"SetSetting", "CheckWritable", "Ledgers", "Ledger", "Create"}

// callsThatFail lists the storage calls to which each mode applies.
var callsThatFail = map[faulty.Mode][]string{
	faulty.ModeFail:             used,
	faulty.ModeFailAfterSuccess: {"Commit", "Create", "SetSetting"},
	faulty.ModeShortWrite:       {"Entries", "References"},
	faulty.ModeSlow:             used,
	faulty.ModeNoSpace:          {"CheckWritable", "Commit"},
	faulty.ModeFlipBit:          {"Head", "Tile", "Entry", "Entries", "Content", "References", "Redaction", "Key", "Keys", "Setting"},
}

// storeRound returns a round on an in-memory store.
func storeRound(mode faulty.Mode) round {
	return func(t *testing.T, r *rand.Rand, name string) (tally, error) {
		w := &storeWorld{history: newHistory(name, r.Uint64()), database: memory.New(), indexFiles: vfs.NewMem(), keys: new(oneKey)}
		return w.round(t, r, mode)
	}
}

// round runs several sessions on the same store. In each session, some calls fail in the given mode.
func (w *storeWorld) round(t *testing.T, r *rand.Rand, mode faulty.Mode) (done tally, err error) {
	calls := callsThatFail[mode]
	for range 4 {
		plan := faulty.Plan{Mode: mode, SkipCount: r.IntN(1 << r.IntN(5)), FailCount: 1 + r.IntN(4), Pause: 3 * time.Millisecond}
		for range 3 {
			plan.Calls = append(plan.Calls, calls[r.IntN(len(calls))])
		}
		faults := faulty.New(plan)
		err := w.session(t.Context(), faults)
		done.add(tally{faults: faults.FaultCounts(), receipts: w.history.acknowledgements()})
		if err != nil {
			return done, fmt.Errorf("%+v: %w", plan, err)
		}
	}
	return done, nil
}

// storeWorld is a store that several sessions use one after another. It is in memory, unless open is
// set.
type storeWorld struct {
	history    *history
	database   *memory.Database
	open       func(context.Context) (storage.Database, error) // opens another store for each session; may be nil
	indexFiles vfs.FS
	keys       ledger.KeyStore
}

func (w *storeWorld) config() nodeConfig {
	return nodeConfig{database: w.database, indexFiles: w.indexFiles, indexDir: "index", keys: w.keys}
}

// configOpen is like config, but opens the store for the session.
func (w *storeWorld) configOpen(ctx context.Context) (c nodeConfig, err error) {
	if c = w.config(); w.open != nil {
		c.database, err = w.open(ctx)
	}
	return c, err
}

// session lets clients use a server whose store is faulty, stops the server, and calls the oracle.
func (w *storeWorld) session(ctx context.Context, faults *faulty.Injector) error {
	c, err := w.configOpen(ctx)
	if err != nil {
		return err
	}
	c.database = faulty.NewDatabase(c.database, faults)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.fatal = func(error) {
		cancel() // stop the clients; the responses that they have received must still be true
		runtime.Goexit()
	}
	n, err := openNode(ctx, c)
	if err == nil {
		if err := n.use(ctx, w.history, 3, 5); err != nil {
			return errors.Join(err, n.close())
		}
		// The error from close is ignored, because inspect checks what the faults left behind.
		_ = n.close()
	}
	return w.inspect(context.WithoutCancel(ctx))
}

// inspect opens the store without faults and calls the oracle.
func (w *storeWorld) inspect(ctx context.Context) error {
	c, err := w.configOpen(ctx)
	if err != nil {
		return fmt.Errorf("opening what the fault left: %w", err)
	}
	n, err := openNode(ctx, c)
	if err != nil {
		return fmt.Errorf("opening what the fault left: %w", err)
	}
	return errors.Join(check(ctx, n, w.history), n.close())
}

// use serves the API of an open node to clients until they are done, and then stops serving. The
// node stays open.
func (n *node) use(ctx context.Context, h *history, writers, each int) error {
	if err := n.serve(); err != nil {
		return err
	}
	clients := newClient(h, n.url)
	clients.load(ctx, writers, each)
	clients.close()
	return n.silence(context.WithoutCancel(ctx))
}

// If Freeze fails before the freeze is stored, the ledger continues to work. If it fails after the
// freeze is stored, the ledger acknowledges no more writes.
func TestFreezeFails(t *testing.T) {
	for _, mode := range []faulty.Mode{faulty.ModeFail, faulty.ModeFailAfterSuccess} {
		w := &storeWorld{history: newHistory(t.Name(), 1), database: memory.New(), indexFiles: vfs.NewMem(), keys: new(oneKey)}
		c := w.config()
		c.database = faulty.NewDatabase(w.database, faulty.New(faulty.Plan{Mode: mode, Calls: []string{"Freeze"}}))
		stopped := make(chan error, 1)
		c.fatal = func(err error) {
			stopped <- err
			runtime.Goexit()
		}
		n, err := openNode(t.Context(), c)
		require.NoError(t, err)
		require.NoError(t, n.use(t.Context(), w.history, 2, 5))
		require.ErrorIs(t, n.ledger.Freeze(t.Context()), faulty.ErrInjected)
		_, err = n.ledger.Submit(ledger.Submission{Body: []byte("{")})
		if mode == faulty.ModeFail {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ledger.ErrOutcomeUnknown)
			require.ErrorIs(t, <-stopped, storage.ErrFrozen)
		}
		_ = n.close()
		again, err := openNode(t.Context(), w.config())
		require.NoError(t, err)
		require.Equal(t, mode == faulty.ModeFailAfterSuccess, again.ledger.Info().Frozen)
		_, err = again.ledger.Submit(ledger.Submission{Body: []byte("{")})
		require.Equal(t, mode == faulty.ModeFailAfterSuccess, errors.Is(err, ledger.ErrFrozen))
		require.NoError(t, again.close())
	}
}
