// Package publish copies logs into a bucket, where clients read them without the server: the
// checkpoint, the tiles, the entry bundles, and the keys, under the same paths as on the
// server (spec: Tiles and entry bundles; Checkpoints).
//
// Each ledger has its own goroutine, which follows the published head. A commit never waits
// for it. The objects in the bucket are a function of the log, so the publisher needs no state
// of its own: after any interruption, it continues from the checkpoint in the bucket.
//
// The publisher writes a tile or bundle only if the bucket does not have it; otherwise the object must have the
// same bytes. It writes a checkpoint only when everything that the checkpoint covers is in the bucket, and
// replaces only the checkpoint that it has read before.
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

// Options configure a Publisher. Zero durations mean defaults.
type Options struct {
	Bucket  bucket.Bucket
	Place   string   // the URL of the bucket, for messages
	Ledgers []string // ledgers to publish even if their logs are not public
	Log     *slog.Logger
	// Writes reports whether this server writes a ledger. Each server publishes only the
	// ledgers that it writes. nil means that this server writes all ledgers.
	Writes func(ledger string) bool
	// Every is the shortest time between two publications of a ledger.
	Every time.Duration
	// Archive lets stores drop entries that are in the bucket, except for the newest ArchiveAfter entries.
	Archive      bool
	ArchiveAfter uint64
	// Timeout is the longest time of one request to the bucket. The default is 1 minute.
	Timeout time.Duration
	// Longest is the longest pause after failures. The default is 1 minute.
	Longest time.Duration
	// Farewell is the longest time of the last publications of all ledgers together, after
	// Close. The default is 5 seconds.
	Farewell time.Duration
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Longest = cmp.Or(o.Longest, time.Minute)
	o.Farewell = cmp.Or(o.Farewell, 5*time.Second)
	return o
}

// Publisher publishes the ledgers of a host.
type Publisher struct {
	options Options
	ctx     context.Context // context of all copies; done after Close
	cancel  context.CancelFunc
	last    context.Context // context of the last publications; Close sets it before ctx is done
	running sync.WaitGroup

	probing chan struct{} // holds a token during the probe
	probed  *conditions   // owned by the holder of the token; nil before the probe

	mu     sync.Mutex // guards copies
	copies []*copier
}

// New returns a publisher without ledgers.
func New(o Options) *Publisher {
	p := &Publisher{options: o.withDefaults(), probing: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// NewFromSettings returns a publisher to the bucket that the settings name. writes is Options.Writes.
func NewFromSettings(s Settings, writes func(ledger string) bool, log *slog.Logger) (*Publisher, error) {
	b, err := bucket.Open(s.Publish)
	if err != nil {
		return nil, err
	}
	return New(Options{Bucket: b, Place: s.Publish, Ledgers: s.PublishLedgers, Every: s.PublishEvery, Archive: s.Archive, ArchiveAfter: s.ArchiveAfter, Writes: writes, Log: log}), nil
}

// Open starts to publish a ledger if its log is public, or if Options.Ledgers names it. It
// returns at once.
func (p *Publisher) Open(l *ledger.Ledger) error {
	c := &copier{Publisher: p, ledger: l, log: p.options.Log.With("ledger", l.Name()), moved: make(chan struct{}, 1),
		named: slices.Contains(p.options.Ledgers, l.Name())}
	l.OnCommit(func(ledger.Commit) { c.wake() })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return nil // closed
	}
	p.copies = append(p.copies, c)
	c.wake()
	p.running.Go(func() { c.run(p.ctx) })
	return nil
}

// Close publishes the commits that the copies lack, for at most Options.Farewell, and then stops publishing.
func (p *Publisher) Close() {
	last, end := context.WithTimeout(context.Background(), p.options.Farewell)
	defer end()
	p.mu.Lock()
	if p.ctx.Err() == nil {
		p.last = last
		p.cancel()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// conditions says which conditions of a Put the bucket honours.
type conditions struct {
	absent bool // with IfAbsent, a Put of an existing object fails
	tag    bool // with IfTag, a Put fails if the object is not the one that was read
}

// probeName is the object that the probe writes. The probe does not remove it.
const probeName = "colophon-probe"

// probe finds out, once, which conditions the bucket honours. It returns an error if it cannot
// find out.
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
	const doubt = "the bucket does not honour this condition for writes, so the server can only check the object before it writes; do not let a second server publish there"
	if !found.absent {
		p.options.Log.Warn(doubt, "condition", "If-None-Match: *", "bucket", p.options.Place)
	}
	if !found.tag {
		p.options.Log.Warn(doubt, "condition", "If-Match", "bucket", p.options.Place)
	}
	if found.absent && found.tag {
		p.options.Log.Info("publishing to a bucket that honours conditional writes", "bucket", p.options.Place)
	}
	return found, nil
}
