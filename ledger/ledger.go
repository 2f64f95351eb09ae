// Package ledger turns the submissions of many concurrent writers into one linear, durable, signed
// log of events (spec: Commits). Everything before Submit is stateless and runs in parallel. After
// that, a single goroutine, the sequencer, takes all pending submissions together, links their events
// into the chain, extends the tree, signs the checkpoint, and commits with one sync.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"colophon/ledger/highwater"
	"colophon/ledger/queue"
	"colophon/ledger/recent"
	"colophon/ledger/record/members"
	"colophon/proofs"
	"colophon/storage"
)

// Errors that callers can distinguish. If the error is ErrOutcomeUnknown, the event may or may not
// be in the log. With any other error, nothing was appended.
var (
	// ErrQueueFull means that the queue is full. The caller may try again later.
	ErrQueueFull = queue.ErrFull
	// ErrFrozen means that the ledger refuses all writes for good.
	ErrFrozen = queue.ErrFrozen
	// ErrClosed means that the ledger is shutting down.
	ErrClosed = queue.ErrClosed
	// ErrOutcomeUnknown means that a commit failed, and it is unknown whether it is durable.
	// The process exits, and the next start reads the outcome from the store.
	ErrOutcomeUnknown = errors.New("ledger: the outcome of the commit is unknown")
	// ErrKeyClaimMismatch means that the database is damaged because it maps an idempotency key to
	// an event that does not claim the key, or that claims it for another record. Nothing was
	// recorded.
	ErrKeyClaimMismatch = errors.New("ledger: an idempotency key refers to an event that does not claim it")
	// ErrDamaged means that the stored data is inconsistent or does not match the signing key.
	ErrDamaged = errors.New("ledger: the stored data is damaged")
)

// errNoFirstEvent means that the ledger's first event could not be written. The next start
// tries again.
var errNoFirstEvent = errors.New("ledger: the first event has not been written")

// Config configures a ledger. A zero field selects the default.
type Config struct {
	// Signer is the newest available key. If it is nil, KeyErr says why, and the ledger does not
	// sign anything.
	Signer *proofs.Signer
	// KeyErr says which stored keys are missing or wrong. If it is not nil, the ledger does not
	// sign anything.
	KeyErr error
	// OtherSigners holds further available keys: the previous key during an overlap, and the key for the
	// next rotation. The log determines which of the available keys sign.
	OtherSigners []*proofs.Signer
	// HighWaterMarks stores the high-water mark (spec: High-water mark). If it is nil, no mark is kept.
	HighWaterMarks highwater.Store
	// If EnableStandbyMark is true, the ledger keeps a high-water mark even while this server only
	// reads it. The mark is the checkpoint of the last head that the server published. If the stored
	// log does not extend it, this server never opens the ledger for writing, and keeps the mark.
	EnableStandbyMark bool
	// If RefuseOlderStandby is true, Open then returns highwater.ErrRollback even if this server only
	// reads the ledger.
	RefuseOlderStandby bool
	// Creator names who creates the ledger, for its first event. The default is AnonymousActor.
	Creator string
	// Clock returns the current time, which becomes the time of events. The default is time.Now.
	Clock  func() time.Time
	Logger *slog.Logger // the default discards all messages
	// OnFatal is called if continuing could lose or fork the log, or if another server has taken
	// over the ledger. The default logs the error and exits with status 1. If OnFatal returns, the
	// ledger refuses writes until Host.OpenLedger is called.
	OnFatal func(error)
	// MaxPendingRecords limits the records in the sequencer's queue. MaxPendingBytes limits the bytes of their
	// events and content. Both also limit a commit, but a single record can exceed MaxPendingBytes. If
	// LookUpKeysAhead is true, as much again can wait for the next commit. The defaults are 8,192 and
	// 8 MiB. The storage reserves disk space for a commit of that size.
	MaxPendingRecords int
	MaxPendingBytes   int
	// If LookUpKeysAhead is true, the idempotency keys of submissions are looked up while the previous
	// commit is in progress. That is faster if the store is on another machine (go -C bench run . postgres
	// --delay), and slower if a look-up is a function call.
	LookUpKeysAhead bool
	// MaxCachedTiles is the maximum number of cached tiles, each of up to 16 KiB. The default of 4,096
	// covers all tiles of a log with a million leaves. Rebuilding a tile that is not cached takes
	// 255 hash computations.
	MaxCachedTiles int

	// standby means that another server may write the ledger, and that this server only reads it.
	standby bool
	// published is the state that readers saw before the ledger was reopened, or nil.
	published *published
}

