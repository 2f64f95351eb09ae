// Package audit walks a whole log and checks everything that can be checked:
// the chain, the tree and its tiles, the signed checkpoint, every event and what it
// says of its record, the content that events name and those that redact it, and
// the idempotency keys (spec: Entry and chain; Merkle tree; Event body; Content; Redactions;
// Checks; Idempotency; Checkpoints; Key rotation). It is the oracle of tests and what `fsck`
// (Log, of all that is stored) and `audit` (Extend, of what a server publishes) run.
package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"colophon/proofs"
)

// ErrUnavailable is wrapped by a Source that cannot be asked at the moment, a
// network that is down for example. It says nothing about the log: the walk returns
// it instead of reporting damage.
var ErrUnavailable = errors.New("audit: source unavailable")

// ErrAbsent is wrapped by a Source that can tell that it does not have what was
// asked for. Content and redactions are the only things that may be absent.
var ErrAbsent = errors.New("not there")

// Published is the part of a log that its readers can ask for (spec: Tiles and entry bundles).
// An error from it means that what was asked for is missing or cannot be read, which is damage,
// unless it wraps ErrUnavailable or the context is done. One that wraps a *Damage says itself
// what is damaged.
type Published interface {
	// Head is the last committed head. Of a log that another party keeps, Tip and Time
	// are not known: they are zero.
	Head(ctx context.Context) (Head, error)
	// Tile is the present value of a hash tile, which may have grown since Head.
	Tile(ctx context.Context, level uint8, index uint64) ([]byte, error)
	// Entries yields the entries from a sequence number upwards, in order. A
	// slice is valid until the next step.
	Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error]
}

// Source is a log and all that is stored beside it. Errors are as of Published.
type Source interface {
	Published
	// Content is the bytes stored under a SHA-256; ErrAbsent if there are none.
	Content(ctx context.Context, digest proofs.Hash) ([]byte, error)
	// Need is the first of the records that a piece of content is kept for;
	// ErrAbsent if there is none.
	Need(ctx context.Context, digest proofs.Hash) (seq uint64, err error)
	// Referenced reports whether a piece of content is kept for the record at seq.
	Referenced(ctx context.Context, digest proofs.Hash, seq uint64) (bool, error)
	// Redaction is the event that has redacted the content of a record; ErrAbsent
	// if none has.
	Redaction(ctx context.Context, seq uint64) (by uint64, err error)
	// Redactions yields everything that is stored of redactions, whatever record and
	// event it names, and nothing that a commit after the call has stored.
	Redactions(ctx context.Context) iter.Seq2[Redaction, error]
	// Key is the claim of an idempotency key.
	Key(ctx context.Context, key proofs.Hash) (Claim, error)
}

// Redaction says that the event By has redacted the record at Seq.
type Redaction struct{ Seq, By uint64 }

// Claim is what an idempotency key stands for.
type Claim struct {
	Seq    uint64      // the event that it led to
	Record proofs.Hash // which record that was: record.KeyedDigest
}

// Head is the state of a log after a commit, as storage has it.
type Head struct {
	Size       uint64      // number of entries
	Tip        proofs.Hash // event_hash of the last entry; zero when there is none
	Time       int64       // time of the last event, microseconds since 1970 UTC
	Checkpoint []byte      // signed note; empty when there is no entry
}

// Options says what to check against.
type Options struct {
	// Verifiers are the keys that are trusted. One of them must be among the keys that the
	// events of the log have (Position.Keys), and the checkpoint must be signed by all keys
	// that are in force at its size, of which one must be trusted or follow a trusted one.
	Verifiers []*proofs.Verifier
	// Successors are keys that follow the trusted ones, as handovers show. They are needed
	// to read the checkpoint before the events are known, and count for nothing afterwards.
	Successors []*proofs.Verifier
	// Ledger is the name that events must carry; empty means that of the first.
	Ledger string
	// Strict has Log also check what a server sees to before the ledger does: that verbs
	// are about events of the right kind, and that each event says of its record what
	// comes out when that is recomputed from its content. Extend always does, as far as
	// that is possible without content.
	Strict bool
	// Now, if set, is the time of the walk: no event can be more than a day after it.
	Now time.Time
	// Progress, if set, is called now and then and at the end, by the goroutine
	// that called the walk. Both are numbers of entries; total is what the head says.
	Progress func(done, total uint64)
}

// Report is what a walk found.
type Report struct {
	Size       uint64            // entries found good, those of earlier walks included
	Contents   uint64            // pieces of content that they name, found good
	Redacted   uint64            // pieces that redacted records name, erased or kept for another
	Keys       uint64            // uses of idempotency keys, found good
	Claims     uint64            // those of them that claim the key: each is stored
	Needs      uint64            // pairs of an unredacted record and a content that it names: each is stored
	Checkpoint proofs.Checkpoint // what the log signed; zero when that is damaged
	Damage     *Damage           // the first damage; nil when there is none
}

// Log walks the log up to the head that it finds, once. It takes a bounded amount of
// memory, and 32 bytes or a few more for each source. The error says why the walk could not be
// finished; damage is in the report. It ends at the first damage.
func Log(ctx context.Context, source Source, options Options) (*Report, error) {
	w, err := newWalk(ctx, source, options)
	if err != nil {
		return nil, err
	}
	w.stored, w.past = source, storedPast{w}
	return w.finished(w.run())
}

// finished is what the walk came to.
func (w *walk) finished(err error) (*Report, error) {
	if w.ctx.Err() != nil {
		return nil, fmt.Errorf("audit: %w", w.ctx.Err())
	}
	if err != nil && !errors.As(err, &w.report.Damage) {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return &w.report, nil
}
