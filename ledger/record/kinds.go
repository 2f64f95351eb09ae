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
	KindIPCRecord       Kind = "ipc_record"       // describes one generation (IPC: interpretive provenance chain)
	KindRunDAG          Kind = "run_dag"          // describes the stages of a question-answering run
	KindCitationSet     Kind = "citation_set"     // lists the source chunks that an answer rests on
	KindPathFingerprint Kind = "path_fingerprint" // describes a route through a branching story, and its content
)

// The kinds of events that the ledger writes itself.
const (
	KindLedgerCreated Kind = "ledger_created" // the first event of every ledger
	KindRecordRefused Kind = "record_refused" // logs that the ledger refused a record or an action
	KindKeyRotated    Kind = "key_rotated"    // logs one step of a key rotation
)

// These are the kinds of events that actions create. An action is a request that changes a state or
// records a statement about a record (spec: States; Path validation; Sources; Redactions; Notes).
const (
	KindRecordStateChanged Kind = "record_state_changed" // changes the state of an IPC record or a run-DAG
	KindPathValidated      Kind = "path_validated"       // says whether the text along a path is correct
	KindSourceRegistered   Kind = "source_registered"    // registers a source of chunks, or replaces its registration
	KindSourceRevoked      Kind = "source_revoked"       // ends the registration of a source
	KindContentRedacted    Kind = "content_redacted"     // erases the content of records
	KindNote               Kind = "note"                 // adds a statement to a record
)

// RecordKinds contains the kinds of records that services post.
var RecordKinds = [...]Kind{KindIPCRecord, KindRunDAG, KindCitationSet, KindPathFingerprint}

// EventKinds contains the kinds of all events. The state files of audits store a kind as its index
// in this array, so new kinds must be added at the end.
var EventKinds = [...]Kind{
	KindLedgerCreated, KindIPCRecord, KindRunDAG, KindCitationSet, KindPathFingerprint, KindRecordRefused, KindRecordStateChanged,
	KindPathValidated, KindSourceRegistered, KindSourceRevoked, KindContentRedacted, KindKeyRotated, KindNote,
}

// DigestWithKind returns a hash that covers a kind and the digest of a record. Two requests under
// one idempotency key are the same if DigestWithKind returns the same hash for both (spec: Record
// digest; Idempotency).
func DigestWithKind(kind Kind, digest Hash) Hash {
	var room [64]byte // enough for the longest kind
	return sha256.Sum256(append(append(append(room[:0], kind...), 0), digest[:]...))
}

// RunIdempotencyKeyDigest returns the digest of the implicit idempotency key of a record that has a
// run_id but no idempotency key of its own (spec: Idempotency).
func RunIdempotencyKeyDigest[T string | []byte](kind Kind, runID T) Hash {
	var usual [256]byte
	b := append(append(append(usual[:0], "run_id\x00"...), kind...), 0)
	return sha256.Sum256(append(b, runID...))
}

// RotationIdempotencyKeyDigest returns the digest of the idempotency key of a ledger's n-th key
// rotation; the first is number 1.
func RotationIdempotencyKeyDigest(n int) Hash {
	return sha256.Sum256(strconv.AppendInt([]byte(string(KindKeyRotated)+"\x00"), int64(n), 10))
}

// IsKnown reports whether k is one of EventKinds.
func (k Kind) IsKnown() bool { return slices.Contains(EventKinds[:], k) }

// IsRecord reports whether k is one of RecordKinds.
func (k Kind) IsRecord() bool { return slices.Contains(RecordKinds[:], k) }

// HasState reports whether records of kind k have a state.
func (k Kind) HasState() bool { return k == KindIPCRecord || k == KindRunDAG }