// OnCommit registers f to be called after every later commit, including commits by another server.
// f must be fast, because the next commit waits until it returns.
func (l *Ledger) OnCommit(f func(Commit)) { l.sequencer.watch(f) }

// Commit describes a durable commit to the functions registered with OnCommit.
type Commit struct {
	// First is the seq of the commit's first event. Entries has the entry of each event; it must not be
	// modified. Both are zero if ByOtherServer is true.
	First      uint64
	Entries    [][]byte
	EventCount int           // number of events in the commit
	Duration   time.Duration // duration of storage.Store.Commit
	Time       time.Time     // time of the commit's events
	// ByOtherServer means that another server made this commit or froze the ledger. Several commits by
	// that server may be reported as one. Duration is 0.
	ByOtherServer bool
}

func (c Config) withDefaults() Config {
	if c.Creator == "" {
		c.Creator = AnonymousActor
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnFatal == nil {
		log := c.Logger
		c.OnFatal = func(err error) {
			log.Error("stopping, because continuing could lose data or fork the ledger", "error", err)
			os.Exit(1)
		}
	}
	if c.MaxPendingRecords == 0 {
		c.MaxPendingRecords = 8192
	}
	if c.MaxPendingBytes == 0 {
		c.MaxPendingBytes = 8 << 20
	}
	if c.MaxCachedTiles == 0 {
		c.MaxCachedTiles = 4096
	}
	if c.published == nil {
		c.published = new(published)
	}
	return c
}

// Ledger is one append-only log. Its methods are safe for concurrent use.
type Ledger struct {
	config Config
	store  storage.Store
	info   storage.LedgerInfo // as read when the ledger was opened; queue knows whether it has been frozen since
	reader reader

	queue       *queue.Queue[item]
	signing     *signing
	sequencer   *sequencer
	markWritten chan struct{} // closed after the mark has been written for the last time; nil if the ledger keeps no mark

	members *members.Secret // nil if the ledger or its store has no member secret; set by Open

	freezing sync.Mutex // held during Freeze
	rotating sync.Mutex // held during RotateKey and RetireKey

	standby    bool                    // this server only reads the ledger, so its sequencer does not run
	refreshing sync.Mutex              // held during Refresh, and while a ledger on standby is closed
	refreshes  atomic.Uint64           // number of calls to Refresh that have begun to read
	refreshed  uint64                  // number of the newest call that has succeeded; guarded by refreshing
	shown      recent.Checkpoints      // checkpoints that a ledger on standby has published
	mark       *highwater.FollowerMark // of a ledger on standby; guarded by refreshing after Open
}

// Head is the state of the log after a durable commit. It is immutable.
type Head struct {
	storage.Head
	Root proofs.Hash // root hash of the tree
	view *proofs.Snapshot
}

// Open verifies the stored log (spec: Commits) and starts the sequencer. If the ledger has no
// entries, Open writes its first event, ledger_created. The error wraps ErrDamaged if the head, the
// chain tip, the tree edge, and the signature are not all consistent.
func Open(ctx context.Context, store storage.Store, config Config) (*Ledger, error) {
	config = config.withDefaults()
	info, err := store.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the description of the ledger: %w", err)
	}
	l := newLedger(store, info, config)
	if l.standby {
		l.signing.refusal = storage.ErrLeaseNotHeld
		close(l.queue.Ended)
	}
	if err := errors.Join(l.sequencer.recover(ctx), recoverSettings(ctx, l), l.recoverMemberSecret(ctx)); err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", info.Name, err)
	}
	if l.standby {
		return l, checkFollowed(ctx, l)
	}
	if err := l.keepMark(ctx); err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", info.Name, err)
	}
	go l.sequencer.run()
	if l.Head().Size == 0 && l.signing.refusal == nil {
		if err := l.appendFirstEvent(ctx); err != nil {
			if errors.Is(err, storage.ErrNoSpace) {
				err = fmt.Errorf("%w: %w", errNoFirstEvent, err)
			}
			return nil, errors.Join(fmt.Errorf("opening ledger %q: %w", info.Name, err), l.Close())
		}
	}
	return l, nil
}

