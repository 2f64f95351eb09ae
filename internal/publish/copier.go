package publish

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"colophon/ledger"
)

// copier publishes one ledger. Only its goroutine uses the fields without a note.
type copier struct {
	*Publisher
	ledger *ledger.Ledger
	named  bool
	log    *slog.Logger
	moved  chan struct{} // holds a token when the log may have grown

	at   *position // what the bucket has; nil if that must be read first
	full uint64    // all full tiles of the tree of this size are in the bucket

	failing   string // the message of the failure that lasts; empty without one
	archiving string // the same of archive

	// For metrics; written by run, read by all.
	size       atomic.Uint64 // of the checkpoint in the bucket, as last read or written
	known      atomic.Bool   // size is set
	active     atomic.Bool   // the ledger is published
	behind     atomic.Int64  // since when the log has events that the copy lacks, in Unix nanoseconds; 0 if it has all
	failures   [len(reasons)]atomic.Uint64
	below      atomic.Uint64 // entries that may have left the store, as last read or written
	unarchived atomic.Uint64 // steps of archive that failed
}

// wake tells the goroutine that the log may have grown. It never blocks.
func (c *copier) wake() {
	c.behind.CompareAndSwap(0, time.Now().UnixNano())
	c.again()
}

// again makes run look again at once. It never blocks.
func (c *copier) again() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// firstPause is the pause after a first failure; each further failure doubles it.
const firstPause = time.Second / 2

// visibilityPause is the time between two looks at whether a ledger has become public, or is written
// here.
const visibilityPause = 10 * time.Second

// run publishes until ctx is done, and then once more.
func (c *copier) run(ctx context.Context) {
	pause := time.Duration(0)
	for {
		var next <-chan time.Time
		var moved <-chan struct{}
		switch {
		case pause > 0:
			next = time.After(pause) // commits do not shorten the pause after a failure
		default:
			next, moved = time.After(visibilityPause), c.moved
		}
		select {
		case <-ctx.Done():
			c.farewell()
			return
		case <-moved:
		case <-next:
		}
		began := time.Now()
		err := c.publish(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.failed(err)
			pause = min(max(2*pause, firstPause), c.options.Longest)
			pause -= time.Duration(rand.Int64N(int64(pause)/4 + 1)) // #nosec G404 -- so that servers do not return all at once
		default:
			c.succeeded()
			pause = 0
			more, err := c.archive(ctx)
			if ctx.Err() == nil {
				c.noteArchive(err)
			}
			if more {
				c.again()
			}
			select {
			case <-time.After(c.options.Every - time.Since(began)):
			case <-ctx.Done():
			}
		}
	}
}

// farewell publishes the last commits, unless the bucket has been failing.
func (c *copier) farewell() {
	if c.failing != "" {
		return
	}
	if err := c.publish(c.last); err != nil {
		c.log.Warn("the copy lacks the last events; the next start publishes them", "error", err)
	}
}

// publish brings the copy up to the published head.
func (c *copier) publish(ctx context.Context) error {
	writes := c.options.Writes == nil || c.options.Writes(c.ledger.Name())
	c.active.Store(writes && (c.named || c.ledger.Public()))
	if !c.active.Load() {
		c.at = nil // what happens to the copy meanwhile is not known
		c.known.Store(false)
		c.behind.Store(0)
		return nil
	}
	since := time.Now().UnixNano()
	head := c.ledger.Head()
	if c.at != nil && c.at.size == head.Size {
		c.behind.Store(0)
		c.wakeIfGrown(head.Size, since)
		return nil
	}
	honoured, err := c.probe(ctx)
	if err != nil {
		return err
	}
	r := round{copier: c, head: head, conditions: honoured}
	if err := r.run(ctx); err != nil {
		return err
	}
	c.behind.Store(0)
	c.wakeIfGrown(head.Size, since)
	return nil
}

// wakeIfGrown notes that the copy lacks events again, if the log has grown since a time.
func (c *copier) wakeIfGrown(published uint64, since int64) {
	if c.ledger.Head().Size > published {
		c.behind.CompareAndSwap(0, since)
	}
}

// setSize notes what the copy has, for metrics.
func (c *copier) setSize(size uint64) {
	c.size.Store(size)
	c.known.Store(true)
}

// failed counts a failure, and logs it if the last one was another.
func (c *copier) failed(err error) {
	reason := reasonOf(err)
	c.failures[reason].Add(1)
	if message := err.Error(); message != c.failing {
		c.failing = message
		c.log.Error("the copy in the bucket cannot be brought up to date; trying again", "bucket", c.options.Place, "reason", reasons[reason], "error", err)
	}
}

func (c *copier) succeeded() {
	if c.failing != "" {
		c.failing = ""
		c.log.Info("the copy in the bucket is up to date again", "bucket", c.options.Place)
	}
}

// Kinds of failures.
const (
	unavailable = iota // the bucket does not answer, refuses, or forgets
	different          // an object is there with other bytes than the log has
	foreign            // the copy is of another log, or is ahead of this one
	unreadable         // the database does not answer, or does not have what was signed
)

// reasons are the names of the kinds.
var reasons = [...]string{unavailable: "unavailable", different: "different", foreign: "foreign", unreadable: "unreadable"}

var (
	errDifferent  = errors.New("the bucket has other bytes than the log, and they stay")
	errForeign    = errors.New("refusing to publish")
	errUnreadable = errors.New("the log cannot be read from the database as it was signed; if this stays, run colophon fsck")
)

func reasonOf(err error) int {
	switch {
	case errors.Is(err, errDifferent):
		return different
	case errors.Is(err, errForeign):
		return foreign
	case errors.Is(err, errUnreadable):
		return unreadable
	}
	return unavailable
}
