package mirror

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
	"colophon/storage"
)

// Options configures a Mirror. If a duration or MaxBatchEntries is zero, its default applies.
type Options struct {
	Source  fetch.Server // where the published copy is
	Ledger  string       // name of the ledger
	CopyURL string       // URL of the copy, for use in messages
	// Keys lists the trusted keys. The events of the log must name at least one of them, and that key or one
	// of its successors must have signed the checkpoint.
	Keys   []*proofs.Verifier
	Logger *slog.Logger

	PollInterval    time.Duration // time between two reads of the copy's checkpoint; default one second
	MaxRetryPause   time.Duration // maximum pause after a failure; default one minute
	Timeout         time.Duration // time limit for each attempt of a request; default 30 seconds
	MaxBatchEntries int           // maximum number of entries in a commit; default 4096
}

func (o Options) withDefaults() Options {
	o.PollInterval = cmp.Or(o.PollInterval, time.Second)
	o.MaxRetryPause = cmp.Or(o.MaxRetryPause, time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.MaxBatchEntries = cmp.Or(o.MaxBatchEntries, batchEntries)
	return o
}

// Mirror follows the published copy of one log. Its methods are safe for concurrent use.
type Mirror struct {
	options  Options
	source   source
	database *Database
	host     *ledger.Host

	stop    context.CancelFunc
	running sync.WaitGroup

	// These fields are written only by the goroutine that follows the copy. Any goroutine can read
	// them.
	state    atomic.Pointer[state]
	loaded   atomic.Uint64 // number of stored events
	newest   atomic.Uint64 // size of the newest accepted checkpoint of the copy
	checked  atomic.Int64  // time of the last check that found the served state up to date, in Unix nanoseconds; initially 0
	failures [len(reasons)]atomic.Uint64
}

// state is the result of the last attempt to follow the copy.
type state struct {
	err error // nil if the attempt succeeded
}

// errLoading means that the first load since the server started has not finished yet.
var errLoading = errors.New("the copy is being loaded")

// ErrKeyMismatch means that none of the trusted keys appears in the events of the stored log.
var ErrKeyMismatch = errors.New("the previously loaded log does not have the given verifier key")

// New returns a Mirror that follows a copy in the background until Close is called. The host must have
// been opened on database. New returns ErrKeyMismatch if none of the trusted keys appears in the events
// of the stored log.
func New(ctx context.Context, database *Database, host *ledger.Host, options Options) (*Mirror, error) {
	options = options.withDefaults()
	client, err := fetch.New(options.Source, options.Ledger, options.Timeout, parallel)
	if err != nil {
		return nil, err
	}
	m := &Mirror{options: options, source: source{client, options.Keys}, database: database, host: host}
	m.state.Store(&state{errLoading})
	switch _, _, keys, err := m.stored(ctx); {
	case err != nil:
		return nil, err
	case keys != nil && len(keys.VerifiersFrom(options.Keys...)) == 0:
		return nil, fmt.Errorf("%w: the key of the log is %s", ErrKeyMismatch, keys.CurrentKey())
	}
	running, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.running.Go(func() { m.run(running) })
	return m, nil
}

// Close stops following the copy. When Close returns, no request is in progress.
func (m *Mirror) Close() {
	m.stop()
	m.running.Wait()
}

// StalenessError returns an error if the server does not serve the newest state of the copy. The
// error does not contain the name of the ledger.
func (m *Mirror) StalenessError() error {
	err := m.state.Load().err
	reason := reasonOf(err)
	switch {
	case errors.Is(err, errLoading):
		return fmt.Errorf("%w: %d of %d events", errLoading, m.loaded.Load(), m.newest.Load())
	case err == nil:
		return nil
	case reason != unavailable:
		return fmt.Errorf("the server refuses the newest state of the copy (%s) and serves the last verified state; see the server's log for the cause", reasons[reason])
	}
	return errors.New("the server cannot read the copy and serves the last verified state; see the server's log for the cause")
}

// firstPause is the pause after the first failure. Each consecutive failure doubles the pause, up
// to Options.MaxRetryPause.
const firstPause = time.Second / 2

func (m *Mirror) run(ctx context.Context) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		err := m.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.failed(err)
			pause = min(max(2*pause, firstPause), m.options.MaxRetryPause)
			pause -= time.Duration(rand.Int64N(int64(pause)/4 + 1)) // #nosec G404 -- so that servers do not return all at once
		default:
			m.succeeded()
			pause = 0
		}
		select {
		case <-time.After(max(pause, m.options.PollInterval)):
		case <-ctx.Done():
		}
	}
}

func (m *Mirror) failed(err error) {
	reason := reasonOf(err)
	m.failures[reason].Add(1)
	before := m.state.Load().err
	if before == nil || before.Error() != err.Error() {
		m.options.Logger.Error("cannot follow the copy; serving the last verified state", "ledger", m.options.Ledger, "copy", m.options.CopyURL, "reason", reasons[reason], "error", err)
	}
	m.state.Store(&state{err})
}

