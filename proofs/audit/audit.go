// Package audit walks a whole log and checks everything that can be checked: the chain, the tree
// and its tiles, the signed checkpoint, every event and what it states about its record, the
// content that events name, the redactions, and the idempotency keys (spec: Entry and chain; Merkle
// tree; Event body; Content; Redactions; Checks; Idempotency; Checkpoints; Key rotation).
//
// WalkLog walks a stored log and everything else that is stored for its ledger. It is used by fsck
// and tests. ExtendWalk walks a published log from the point where an earlier walk ended. It is
// used by audits.
//
// Both functions use a walk, which consists of these parts:
//   - treeCheck checks the chain and the tree.
//   - seenCheck checks checkpoints that were seen earlier.
//   - signerCheck checks keys and rotations.
//   - eventCheck and actionCheck check events.
//   - useCheck checks idempotency keys and sources.
//   - contentCheck and redactionCheck check content and redactions.
package audit

import (
	"context"
	"errors"
	"iter"
	"time"

	"colophon/proofs"
)

// ErrUnavailable means that a Source cannot be read at the moment, for example because the network
// is down. Errors of a Source can wrap it. This is not damage: the walk stops and returns the
// error.
var ErrUnavailable = errors.New("audit: the source is unavailable")

// ErrNotFound means that a Source certainly does not have the requested item. Only errors of
// Content, FirstReference, RedactingSeq, and PayloadMemberSecret wrap it.
var ErrNotFound = errors.New("not found")

// PublishedLog is the part of a log that its readers can fetch (spec: Tiles and entry bundles). An
// error from one of its methods means that data is missing or cannot be read. The walk reports this
// as damage, unless the error wraps ErrUnavailable or the context is done. If the error wraps a
// *Damage, the walk reports that damage.
type PublishedLog interface {
	// Head returns the last committed head. Its Tip and TimeMicros are zero if the log is read from
	// a server or a copy, not from storage.
	Head(ctx context.Context) (Head, error)
	// Tile returns the current hashes of a tile, which may have grown since Head was called.
	Tile(ctx context.Context, level uint8, index uint64) ([]byte, error)
	// Entries yields the entries in order, starting with sequence number from. Each slice is valid
	// until the next step of the iteration.
	Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error]
}

// Source provides a log and everything else that is stored for its ledger. Its methods report
// errors in the same way as the methods of PublishedLog.
type Source interface {
	PublishedLog
	// Content returns the bytes that are stored under the given SHA-256, or ErrNotFound.
	Content(ctx context.Context, digest proofs.Hash) ([]byte, error)
	// FirstReference returns the seq of the first record for which storage keeps the given piece of
	// content, or ErrNotFound if there is no such record.
	FirstReference(ctx context.Context, digest proofs.Hash) (seq uint64, err error)
	// HasReference reports whether storage keeps the given piece of content for the record at seq.
	HasReference(ctx context.Context, digest proofs.Hash, seq uint64) (bool, error)
	// RedactingSeq returns the seq of the event that redacted the record at seq, or ErrNotFound if
	// there is none.
	RedactingSeq(ctx context.Context, seq uint64) (by uint64, err error)
	// Redactions yields all stored redactions, including those that name records or events beyond
	// the head. It does not yield any that were committed after the call.
	Redactions(ctx context.Context) iter.Seq2[Redaction, error]
	// PayloadMemberSecret returns the ledger's payload-member secret, or ErrNotFound if it has
	// none.
	PayloadMemberSecret(ctx context.Context) ([]byte, error)
	// KeyClaim returns the claim on an idempotency key.
	KeyClaim(ctx context.Context, key proofs.Hash) (Claim, error)
}

// Refresher is a Source whose ledger can change during the walk, and that can read ahead. Before the walk
// reports that content or a redaction is damaged, it refreshes the source and checks the event once more.
// Otherwise, it would report a record that is redacted at that moment.
type Refresher interface {
	// Refresh makes the source forget what it has read ahead.
	Refresh()
}

// Redaction is a redaction as stored: the event at RedactingSeq redacts the record at RecordSeq.
type Redaction struct{ RecordSeq, RedactingSeq uint64 }

// Claim identifies the record that holds an idempotency key.
type Claim struct {
	Seq          uint64      // seq of the event that claimed the key
	RecordDigest proofs.Hash // digest of that event's record, as returned by record.DigestWithKind
}

// Head is the state of a log after a commit, as kept in storage.
type Head struct {
	Size       uint64      // number of entries
	Tip        proofs.Hash // event_hash of the last entry; zero if the log is empty
	TimeMicros int64       // time of the last event, in microseconds since 1970 UTC
	Checkpoint []byte      // signed note; empty if the log is empty
}

// Options configures a walk.
type Options struct {
	// Verifiers holds the trusted keys. At least one of them must be among the keys in the log's
	// events (Position.Keys). Every key that signs at the checkpoint's size must have signed the
	// checkpoint, and at least one of these keys must be a trusted key or a successor of one.
	Verifiers []*proofs.Verifier
	// Successors are keys that replaced trusted keys, according to signed handovers. They are used
	// only to open the checkpoint before the walk has read the events.
	Successors []*proofs.Verifier
	// Ledger is the ledger's name, which every event must contain. If it is "", the walk takes the
	// name from the first event.
	Ledger string
	// Now is the time of the walk. If it is set, no event may be more than a day later than Now.
	Now time.Time
	// Progress, if not nil, is called after every 4,096 entries and at the end, on the goroutine
	// that runs the walk. done is the number of entries walked so far, and total is the number of
	// entries up to the head.
	Progress func(done, total uint64)
}

// Report is the result of a walk.
type Report struct {
	Size                   uint64            // number of valid entries, including those of earlier walks
	ContentCount           uint64            // number of valid pieces of content; a piece is counted once for each record that names it
	RedactedContentCount   uint64            // number of pieces of content of redacted records, whether erased or kept for other records
	KeyUses                uint64            // number of valid uses of idempotency keys
	KeyClaims              uint64            // number of the uses counted in KeyUses that claim a key
	UnredactedContentCount uint64            // number of pieces of content that unredacted records name; a piece is counted once for each record that names it
	Checkpoint             proofs.Checkpoint // the signed checkpoint; zero if it is damaged
	Damage                 *Damage           // the first damage found, or nil
}

// WalkLog walks a stored log once, up to the head that it finds at the start, and stops at the
// first damage. Its memory use is bounded, except for about 32 bytes for each registered source.
// Damage is returned in the report; an error means that the walk could not finish.
func WalkLog(ctx context.Context, source Source, options Options) (*Report, error) {
	w, err := newWalk(ctx, source, source, options, ExtendOptions{})
	if err != nil {
		return nil, err
	}
	return w.run()
}
