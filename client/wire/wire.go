package wire

import (
	"cmp"
	"time"
)

// Kind is the kind of an event, such as the creation of a record or a change of its state.
type Kind string

// The kinds of events. The first four are the kinds of events that contain records.
const (
	KindIPCRecord          Kind = "ipc_record"
	KindRunDAG             Kind = "run_dag"
	KindCitationSet        Kind = "citation_set"
	KindPathFingerprint    Kind = "path_fingerprint"
	KindRecordStateChanged Kind = "record_state_changed"
	KindPathValidated      Kind = "path_validated"
	KindSourceRegistered   Kind = "source_registered"
	KindSourceRevoked      Kind = "source_revoked"
	KindContentRedacted    Kind = "content_redacted"
	KindNote               Kind = "note"
	KindLedgerCreated      Kind = "ledger_created"
	KindRecordRefused      Kind = "record_refused"
	KindKeyRotated         Kind = "key_rotated"
)

// State is the state of an IPC record or a run-DAG. Other events have no state.
type State string

// The states of a record. Queries about drift consider only live records, unless the request has
// state=any.
const (
	StateLive        State = "live"
	StateFailed      State = "failed"
	StateStale       State = "stale"
	StateQuarantined State = "quarantined"
)

// Time is a timestamp in RFC 3339 format and in UTC, exactly as the ledger wrote it. It is kept as
// text because the event hash covers the text.
type Time string

// Parse returns the timestamp as a [time.Time].
func (t Time) Parse() (time.Time, error) { return time.Parse(time.RFC3339Nano, string(t)) }

// Hashes maps names such as input_hash to a record's hashes, computed or, without the content,
// claimed. A value is nil if the record lacks the data that the hash covers. path_id and the two
// content fingerprints are shorter than the other hashes.
type Hashes map[string]*string

// Get returns the hash with the given name, or "" if the record has none.
func (h Hashes) Get(name string) string {
	if value := h[name]; value != nil {
		return *value
	}
	return ""
}

// Checks maps the name of each hash to the result of the ledger's check of that hash. Checks of a
// run-DAG's stages have names such as "stage:answer".
type Checks map[string]Check

// HasMismatch reports whether any claim of the record disagrees with its content.
func (c Checks) HasMismatch() bool {
	for _, check := range c {
		if check.Result == CheckResultMismatch {
			return true
		}
	}
	return false
}

// Check is the result of comparing a claimed hash with the one that the ledger computed.
type Check struct {
	Result   CheckResult      `json:"result"`
	Claimed  Nullable[string] `json:"claimed,omitzero"`  // set for a mismatch, and for a claim that is not in Hashes
	Computed Nullable[string] `json:"computed,omitzero"` // set for a mismatch; null for a stage that the ledger did not build
}

// CheckResult is the outcome of a check.
type CheckResult string

// Outcomes of a check.
const (
	CheckResultMatch        CheckResult = "match"        // content and claim agree
	CheckResultMismatch     CheckResult = "mismatch"     // content and claim differ
	CheckResultComputed     CheckResult = "computed"     // the record has the content but no claim
	CheckResultClaimed      CheckResult = "claimed"      // the record has the claim but no content, so nothing was recomputed
	CheckResultInconsistent CheckResult = "inconsistent" // the verdict breaks the rule that the check is named after
)

// InclusionProof proves that a leaf is in the tree of the given size (RFC 6962).
type InclusionProof struct {
	LeafIndex uint64   `json:"leaf_index"`
	TreeSize  uint64   `json:"tree_size"`
	Hashes    []string `json:"hashes"`
}

// IndexedTreeSize states the tree size for which an answer from the index is valid.
type IndexedTreeSize struct {
	AsOf       uint64 `json:"as_of"`                // tree size for which the answer is valid
	Checkpoint string `json:"checkpoint,omitempty"` // signed checkpoint for the tree of size AsOf; set only if the request has proofs=true
}

// RowMembers holds the JSON members that every row of a list contains.
type RowMembers struct {
	Seq       uint64          `json:"seq"`                 // seq of the event that the row describes
	Inclusion *InclusionProof `json:"inclusion,omitempty"` // inclusion proof of the event; set only if the request has proofs=true
}

// Page is one page of a list.
type Page[T any] struct {
	IndexedTreeSize
	Rows []T    `json:"rows"`
	Next string `json:"next,omitempty"` // cursor of the next page; "" on the last page
}

// Problem is the body of a response with an error status (RFC 9457).
type Problem struct {
	Type       string         `json:"type"` // always about:blank
	Title      string         `json:"title"`
	Status     int            `json:"status"`
	Detail     string         `json:"detail"`
	Errors     []FieldProblem `json:"errors,omitempty"`
	Line       uint64         `json:"line,omitempty"`        // number of the line in the batch, from 1; 0 outside batches
	FirstSeq   *uint64        `json:"first_seq,omitempty"`   // seq of the event that already uses the idempotency key
	RedactedBy *uint64        `json:"redacted_by,omitempty"` // seq of the event that erased the content
	ReadOnly   bool           `json:"read_only,omitempty"`   // this server is read-only; send the request to another one
	Receipt    *Receipt       `json:"receipt,omitempty"`     // receipt of the event that records the refusal
}

// FieldProblem describes what is wrong at one place in the request. Field, Claimed, and Computed
// are set only if the problem is a failed check of a hash.
type FieldProblem struct {
	Pointer  string `json:"pointer"` // JSON pointer into the request body, or a slash followed by the name of a parameter
	Detail   string `json:"detail"`
	Field    string `json:"field,omitempty"`
	Claimed  string `json:"claimed,omitempty"`
	Computed string `json:"computed,omitempty"`
}

// String returns the pointer, the detail and, for a failed check, the claimed and computed hashes.
func (p FieldProblem) String() string {
	text := p.Detail
	if p.Pointer != "" {
		text = p.Pointer + ": " + p.Detail
	}
	if p.Claimed != "" {
		text += ": claimed " + p.Claimed + ", computed " + cmp.Or(p.Computed, "none")
	}
	return text
}
