// Package publish copies logs into a bucket, where clients read them without the server: the
// checkpoint, the tiles, the entry bundles, and the keys, under the paths that the server has
// for them (spec: Tiles and entry bundles; Checkpoints).
//
// Each ledger has a goroutine of its own, which follows the published head. A commit never
// waits for it. What the bucket has is a function of the log, so nothing is remembered: a
// publication that was interrupted anywhere continues from the checkpoint in the bucket.
//
// An object of the log is written only if it is absent. If it is there, it must have the same
// bytes. A checkpoint is written after all that it covers is there, and replaces only the
// checkpoint that was read before.
package publish

import (
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
	Ledgers []string // published even if their logs are not public
	Log     *slog.Logger
	// Writes reports whether this server writes a ledger. Other servers publish the ledgers that
	// they write. nil means that it writes all.
	Writes func(ledger string) bool
	// Every is the shortest time between two publications of a ledger.
	Every time.Duration
	// Archive lets stores give up entries that are in the bucket, except for the newest ones:
	// ArchiveAfter of them.
	Archive      bool
	ArchiveAfter uint64
	// Timeout bounds each request to the bucket. Default 1 minute.
	Timeout time.Duration
	// Longest is the longest pause after failures. Default 1 minute.
	Longest time.Duration
	// Farewell bounds the last publications after Close, all together. Default 5 seconds.
	Farewell time.Duration
}

func (o Options) withDefaults() Options {
	setDefault(&o.Timeout, time.Minute)
	setDefault(&o.Longest, time.Minute)
	setDefault(&o.Farewell, 5*time.Second)
	return o
}

func setDefault(to *time.Duration, value time.Duration) {
	if *to == 0 {
		*to = value
	}
}

// Publisher publishes the ledgers of a host.
type Publisher struct {
	options Options
	ctx     context.Context // of all copies; done after Close
	cancel  context.CancelFunc
	last    context.Context // of the last publications; set by Close, before ctx is done
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

// Start opens the bucket that the settings name. writes is Options.Writes.
func Start(s Settings, writes func(ledger string) bool, log *slog.Logger) (*Publisher, error) {
	b, err := bucket.Open(s.Publish)
	if err != nil {
		return nil, err
	}
	return New(Options{Bucket: b, Place: s.Publish, Ledgers: s.PublishLedgers, Every: s.PublishEvery, Archive: s.Archive, ArchiveAfter: s.ArchiveAfter, Writes: writes, Log: log}), nil
}

// Open begins to publish a ledger, if its log is public or it was named. It returns at once.
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

// Close publishes what the copies lack, for a short time at most, and ends all publications.
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

// conditions says which conditions the bucket honours.
type conditions struct {
	absent bool // a Put of an object that is there fails
	tag    bool // a Put over another object than the one that was read fails
}

// probeName is the object that the probe writes. It stays.
const probeName = "colophon-probe"

// probe finds out, once, which conditions the bucket honours. An error means that it could
// not.
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
	const doubt = "the bucket does not honour a condition of writes; no second server may publish there, because the copy relies on a look before each write"
	if !found.absent {
		p.options.Log.Warn(doubt, "condition", "If-None-Match: *", "bucket", p.options.Place)
	}
	if !found.tag {
		p.options.Log.Warn(doubt, "condition", "If-Match", "bucket", p.options.Place)
	}
	if found.absent && found.tag {
		p.options.Log.Info("publishing; the bucket honours conditional writes", "bucket", p.options.Place)
	}
	return found, nil
}
