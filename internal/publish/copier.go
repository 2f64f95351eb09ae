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

// copier publishes one ledger.
type copier struct {
	*Publisher
	ledger *ledger.Ledger
	named  bool
	log    *slog.Logger
	moved  chan struct{} // holds a token if the log may have grown

	// Only the copier's goroutine uses the next four fields.
	at   *position // what the bucket has; nil if it must be read first
	full uint64    // the bucket has all full tiles of the tree of this size

	failing   string // the message of the current failure; empty if the last publication succeeded
	archiving string // the message of the current failure to archive; empty if the last step succeeded

	// The fields below are for metrics. Only run writes them.
	size       atomic.Uint64 // size of the checkpoint in the bucket when it was last read or written
	known      atomic.Bool   // size is set
	active     atomic.Bool   // the ledger is published
	behind     atomic.Int64  // when the log first had events that the copy lacks, in Unix nanoseconds; 0 if the copy has all
	failures   [len(reasons)]atomic.Uint64
	below      atomic.Uint64 // number of entries that may have been removed from the store, as last read or written
	unarchived atomic.Uint64 // number of failed calls of archive
}

// wake tells the goroutine that the log may have grown. It never blocks.
func (c *copier) wake() {
	c.behind.CompareAndSwap(0, time.Now().UnixNano())
	c.again()
}

// again makes run check again at once. It never blocks.
func (c *copier) again() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// firstPause is the pause after a first failure; each further failure doubles it.
const firstPause = time.Second / 2

// visibilityPause is the time between two checks whether a ledger has become public, or
// whether this server now writes it.
const visibilityPause = 10 * time.Second

// run publishes whenever the log grows, until ctx is done. Then it publishes one last time.
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

// publish updates the copy to the ledger's head. It does nothing if this server does not publish
// the ledger.
func (c *copier) publish(ctx context.Context) error {
	writes := c.options.Writes == nil || c.options.Writes(c.ledger.Name())
	c.active.Store(writes && (c.named || c.ledger.HasPublicLog()))
	if !c.active.Load() {
		c.at = nil // until then, other servers can change the copy
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

// wakeIfGrown records in behind that the copy lacks events again, if the log has grown beyond the
// published size.
func (c *copier) wakeIfGrown(published uint64, since int64) {
	if c.ledger.Head().Size > published {
		c.behind.CompareAndSwap(0, since)
	}
}

// setSize records the size of the copy, for metrics.
func (c *copier) setSize(size uint64) {
	c.size.Store(size)
	c.known.Store(true)
}

// failed counts a failure, and logs it unless the previous failure was the same.
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
	unavailable = iota // the bucket does not answer, refuses requests, or loses objects
	different          // the bucket has an object whose bytes differ from the log's
	foreign            // the copy belongs to another log, or is ahead of this log
	unreadable         // the database does not answer, or does not have what was signed
)

// reasons are the values of the label reason in the metrics.
var reasons = [...]string{unavailable: "unavailable", different: "different", foreign: "foreign", unreadable: "unreadable"}

var (
	errDifferent  = errors.New("the bytes in the bucket differ from the log's; leaving them unchanged")
	errForeign    = errors.New("refusing to publish")
	errUnreadable = errors.New("the log that was read from the database is not the log that was signed; if this error remains, run colophon fsck")
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
