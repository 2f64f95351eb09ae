package wire

import (
	"cmp"
	"time"
)

// Kind is the kind of an event, such as the creation of a record or a change of its state.
type Kind string

// The kinds of events. The first four are the kinds of events that contain records. IPC stands for
// interpretive provenance chain.
const (
	KindIPCRecord          Kind = "ipc_record"           // record of one generation of text by a model
	KindRunDAG             Kind = "run_dag"              // record of the stages of a question-answering run
	KindCitationSet        Kind = "citation_set"         // record of the citations that support an answer
	KindPathFingerprint    Kind = "path_fingerprint"     // record of the content of a path through a branching story
	KindRecordStateChanged Kind = "record_state_changed" // an IPC record or a run-DAG got a state
	KindPathValidated      Kind = "path_validated"       // a path was marked as correct or as not correct
	KindSourceRegistered   Kind = "source_registered"    // a source was registered, or registered again
	KindSourceRevoked      Kind = "source_revoked"       // a source was revoked
	KindContentRedacted    Kind = "content_redacted"     // the content of records was withdrawn
	KindNote               Kind = "note"                 // a note was added to a record
	KindLedgerCreated      Kind = "ledger_created"       // always the first event of a ledger
	KindRecordRefused      Kind = "record_refused"       // a record or a request was refused
	KindKeyRotated         Kind = "key_rotated"          // a signing key was introduced or retired
)

// State is the state of an IPC record or a run-DAG. Other events have no state.
type State string

// The states of a record. A writer can change the state at any time. Queries about drift consider only
// live records, unless the request has state=any; they treat the other states alike.
const (
	StateLive        State = "live"        // the initial state
	StateFailed      State = "failed"      // for example, because the run went wrong
	StateStale       State = "stale"       // for example, because a source was withdrawn
	StateQuarantined State = "quarantined" // for example, because the wrong model was used
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
	Result CheckResult `json:"result"`
	// Claimed is the value that the record claims. It is set for a mismatch, and for a claim that is
	// not in Hashes.
	Claimed Nullable[string] `json:"claimed,omitzero"`
	// Computed is the value that the ledger computed. It is set for a mismatch, and is null for a stage
	// that the ledger did not build.
	Computed Nullable[string] `json:"computed,omitzero"`
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
	LeafIndex uint64   `json:"leaf_index"` // position of the leaf, counted from 0; equal to the event's seq
	TreeSize  uint64   `json:"tree_size"`  // number of leaves in the tree
	Hashes    []string `json:"hashes"`     // sibling hashes, from the leaf upwards
}

// IndexedTreeSize states the tree size for which an answer from the index is valid.
type IndexedTreeSize struct {
	AsOf uint64 `json:"as_of"` // tree size for which the answer is valid
	// Checkpoint is the signed checkpoint for the tree of size AsOf. It is set only if the request has
	// proofs=true.
	Checkpoint string `json:"checkpoint,omitempty"`
}

// RowMembers holds the JSON members that every row of a list contains.
type RowMembers struct {
	Seq uint64 `json:"seq"` // seq of the event that the row describes
	// Inclusion is the inclusion proof of the event. It is set only if the request has proofs=true.
	Inclusion *InclusionProof `json:"inclusion,omitempty"`
}

// Page is one page of a list.
type Page[T any] struct {
	IndexedTreeSize
	Rows []T    `json:"rows"`
	Next string `json:"next,omitempty"` // cursor of the next page; "" on the last page
}

// Problem is the body of a response with an error status (RFC 9457).
type Problem struct {
	Type   string         `json:"type"`             // always about:blank
	Title  string         `json:"title"`            // name of the HTTP status
	Status int            `json:"status"`           // HTTP status code
	Detail string         `json:"detail"`           // what happened, and what to do about it
	Errors []FieldProblem `json:"errors,omitempty"` // what is wrong at each place in the request
	// Line is the number of the line in the batch, counted from 1. It is 0 outside batches.
	Line uint64 `json:"line,omitempty"`
	// FirstSeq is the seq of the event that already uses the idempotency key, or nil.
	FirstSeq *uint64 `json:"first_seq,omitempty"`
	// RedactedBy is the seq of the event that erased the content, or nil.
	RedactedBy *uint64 `json:"redacted_by,omitempty"`
	// ReadOnly is true if this server is read-only, so that the request must go to another one.
	ReadOnly bool `json:"read_only,omitempty"`
	// Receipt is the receipt of the event that records the refusal. It is nil if the log does not
	// record the refusal.
	Receipt *Receipt `json:"receipt,omitempty"`
}

// FieldProblem describes what is wrong at one place in the request. Field, Claimed, and Computed
// are set only if the problem is a failed check of a hash.
type FieldProblem struct {
	// Pointer is a JSON pointer into the request body, or a slash followed by the name of a parameter.
	Pointer  string `json:"pointer"`
	Detail   string `json:"detail"`             // what is wrong there
	Field    string `json:"field,omitempty"`    // name of the failed check, such as output_hash
	Claimed  string `json:"claimed,omitempty"`  // the hash that the record claims
	Computed string `json:"computed,omitempty"` // the hash that the ledger computed
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
