// Package publish copies logs into a bucket, where clients can read them without the server. A copy consists of
// the checkpoint, the tiles, the entry bundles, and the keys, under the same paths as on the server
// (spec: Tiles and entry bundles; Checkpoints).
//
// Each ledger has its own goroutine, which follows the ledger's head. A commit never waits for it. The objects
// in the bucket depend only on the log, so the publisher needs no state of its own. After any interruption, it
// continues from the checkpoint in the bucket.
//
// The publisher writes a tile or bundle only if the bucket does not have it. An object that already exists must
// have the same bytes. The publisher writes a checkpoint only when everything that the checkpoint covers is in
// the bucket. It replaces a checkpoint only if the checkpoint has not changed since the publisher last read it.
package publish

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"colophon/internal/publish/bucket"
	"colophon/ledger"
)

// Options configures a Publisher. If a duration that has a default is zero, the default is used.
type Options struct {
	Bucket    bucket.Bucket
	BucketURL string   // URL of the bucket, for messages and storage.ArchivedRange
	Ledgers   []string // ledgers to publish even if their logs are not public
	Logger    *slog.Logger
	// WritesLedger reports whether this server writes a ledger. Each server publishes only the
	// ledgers that it writes. If WritesLedger is nil, this server writes all ledgers.
	WritesLedger func(ledger string) bool
	// Interval is the minimum time between two publications of a ledger.
	Interval time.Duration
	// ArchiveOldEntries allows the publisher to remove entries from the store once they are in the
	// bucket.
	ArchiveOldEntries bool
	// RetainedEntries is the number of each ledger's newest entries that always stay in the store.
	RetainedEntries uint64
	// Timeout is the time limit for a single request to the bucket. The default is 1 minute.
	Timeout time.Duration
	// MaxRetryPause is the maximum pause between retries. The default is 1 minute.
	MaxRetryPause time.Duration
	// CloseTimeout is the total time that Close allows for the final publications of all ledgers.
	// The default is 5 seconds.
	CloseTimeout time.Duration
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.MaxRetryPause = cmp.Or(o.MaxRetryPause, time.Minute)
	o.CloseTimeout = cmp.Or(o.CloseTimeout, 5*time.Second)
	return o
}

// Publisher publishes the ledgers of a host.
type Publisher struct {
	options Options
	ctx     context.Context // context of all copiers; Close cancels it
	cancel  context.CancelFunc
	last    context.Context // context of the final publications; Close sets it before it cancels ctx
	running sync.WaitGroup

	probing chan struct{} // semaphore that allows one probe at a time
	probed  *conditions   // result of the probe; nil until a probe succeeds; guarded by probing

	mu     sync.Mutex // guards copies
	copies []*copier
}

// New returns a Publisher that has no ledgers yet.
func New(o Options) *Publisher {
	p := &Publisher{options: o.withDefaults(), probing: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// NewFromSettings returns a Publisher for the bucket that the settings name. writes becomes
// Options.WritesLedger.
func NewFromSettings(s Settings, writes func(ledger string) bool, log *slog.Logger) (*Publisher, error) {
	b, err := bucket.Open(s.BucketURL)
	if err != nil {
		return nil, err
	}
	return New(Options{Bucket: b, BucketURL: s.BucketURL, Ledgers: s.PublishedLedgers, Interval: s.PublishInterval, ArchiveOldEntries: s.ArchiveOldEntries, RetainedEntries: s.RetainedEntries, WritesLedger: writes, Logger: log}), nil
}

// AddLedger starts publishing a ledger and returns immediately. If Options.Ledgers contains the
// ledger, it is always published. Otherwise, it is published while its log is public.
func (p *Publisher) AddLedger(l *ledger.Ledger) error {
	c := &copier{Publisher: p, ledger: l, log: p.options.Logger.With("ledger", l.Name()), moved: make(chan struct{}, 1),
		named: slices.Contains(p.options.Ledgers, l.Name())}
	l.OnCommit(func(ledger.Commit) { c.wake() })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil // the Publisher has been closed
	}
	p.copies = append(p.copies, c)
	c.wake()
	p.running.Go(func() { c.run(p.ctx) })
	return nil
}

// Close spends at most Options.CloseTimeout on publishing the commits that the copies still lack, and then
// stops publishing.
func (p *Publisher) Close() {
	last, end := context.WithTimeout(context.Background(), p.options.CloseTimeout)
	defer end()
	p.mu.Lock()
	if p.ctx.Err() == nil {
		p.last = last
		p.cancel()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// conditions records which conditions of a Put the bucket honours.
type conditions struct {
	absent bool // a Put with IfAbsent fails if the object exists
	tag    bool // a Put with IfTag fails if the object has a different tag
}

// probeName is the name of the object that the probe writes. The object stays in the bucket.
const probeName = "colophon-probe"

// probe returns the conditions that the bucket honours. The first call that succeeds determines
// them; later calls return the same result.
func (p *Publisher) probe(ctx context.Context) (conditions, error) {
	select {
	case p.probing <- struct{}{}:
		defer func() { <-p.probing }()
	case <-ctx.Done():
		return conditions{}, ctx.Err()
	}
	if p.probed != nil {
		return *p.probed, nil
	}
	found, err := p.tryConditions(ctx)
	if err != nil {
		return found, err
	}
	p.probed = &found
	const doubt = "the bucket does not honour this condition for writes, so the server can only check the object before it writes; do not let a second server publish to this bucket"
	if !found.absent {
		p.options.Logger.Warn(doubt, "condition", "If-None-Match: *", "bucket", p.options.BucketURL)
	}
	if !found.tag {
		p.options.Logger.Warn(doubt, "condition", "If-Match", "bucket", p.options.BucketURL)
	}
	if found.absent && found.tag {
		p.options.Logger.Info("publishing to a bucket that honours conditional writes", "bucket", p.options.BucketURL)
	}
	return found, nil
}
