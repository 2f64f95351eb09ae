// Package audit walks a whole log and checks everything that can be checked: the chain, the tree
// and its tiles, the signed checkpoint, every event and what it says of its record, the content
// that events name, the redactions, and the idempotency keys (spec: Entry and chain; Merkle tree;
// Event body; Content; Redactions; Checks; Idempotency; Checkpoints; Key rotation).
//
// Log walks a stored log and all that is stored beside it, for fsck and tests. Extend walks a
// published log from where an earlier walk ended, for audits. Both are a walk, whose parts each
// check one thing: treeCheck chain and tree, seenCheck earlier checkpoints, signerCheck keys and
// rotations, eventCheck and verbCheck events, useCheck idempotency keys and sources, contentCheck
// content, redactionCheck redactions.
package audit

import (
	"context"
	"errors"
	"iter"
	"time"

	"colophon/proofs"
)

// ErrUnavailable is wrapped by a Source that cannot be read at the moment, for example because
// the network is down. It is not damage: the walk ends with this error.
var ErrUnavailable = errors.New("audit: source unavailable")

// ErrAbsent is wrapped by a Source that knows that it does not have what it was asked for. Only
// content and redactions may be absent.
var ErrAbsent = errors.New("not there")

// Published is the part of a log that its readers can fetch (spec: Tiles and entry bundles). An
// error means that something is missing or cannot be read, which is damage, unless the error
// wraps ErrUnavailable or the context is done. If the error wraps a *Damage, that is the damage.
type Published interface {
	// Head returns the last committed head. Tip and Time are zero if another party keeps the log.
	Head(ctx context.Context) (Head, error)
	// Tile returns a hash tile as it is now. It may have grown since Head.
	Tile(ctx context.Context, level uint8, index uint64) ([]byte, error)
	// Entries yields the entries from a sequence number on, in order. A slice is valid until the
	// next step.
	Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error]
}

// Source is a log and all that is stored beside it. Errors are as for Published.
type Source interface {
	Published
	// Content returns the bytes stored under a SHA-256, or ErrAbsent.
	Content(ctx context.Context, digest proofs.Hash) ([]byte, error)
	// Need returns the first of the records for which a piece of content is kept, or ErrAbsent.
	Need(ctx context.Context, digest proofs.Hash) (seq uint64, err error)
	// Referenced reports whether a piece of content is kept for the record at seq.
	Referenced(ctx context.Context, digest proofs.Hash, seq uint64) (bool, error)
	// Redaction returns the event that redacted the content of a record, or ErrAbsent.
	Redaction(ctx context.Context, seq uint64) (by uint64, err error)
	// Redactions yields all stored redactions, whatever records and events they name. It yields
	// none that was committed after the call.
	Redactions(ctx context.Context) iter.Seq2[Redaction, error]
	// MemberSecret returns the secret of payload members, or ErrAbsent.
	MemberSecret(ctx context.Context) ([]byte, error)
	// Key returns the claim of an idempotency key.
	Key(ctx context.Context, key proofs.Hash) (Claim, error)
}

// Redaction means that the event By redacts the record at Seq.
type Redaction struct{ Seq, By uint64 }

// Claim is what an idempotency key stands for.
type Claim struct {
	Seq    uint64      // the event that claimed the key
	Record proofs.Hash // record.KeyedDigest of its record
}

// Head is the state of a log after a commit, as in storage.
type Head struct {
	Size       uint64      // number of entries
	Tip        proofs.Hash // event_hash of the last entry; zero if there is none
	Time       int64       // time of the last event, microseconds since 1970 UTC
	Checkpoint []byte      // signed note; empty if there is no entry
}

// Options are the expectations of a walk.
type Options struct {
	// Verifiers are the trusted keys. One of them must be among the keys in the log's events
	// (Position.Keys). All keys in force at the checkpoint's size must sign it, and one of them
	// must be trusted or follow a trusted key.
	Verifiers []*proofs.Verifier
	// Successors are keys that follow the trusted ones, according to handovers. They serve to
	// read the checkpoint before the events are known, and for nothing else.
	Successors []*proofs.Verifier
	// Ledger is the name that events must have; "" means that of the first event.
	Ledger string
	// Now, if set, is the time of the walk: no event may be more than a day later.
	Now time.Time
	// Progress, if set, is called after every 4,096 entries and at the end, on the goroutine of
	// the walk. Both arguments are numbers of entries; total is that of the head.
	Progress func(done, total uint64)
}

// Report is the result of a walk.
type Report struct {
	Size       uint64            // valid entries, those of earlier walks included
	Contents   uint64            // valid pieces of content, counted for each record that names them
	Redacted   uint64            // pieces that redacted records name: erased, or kept for another record
	Keys       uint64            // valid uses of idempotency keys
	Claims     uint64            // those of them that claim the key
	Needs      uint64            // pairs of an unredacted record and a piece of content that it names
	Checkpoint proofs.Checkpoint // what the log signed; zero if that is damaged
	Damage     *Damage           // the first damage, or nil
}

// Log walks a stored log once, up to the head that it finds, and stops at the first damage. It
// uses bounded memory, and about 32 bytes more for each source. Damage is in the report; the
// error says why the walk could not finish.
func Log(ctx context.Context, source Source, options Options) (*Report, error) {
	w, err := newWalk(ctx, source, source, options, Extension{})
	if err != nil {
		return nil, err
	}
	return w.run()
}
