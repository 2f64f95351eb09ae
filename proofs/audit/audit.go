// Package audit walks a whole log and checks everything that can be checked: the chain, the
// tree and its tiles, the signed checkpoint, every event and its statements about its record,
// the content that events name, the redactions, and the idempotency keys (spec: Entry and
// chain; Merkle tree; Event body; Content; Redactions; Checks; Idempotency; Checkpoints; Key
// rotation).
//
// WalkLog walks a stored log, and everything else that is stored for its ledger, for fsck and
// tests. Extend walks a published log from where an earlier walk ended, for audits. Both use a
// walk. Each part of a walk checks one thing: treeCheck the chain and the tree, seenCheck
// earlier checkpoints, signerCheck keys and rotations, eventCheck and verbCheck events,
// useCheck idempotency keys and sources, contentCheck content, and redactionCheck redactions.
package audit

import (
	"context"
	"errors"
	"iter"
	"time"

	"colophon/proofs"
)

// ErrUnavailable is wrapped by the errors of a Source that cannot be read at the moment, for
// example because the network is down. It is not damage: the walk stops and returns the error.
var ErrUnavailable = errors.New("audit: source unavailable")

// ErrAbsent is wrapped by the errors of a Source that is certain not to have the requested
// item. It is returned only for content, redactions, and the member secret.
var ErrAbsent = errors.New("not there")

// PublishedLog is the part of a log that its readers can fetch (spec: Tiles and entry bundles).
// An error means that data is missing or cannot be read. The walk reports it as damage, unless
// the error wraps ErrUnavailable or the context is done. If the error wraps a *Damage, the
// walk reports that damage.
type PublishedLog interface {
	// Head returns the last committed head. Its Tip and Time are zero if the log is read from
	// a server or a copy, not from storage.
	Head(ctx context.Context) (Head, error)
	// Tile returns the current value of a hash tile, which may have grown since Head.
	Tile(ctx context.Context, level uint8, index uint64) ([]byte, error)
	// Entries yields the entries in order, beginning with sequence number from. A slice is
	// valid until the next step.
	Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error]
}

// Source is a log and everything else that is stored for its ledger. Its errors are those of
// PublishedLog.
type Source interface {
	PublishedLog
	// Content returns the bytes stored under this SHA-256, or ErrAbsent.
	Content(ctx context.Context, digest proofs.Hash) ([]byte, error)
	// FirstReference returns the first record for which a piece of content is kept, or ErrAbsent.
	FirstReference(ctx context.Context, digest proofs.Hash) (seq uint64, err error)
	// HasReference reports whether storage keeps a piece of content for the record at seq.
	HasReference(ctx context.Context, digest proofs.Hash, seq uint64) (bool, error)
	// Redaction returns the event that redacted a record's content, or ErrAbsent.
	Redaction(ctx context.Context, seq uint64) (by uint64, err error)
	// Redactions yields all stored redactions, including those that name records or events
	// beyond the head. It yields none that was committed after the call.
	Redactions(ctx context.Context) iter.Seq2[Redaction, error]
	// MemberSecret returns the ledger's secret of payload members, or ErrAbsent.
	MemberSecret(ctx context.Context) ([]byte, error)
	// Key returns the claim of an idempotency key.
	Key(ctx context.Context, key proofs.Hash) (Claim, error)
}

// Redaction is a stored statement that the event By redacts the record at Seq.
type Redaction struct{ Seq, By uint64 }

// Claim names the record that holds an idempotency key.
type Claim struct {
	Seq    uint64      // event that claimed the key
	Record proofs.Hash // digest of the event's record, as in record.KindDigest
}

// Head is the state of a log after a commit, as storage keeps it.
type Head struct {
	Size       uint64      // number of entries
	Tip        proofs.Hash // event_hash of the last entry; zero if the log is empty
	Time       int64       // time of the last event, microseconds since 1970 UTC
	Checkpoint []byte      // signed note; empty if the log is empty
}

// Options configures a walk.
type Options struct {
	// Verifiers are the trusted keys. At least one of them must be among the keys in the log's
	// events (Position.Keys). Every key that signs at the checkpoint's size must have signed it,
	// and at least one of these keys must be a trusted key or a successor of one.
	Verifiers []*proofs.Verifier
	// Successors are keys that follow the trusted ones according to handovers. They serve only
	// to open the checkpoint before the walk has read the events.
	Successors []*proofs.Verifier
	// Ledger is the ledger's name, which all events must have. If it is "", the walk takes the
	// name from the first event.
	Ledger string
	// Now, if set, is the time of the walk: no event may be more than a day later than this.
	Now time.Time
	// Progress, if set, is called after every 4,096 entries and at the end, on the goroutine
	// of the walk. Both arguments are numbers of entries; total is the number of entries up to
	// the head.
	Progress func(done, total uint64)
}

// Report is the result of a walk.
type Report struct {
	Size       uint64            // valid entries, including those of earlier walks
	Contents   uint64            // valid pieces of content; a piece is counted once for each record that names it
	Redacted   uint64            // pieces of content of redacted records, whether erased or kept for other records
	Keys       uint64            // valid uses of idempotency keys
	Claims     uint64            // uses that claim a key
	Needs      uint64            // pieces of content that unredacted records name; a piece is counted once for each record
	Checkpoint proofs.Checkpoint // the signed checkpoint; zero if it is damaged
	Damage     *Damage           // the first damage, or nil
}

// WalkLog walks a stored log once, up to the head that it finds, and stops at the first damage. Its
// memory use is bounded, except for about 32 bytes for each registered source. The report holds the
// damage; the error says why the walk could not finish.
func WalkLog(ctx context.Context, source Source, options Options) (*Report, error) {
	w, err := newWalk(ctx, source, source, options, ExtendOptions{})
	if err != nil {
		return nil, err
	}
	return w.run()
}
