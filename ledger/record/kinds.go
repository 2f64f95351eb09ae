package record

import (
	"crypto/sha256"
	"slices"
	"strconv"
)

// Kind is the kind of an event (spec: Event body).
type Kind string

// The kinds of records that services post.
const (
	IPCRecord       Kind = "ipc_record"
	RunDAG          Kind = "run_dag"
	CitationSet     Kind = "citation_set"
	PathFingerprint Kind = "path_fingerprint"
)

// The kinds of events that the ledger writes itself.
const (
	LedgerCreated Kind = "ledger_created"
	RecordRefused Kind = "record_refused"
	KeyRotated    Kind = "key_rotated"
)

// These are the kinds of events that verbs create. A verb is a request that changes a state or
// records a statement about a record (spec: States; Path validation; Sources; Redactions; Notes).
const (
	RecordStateChanged Kind = "record_state_changed"
	PathValidated      Kind = "path_validated"
	SourceRegistered   Kind = "source_registered"
	SourceRevoked      Kind = "source_revoked"
	ContentRedacted    Kind = "content_redacted"
	Note               Kind = "note"
)

// Kinds contains the kinds of records that services post.
var Kinds = [...]Kind{IPCRecord, RunDAG, CitationSet, PathFingerprint}

// EventKinds contains the kinds of all events. The state files of audits store a kind as its index
// in this array, so new kinds must be added at the end.
var EventKinds = [...]Kind{
	LedgerCreated, IPCRecord, RunDAG, CitationSet, PathFingerprint, RecordRefused, RecordStateChanged,
	PathValidated, SourceRegistered, SourceRevoked, ContentRedacted, KeyRotated, Note,
}

// KindDigest returns a hash that covers a kind and the digest of a record. Two requests under one
// idempotency key are the same if their KindDigests are equal (spec: Record digest; Idempotency).
func KindDigest(kind Kind, digest Hash) Hash {
	var room [64]byte // enough for the longest kind
	return sha256.Sum256(append(append(append(room[:0], kind...), 0), digest[:]...))
}

// RunIdempotencyKey returns the digest of the implicit idempotency key of a record that has a run_id but
// no idempotency key of its own (spec: Idempotency).
func RunIdempotencyKey[T string | []byte](kind Kind, runID T) Hash {
	var usual [256]byte
	b := append(append(append(usual[:0], "run_id\x00"...), kind...), 0)
	return sha256.Sum256(append(b, runID...))
}

// RotationIdempotencyKey returns the digest of the idempotency key of a ledger's n-th key rotation; the first
// is number 1.
func RotationIdempotencyKey(n int) Hash {
	return sha256.Sum256(strconv.AppendInt([]byte(string(KeyRotated)+"\x00"), int64(n), 10))
}

// IsKnown reports whether k is one of EventKinds.
func (k Kind) IsKnown() bool { return slices.Contains(EventKinds[:], k) }

// IsRecord reports whether k is one of Kinds.
func (k Kind) IsRecord() bool { return slices.Contains(Kinds[:], k) }

// HasState reports whether records of kind k have a state.
func (k Kind) HasState() bool { return k == IPCRecord || k == RunDAG }
