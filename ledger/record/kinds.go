package record

import (
	"crypto/sha256"
	"slices"
	"strconv"
)

// Kind names a kind of event (spec: Event body).
type Kind string

// The kinds that services post.
const (
	IPCRecord       Kind = "ipc_record"
	RunDAG          Kind = "run_dag"
	CitationSet     Kind = "citation_set"
	PathFingerprint Kind = "path_fingerprint"
)

// The kinds that the ledger writes itself.
const (
	LedgerCreated Kind = "ledger_created"
	RecordRefused Kind = "record_refused"
	KeyRotated    Kind = "key_rotated"
)

// The kinds of verbs, which change the state of something (spec: States; Path validation;
// Sources; Redactions).
const (
	RecordStateChanged Kind = "record_state_changed"
	PathValidated      Kind = "path_validated"
	SourceRegistered   Kind = "source_registered"
	SourceRevoked      Kind = "source_revoked"
	ContentRedacted    Kind = "content_redacted"
)

// Kinds lists the kinds that services post.
var Kinds = [...]Kind{IPCRecord, RunDAG, CitationSet, PathFingerprint}

// KeyedDigest tells records apart under one idempotency key (spec: Record digest; Idempotency):
// by kind and canonical digest.
func KeyedDigest(kind Kind, digest Hash) Hash {
	var room [64]byte // for every kind there is
	return sha256.Sum256(append(append(append(room[:0], kind...), 0), digest[:]...))
}

// RunKey returns the digest of the idempotency key that a record without one has by its
// run_id (spec: Idempotency).
func RunKey(kind Kind, runID string) Hash {
	return sha256.Sum256([]byte("run_id\x00" + string(kind) + "\x00" + runID))
}

// RotationKey returns the digest of the idempotency key of a log's n-th change of keys,
// counted from 1.
func RotationKey(n int) Hash {
	return sha256.Sum256(strconv.AppendInt([]byte(string(KeyRotated)+"\x00"), int64(n), 10))
}

// IsRecord reports whether a kind is one of Kinds.
func (k Kind) IsRecord() bool { return slices.Contains(Kinds[:], k) }

// HasState says whether records of a kind have a state.
func (k Kind) HasState() bool { return k == IPCRecord || k == RunDAG }