// newLedger assembles a ledger. Its config must have the defaults filled in.
func newLedger(store storage.Store, info storage.LedgerInfo, config Config) *Ledger {
	l := &Ledger{
		config: config, store: store, info: info, standby: config.standby,
		reader: reader{store, proofs.NewTileCache(config.MaxCachedTiles)},
		queue:  queue.New[item](config.MaxPendingRecords, config.MaxPendingBytes, info.Frozen),
	}
	l.signing = &signing{config: &l.config, name: info.Name, origin: info.Origin}
	l.sequencer = &sequencer{
		config: &l.config, origin: info.Origin, store: store,
		reader: l.reader, queue: l.queue, signing: l.signing, published: config.published, headMoved: make(chan struct{}, 1),
	}
	return l
}

// Name returns the ledger's name, which never changes.
func (l *Ledger) Name() string { return l.info.Name }

// Info returns the current description of the ledger.
func (l *Ledger) Info() storage.LedgerInfo {
	info := l.info
	info.Frozen = l.queue.IsFrozen()
	return info
}

// These values of a ledger setting determine what happens to a record whose claims do not match
// (spec: Refusals).
const (
	MismatchPolicyAccept = "accept" // append the record, and flag and count the mismatch; the default
	MismatchPolicyReject = "reject" // refuse the record, and append the refusal
)

// MismatchPolicy returns MismatchPolicyAccept or MismatchPolicyReject. It is the default for requests that do
// not specify a policy.
func (l *Ledger) MismatchPolicy() string {
	if l.info.RejectMismatch {
		return MismatchPolicyReject
	}
	return MismatchPolicyAccept
}

// Head returns the last durable state.
func (l *Ledger) Head() *Head { return l.sequencer.head.Load() }

// QueueLength returns the number of submissions that wait for the sequencer.
func (l *Ledger) QueueLength() int { return l.queue.Len() + int(l.sequencer.aheadCount.Load()) }

// Freeze durably and permanently makes the ledger refuse all later writes. Submissions that the
// ledger has already accepted are committed first. The last checkpoint is final (spec: Frozen
// ledgers).
func (l *Ledger) Freeze(ctx context.Context) error {
	if l.standby {
		return fmt.Errorf("freezing ledger %q: %w", l.info.Name, storage.ErrLeaseNotHeld)
	}
	l.freezing.Lock()
	defer l.freezing.Unlock()
	if !l.queue.SetFrozen(true) {
		return nil
	}
	err := l.queue.Drain(ctx)
	if err == nil {
		err = l.store.Freeze(ctx)
	}
	if err != nil {
		l.queue.SetFrozen(false)
		return fmt.Errorf("freezing ledger %q: %w", l.info.Name, err)
	}
	return nil
}

// Close refuses new writes, commits the accepted submissions, writes the high-water mark, and stops
// the sequencer. It always returns nil.
func (l *Ledger) Close() error {
	end(l, ErrClosed)
	return nil
}

// end closes a ledger. After that, writes to it fail with reason.
func end(l *Ledger, reason error) {
	if l.standby {
		l.refreshing.Lock()
		defer l.refreshing.Unlock()
		l.mark.Write(true)
		l.mark = nil // a reopened ledger can replace the head before it compares it with the mark
	}
	l.queue.Close(reason)
	if l.markWritten != nil {
		<-l.markWritten
	}
}

// CheckWritable returns nil if the ledger accepts writes. It returns storage.ErrNoSpace while disk space
// is low. If the ledger must not sign, and is not frozen, it returns highwater.ErrRollback,
// ErrPreviousKeyMissing, or a SigningError.
func (l *Ledger) CheckWritable(ctx context.Context) error {
	if err := l.signing.check(); err != nil && !l.queue.IsFrozen() {
		return fmt.Errorf("ledger %q cannot sign: %w", l.info.Name, err)
	}
	return l.store.CheckWritable(ctx)
}
