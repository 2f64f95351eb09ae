// Package ledger makes one linear, durable, signed log of events out of what
// many writers submit at once (spec: Commits). Everything before Submit is
// stateless and parallel; behind it one goroutine, the sequencer, takes all
// that is pending as one batch, links it into the chain, extends the tree,
// signs the checkpoint and commits with one sync.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colophon/proofs"
	"colophon/storage"
)

// Sentinels on which callers branch. None of them leaves anything half taken.
var (
	// ErrBusy: the queue is full; try again later.
	ErrBusy = errors.New("ledger: the queue is full")
	// ErrFrozen: the ledger takes no more writes.
	ErrFrozen = errors.New("ledger: frozen")
	// ErrClosed: the ledger is shutting down.
	ErrClosed = errors.New("ledger: shutting down")
	// ErrOutcomeUnknown: a commit failed in a way that leaves open whether it
	// is durable; the process ends and finds out when it starts again.
	ErrOutcomeUnknown = errors.New("ledger: outcome of the commit unknown")
	// ErrClaim: an idempotency key leads to an event that does not claim it, or claims it
	// for another record. The database is damaged; nothing was recorded.
	ErrClaim = errors.New("ledger: an idempotency key leads to an event that does not claim it")
	// ErrDamaged: what is stored contradicts itself or the key.
	ErrDamaged = errors.New("ledger: damaged")
)

// errNotBegun: a ledger without events gets its first when there is room.
var errNotBegun = errors.New("ledger: it has no first event yet")

// Config is what a ledger needs beside its store. Zero fields mean defaults.
type Config struct {
	// Signer is the newest key that is at hand. If it is nil, KeyFault says why, and the
	// ledger signs nothing.
	Signer *proofs.Signer
	// KeyFault is what is wrong with keys that are kept. Nothing is signed then.
	KeyFault error
	// Signers are further keys of the ledger that are at hand: the one that it has
	// replaced and that still signs, and the one that is to follow. Which of all sign, the
	// log says.
	Signers []*proofs.Signer
	// Marks keeps the high-water mark; nil keeps none.
	Marks Marks
	// Creator is the actor of the first event. Default Anonymous.
	Creator string
	// Clock is the source of event times; default time.Now.
	Clock func() time.Time
	Log   *slog.Logger
	// Fatal is called when going on could lose or fork the log. It must not
	// return; default logs and exits with status 1.
	Fatal func(error)
	// MaxPending and MaxPendingBytes bound what waits for the sequencer, in
	// records and in bytes of events and content; a commit is no larger, or a
	// single record. Default 8,192 and 8 MiB, which the storage's reserve of disk
	// space has room for.
	MaxPending      int
	MaxPendingBytes int
	// CachedTiles bounds the tile cache, 16 KiB a tile. Default 4,096: all tiles of a
	// million leaves, each of which costs 255 hashes where it is not cached.
	CachedTiles int
}

// OnCommit has f called by the sequencer after every commit from now on. f must
// be quick: the next commit waits for it.
func (l *Ledger) OnCommit(f func(Commit)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers = append(slices.Clip(l.watchers), f)
}

// Commit describes one commit.
type Commit struct {
	Events   int
	Duration time.Duration // of storage.Store.Commit
	At       time.Time     // time of its events
}

