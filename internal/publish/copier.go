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

// copier copies the log of one ledger to the bucket.
type copier struct {
	*Publisher
	ledger *ledger.Ledger
	named  bool
	log    *slog.Logger
	moved  chan struct{} // buffered; contains a value if the log may have grown

	// Only the copier's goroutine uses the next four fields.
	at   *position // state of the copy in the bucket; nil if it must be read from the bucket
	full uint64    // size of a tree whose full tiles are all in the bucket

	failing   string // error message of the last publication; empty if it succeeded
	archiving string // error message of the last archiving step; empty if it succeeded

	// The fields below are for metrics. Only run writes them, except for behind, which wake also
	// sets.
	size            atomic.Uint64 // size of the checkpoint that was last read from or written to the bucket
	known           atomic.Bool   // whether size is valid
	active          atomic.Bool   // whether this server publishes the ledger
	behind          atomic.Int64  // time when the copy fell behind the log, in Unix nanoseconds; 0 if the copy is complete
	failures        [len(reasons)]atomic.Uint64
	archivedBelow   atomic.Uint64 // entries below this seq may have been removed from the store; set by archive
	archiveFailures atomic.Uint64 // number of failed calls to archive
}

// wake tells the copier's goroutine that the log may have grown. It never blocks.
func (c *copier) wake() {
	c.behind.CompareAndSwap(0, time.Now().UnixNano())
	c.again()
}

// again makes run start another publication without waiting for a commit. It never blocks.
func (c *copier) again() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// firstPause is the pause after the first failure. Each consecutive failure doubles it, up to
// Options.MaxRetryPause.
const firstPause = time.Second / 2

// visibilityPause is the interval at which run checks whether it should now publish the ledger.
// The ledger can become public, or this server can become its writer.
const visibilityPause = 10 * time.Second

// run publishes the log whenever it grows, until ctx is done. Then it publishes one last time.
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
			c.publishLast()
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
			pause = min(max(2*pause, firstPause), c.options.MaxRetryPause)
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
			case <-time.After(c.options.Interval - time.Since(began)):
			case <-ctx.Done():
			}
		}
	}
}

// publishLast publishes the last commits before the copier stops. It does nothing if the previous
// publication failed.
func (c *copier) publishLast() {
	if c.failing != "" {
		return
	}
	if err := c.publish(c.last); err != nil {
		c.log.Warn("the copy lacks the last events; the server will publish them at its next start", "error", err)
	}
}

// publish brings the copy up to the ledger's head. It does nothing if this server does not publish
// the ledger.
func (c *copier) publish(ctx context.Context) error {
	writes := c.options.WritesLedger == nil || c.options.WritesLedger(c.ledger.Name())
	c.active.Store(writes && (c.named || c.ledger.HasPublicLog()))
	if !c.active.Load() {
		c.at = nil // other servers may change the copy in the meantime
		c.known.Store(false)
		c.behind.Store(0)
		return nil
	}
	since := time.Now().UnixNano()
	head := c.ledger.Head()
	if c.at != nil && c.at.size == head.Size {
		c.behind.Store(0)
		c.markBehindIfGrown(head.Size, since)
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
	c.markBehindIfGrown(head.Size, since)
	return nil
}

// markBehindIfGrown sets behind to since if the log has grown beyond the published size, unless behind is
// already set.
func (c *copier) markBehindIfGrown(published uint64, since int64) {
	if c.ledger.Head().Size > published {
		c.behind.CompareAndSwap(0, since)
	}
}

// setSize records the size of the copy, for metrics.
func (c *copier) setSize(size uint64) {
	c.size.Store(size)
	c.known.Store(true)
}

// failed counts a failure, and logs it unless the previous failure had the same message.
func (c *copier) failed(err error) {
	reason := reasonOf(err)
	c.failures[reason].Add(1)
	if message := err.Error(); message != c.failing {
		c.failing = message
		c.log.Error("updating the copy in the bucket failed; trying again", "bucket", c.options.BucketURL, "reason", reasons[reason], "error", err)
	}
}

func (c *copier) succeeded() {
	if c.failing != "" {
		c.failing = ""
		c.log.Info("the copy in the bucket is up to date again", "bucket", c.options.BucketURL)
	}
}

// Reasons why a publication can fail.
const (
	unavailable = iota // the bucket does not respond, refuses requests, or loses objects
	different          // the bucket has an object whose bytes differ from the log's
	foreign            // the copy belongs to another log, or is ahead of this log
	unreadable         // the database does not respond, or does not contain the log that was signed
)

// reasons holds the values of the metric label "reason", indexed by the constants above.
var reasons = [...]string{unavailable: "unavailable", different: "different", foreign: "foreign", unreadable: "unreadable"}

var (
	errDifferent  = errors.New("the object in the bucket differs from the log; leaving the object unchanged")
	errForeign    = errors.New("refusing to publish")
	errUnreadable = errors.New("the signed log cannot be read from the database; if this error persists, run colophon fsck")
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