func (m *Mirror) succeeded() {
	m.checked.Store(time.Now().UnixNano())
	if before := m.state.Swap(&state{}).err; before != nil {
		m.options.Logger.Info("serving the newest state of the copy", "ledger", m.options.Ledger, "copy", m.options.CopyURL, "size", m.newest.Load())
	}
}

// follow reads the copy's checkpoint. If it is new, follow loads the log up to that checkpoint and lets the
// host serve it.
func (m *Mirror) follow(ctx context.Context) error {
	stored, head, keys, err := m.stored(ctx)
	if err != nil {
		return err
	}
	m.loaded.Store(head.Size)
	switch note, err := m.source.note(ctx, "/log/checkpoint"); {
	case err != nil:
		return fmt.Errorf("fetching the checkpoint: %w", err)
	case stored != nil && bytes.Equal(note, head.Checkpoint) && m.shows(note, head.Size):
		return nil
	}
	n, err := m.source.open(ctx, keys, head.Size)
	if err != nil {
		return err
	}
	if stored == nil {
		if stored, err = m.create(ctx, n); err != nil {
			return err
		}
	}
	shown, err := m.database.open(ctx, m.options.Ledger)
	if err != nil {
		return err
	}
	served := shown.served.Load()
	info, err := stored.Info(ctx)
	switch {
	case err != nil:
		return err
	case info.Origin != n.checkpoint.Origin:
		return refuse(fork, "the copy belongs to the log %.100q, but this server has the log %.100q; use another data folder for the copy", n.checkpoint.Origin, info.Origin)
	case n.checkpoint.Size < head.Size:
		return refuse(rollback, "the copy has only %d events, but this server has already verified %d", n.checkpoint.Size, head.Size)
	}
	m.newest.Store(n.checkpoint.Size)
	if !bytes.Equal(n.note, served.Checkpoint) {
		l := &load{newest: n, trusted: m.options.Keys, to: stored, progress: m.progress(n.checkpoint.Size), served: served.Checkpoint, stored: head, keys: keys, most: m.options.MaxBatchEntries}
		if err := l.run(ctx); err != nil {
			return err
		}
		m.loaded.Store(l.stored.Size)
		shown.served.Store(&l.stored)
	}
	return m.publish(ctx)
}

// shows reports whether the host serves the given checkpoint at the given size.
func (m *Mirror) shows(note []byte, size uint64) bool {
	l, err := m.host.Ledger(m.options.Ledger)
	return err == nil && l.Head().Size == size && bytes.Equal(l.Head().Checkpoint, note)
}

// stored returns the stored log, its head, and the history of its keys. All are zero if nothing has been
// loaded yet.
func (m *Mirror) stored(ctx context.Context) (storage.Store, storage.Head, *proofs.KeyHistory, error) {
	stored, err := m.database.stored.Ledger(ctx, m.options.Ledger)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, storage.Head{}, nil, nil
	}
	if err != nil {
		return nil, storage.Head{}, nil, err
	}
	head, err := stored.Head(ctx)
	if err != nil {
		return nil, storage.Head{}, nil, err
	}
	keys, err := ledger.ReadKeyHistory(ctx, stored)
	return stored, head, keys, err
}

// create creates the ledger that stores the copy. The ledger's creation time is the time of the copy's
// first event.
func (m *Mirror) create(ctx context.Context, n *newest) (storage.Store, error) {
	for entry, err := range n.log.EntriesWithoutPrefetch(ctx, 0) {
		if err != nil {
			return nil, asRefusal(err)
		}
		var decoder event.Decoder
		first, err := decoder.Decode(entry)
		if err != nil {
			return nil, refuse(damaged, "decoding event 0 of the copy: %v", err)
		}
		return m.database.stored.CreateLedger(ctx, storage.LedgerInfo{Name: m.options.Ledger, Origin: n.checkpoint.Origin, Created: first.Time})
	}
	return nil, refuse(damaged, "the copy has no events")
}

// publish makes the host serve the newest state of the stored log.
func (m *Mirror) publish(ctx context.Context) error {
	if _, err := m.host.Ledger(m.options.Ledger); err == nil {
		return m.host.Refresh(ctx, m.options.Ledger)
	}
	_, err := m.host.OpenLedger(ctx, m.options.Ledger)
	return err
}

// progressEvery is the minimum time between two log messages about the progress of a load.
const progressEvery = 10 * time.Second

// progress returns a function that records the progress of a load and occasionally logs it.
func (m *Mirror) progress(size uint64) func(entries uint64) {
	logged := time.Now()
	return func(entries uint64) {
		m.loaded.Store(entries)
		if now := time.Now(); now.Sub(logged) >= progressEvery {
			logged = now
			m.options.Logger.Info("loading the copy", "ledger", m.options.Ledger, "events", entries, "of", size)
		}
	}
}