func (c Config) withDefaults() Config {
	if c.Creator == "" {
		c.Creator = Anonymous
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Fatal == nil {
		log := c.Log
		c.Fatal = func(err error) {
			log.Error("stopping: going on could lose or fork the ledger", "error", err)
			os.Exit(1)
		}
	}
	if c.MaxPending == 0 {
		c.MaxPending = 8192
	}
	if c.MaxPendingBytes == 0 {
		c.MaxPendingBytes = 8 << 20
	}
	if c.CachedTiles == 0 {
		c.CachedTiles = 4096
	}
	return c
}

// Ledger is one append-only log.
type Ledger struct {
	config Config
	store  storage.Store
	info   storage.Info // Frozen is stale; see frozen below
	cache  *proofs.TileCache

	head atomic.Pointer[Head] // published by the sequencer, read by all

	freezing sync.Mutex // held while Freeze is under way

	rotating sync.Mutex              // held while RotateKey or RetireKey is under way
	keys     atomic.Pointer[keyring] // published by the sequencer, read by all

	refusal  error         // ErrRollback or a SigningError where nothing may be signed; set before others see the ledger
	moved    chan struct{} // holds a token when the head has moved
	markKept chan struct{} // closed when the mark is written for the last time

	publishing sync.Mutex  // held while SetPublic is under way
	public     atomic.Bool // written under publishing, read by all

	mu       sync.Mutex // guards what follows
	pending  *batch     // gathers while the batch before commits
	frozen   bool
	closed   bool
	failed   bool // the sequencer is gone after an unknown outcome
	watchers []func(Commit)

	wake chan struct{} // holds a token when pending has work or closed is set
	done chan struct{} // closed when the sequencer has ended

	// Owned by the sequencer.
	tree  *proofs.Tree
	ring  *keyring // seals the next commit
	tip   proofs.Hash
	time  int64 // of the last event, microseconds
	short bool  // the last commit was refused for lack of space
}

// Head is the published state of the log: what it was when a commit became
// durable. It never changes.
type Head struct {
	storage.Head
	Root proofs.Hash
	view *proofs.Snapshot
}

// Open verifies what is stored (spec: Commits) and starts the sequencer. A ledger without
// entries gets its first event, ledger_created. The error wraps ErrDamaged when
// head, chain tip, tree edge and signature do not fit together.
func Open(ctx context.Context, store storage.Store, config Config) (*Ledger, error) {
	config = config.withDefaults()
	info, err := store.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading ledger description: %w", err)
	}
	l := &Ledger{
		config: config,
		store:  store,
		info:   info,
		frozen: info.Frozen,
		cache:  proofs.NewTileCache(config.CachedTiles),
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		moved:  make(chan struct{}, 1), markKept: make(chan struct{}),
	}
	l.pending = newBatch()
	if err := errors.Join(l.recover(ctx), l.recoverVisibility(ctx)); err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", info.Name, err)
	}
	if err := l.recoverMark(ctx); err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", info.Name, err)
	}
	go l.sequence()
	if config.Marks != nil && l.refusal == nil {
		if l.Writable(ctx) == nil {
			l.moved <- struct{}{} // there may be no mark yet
		}
		go l.keepMark()
	} else {
		close(l.markKept)
	}
	if l.Head().Size == 0 && l.refusal == nil {
		if err := l.begin(); err != nil {
			if errors.Is(err, storage.ErrNoSpace) {
				err = fmt.Errorf("%w: %w", errNotBegun, err)
			}
			return nil, errors.Join(fmt.Errorf("opening ledger %q: %w", info.Name, err), l.Close())
		}
	}
	return l, nil
}

// Name is the ledger's name.
func (l *Ledger) Name() string { return l.info.Name }

// Info is the ledger's description.
func (l *Ledger) Info() storage.Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	info := l.info
	info.Frozen = l.frozen
	return info
}

// The values of a ledger's setting for records whose claims do not hold (spec: Refusals).
const (
	AcceptMismatch = "accept" // take them, flagged and counted; the default
	RejectMismatch = "reject" // refuse them, and log the refusal
)

// OnMismatch is what the ledger does with a record whose claims do not hold
// when the request does not say.
func (l *Ledger) OnMismatch() string {
	if l.info.RejectMismatch {
		return RejectMismatch
	}
	return AcceptMismatch
}

// Head is the last durable state.
func (l *Ledger) Head() *Head { return l.head.Load() }

// Queue is the number of records that wait for the sequencer.
func (l *Ledger) Queue() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending.items)
}

// Freeze refuses all later writes for ever. What was accepted before is still
// committed; the last checkpoint is final (spec: Frozen ledgers).
func (l *Ledger) Freeze(ctx context.Context) error {
	l.freezing.Lock()
	defer l.freezing.Unlock()
	if !l.setFrozen(true) {
		return nil
	}
	err := l.drain(ctx)
	if err == nil {
		err = l.store.Freeze(ctx)
	}
	if err != nil {
		l.setFrozen(false)
		return fmt.Errorf("freezing ledger %q: %w", l.info.Name, err)
	}
	return nil
}

// setFrozen says whether that changed anything.
func (l *Ledger) setFrozen(frozen bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.frozen != frozen
	l.frozen = frozen
	return changed
}

// drain waits until all that is pending or being committed is durable.
func (l *Ledger) drain(ctx context.Context) error {
	l.mu.Lock()
	b := l.pending
	l.mu.Unlock()
	l.signal()
	select {
	case <-b.done:
		return b.err
	case <-l.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close refuses new writes, commits what was accepted, and ends the sequencer.
func (l *Ledger) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.signal()
	<-l.done
	<-l.markKept
	return nil
}

// Writable is nil if writes can be taken; storage.ErrNoSpace while disk space
// is short, ErrRollback, ErrKeyMissing or a SigningError where nothing may be signed, unless
// the ledger is frozen.
func (l *Ledger) Writable(ctx context.Context) error {
	if err := l.refuses(); err != nil && !l.Info().Frozen {
		return fmt.Errorf("ledger %q: %w", l.info.Name, err)
	}
	return l.store.Writable(ctx)
}
