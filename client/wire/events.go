package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// EventLine is one event of the log.
type EventLine struct {
	Seq       uint64          `json:"seq"`
	EventHash string          `json:"event_hash"`
	Entry     []byte          `json:"entry"` // the 32 bytes of prev_event_hash, then the exact bytes of the event
	Event     json.RawMessage `json:"event"` // the event's body as JSON, which [ParseEvent] parses
}

// LiveSummary holds the counters and the newest events of a ledger, as GET /live returns them.
type LiveSummary struct {
	TreeSize   uint64                `json:"tree_size"`
	Time       Time                  `json:"time"`       // time of the last event; the same commit signed the checkpoint for TreeSize
	IndexSize  uint64                `json:"index_size"` // number of events that the counters cover
	Records    map[Kind]uint64       `json:"records"`
	Mismatches uint64                `json:"mismatches"` // number of failed checks
	Incomplete map[string]uint64     `json:"incomplete"` // number of IPC records that lack each part, keyed by part
	Drift      map[DriftCause]uint64 `json:"drift"`      // number of runs for each cause; causes without runs are omitted
	Newest     []LiveEvent           `json:"newest"`     // at most 10 events, newest first
}

// LiveEvent describes one of the newest events.
type LiveEvent struct {
	Seq        uint64 `json:"seq"`
	Kind       Kind   `json:"kind"`
	Time       Time   `json:"time"`
	RunID      string `json:"run_id,omitempty"`
	Mismatches int    `json:"mismatches,omitempty"` // number of failed checks
}

// Event is the body of an event, which follows prev_event_hash in the log entry.
type Event struct {
	Actor         string          `json:"actor"` // name of the caller's token, or anonymous
	Checks        Checks          `json:"checks"`
	Kind          Kind            `json:"kind"`
	Ledger        string          `json:"ledger"`
	Record        json.RawMessage `json:"record"` // the event's content, whose form depends on Kind; see [Event.Decode]
	RulesVersion  uint64          `json:"rules"`  // version of the hashing rules that the checks follow
	Seq           uint64          `json:"seq"`
	Time          Time            `json:"time"`
	FormatVersion uint64          `json:"v"`
}

// ParseEvent parses the event of a receipt, a record or a line of the log.
func ParseEvent(text []byte) (*Event, error) {
	e := new(Event)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("wire: parsing the event: %w", err)
	}
	return e, nil
}

// Decode parses the event's record. It returns a pointer to the type that matches the kind, such as
// *[IPCRecordEvent].
func (e *Event) Decode() (any, error) {
	record, known := map[Kind]any{
		KindIPCRecord:          new(IPCRecordEvent),
		KindRunDAG:             new(RunDAGEvent),
		KindCitationSet:        new(CitationSetEvent),
		KindPathFingerprint:    new(PathFingerprintEvent),
		KindRecordStateChanged: new(RecordStateChangedEvent),
		KindPathValidated:      new(PathValidatedEvent),
		KindSourceRegistered:   new(SourceEvent),
		KindSourceRevoked:      new(SourceEvent),
		KindContentRedacted:    new(ContentRedactedEvent),
		KindNote:               new(NoteEvent),
		KindLedgerCreated:      new(LedgerCreatedEvent),
		KindRecordRefused:      new(RecordRefusedEvent),
		KindKeyRotated:         new(KeyRotatedEvent),
	}[e.Kind]
	if !known {
		return nil, fmt.Errorf("wire: event %d is of the unknown kind %.60q; use a newer version of this package", e.Seq, e.Kind)
	}
	if err := json.Unmarshal(e.Record, record); err != nil {
		return nil, fmt.Errorf("wire: parsing the record of event %d: %w", e.Seq, err)
	}
	return record, nil
}

// RecordEventMembers holds the members that are common to the events of all four kinds of records.
type RecordEventMembers struct {
	Content              map[string]ContentDigest `json:"content,omitempty"` // keys are the names under which the content can be fetched
	Digest               string                   `json:"digest"`            // SHA-256 of the record in canonical JSON
	IdempotencyKeyDigest string                   `json:"idempotency_key,omitempty"`
	Labels               map[string]string        `json:"labels,omitempty"`
	Producer             *Producer                `json:"producer,omitempty"`
	RunID                string                   `json:"run_id,omitempty"`
	Timestamp            string                   `json:"timestamp,omitempty"`
}

// ContentDigest identifies content in an event: its SHA-256 and its length in bytes.
type ContentDigest struct {
	SHA256 string `json:"sha256"`
	Size   uint64 `json:"size"`
}

// RequestEventMembers holds the members common to the events of all requests that do not post a
// record.
type RequestEventMembers struct {
	Digest               string `json:"digest"`                    // SHA-256 of the request in canonical JSON
	IdempotencyKeyDigest string `json:"idempotency_key,omitempty"` // digest of the key
}

// IPCRecordEvent is an [IPCRecord] as recorded in the log.
type IPCRecordEvent struct {
	RecordEventMembers
	Environment map[string]string `json:"environment,omitempty"`
	Hashes      Hashes            `json:"hashes"`
	MaxTokens   json.Number       `json:"max_tokens,omitempty"`
	Model       string            `json:"model"`
	// PayloadMembers maps JSON pointers to the digests of the payload's members. It is null if the
	// payload has too many members.
	PayloadMembers Nullable[map[string]string] `json:"payload_members,omitzero"`
	PayloadSchema  string                      `json:"payload_schema,omitempty"`
	Seed           json.Number                 `json:"seed,omitempty"` // seed of the record or, if it has none, of its payload
	Temperature    *float64                    `json:"temperature,omitempty"`
	Usage          json.RawMessage             `json:"usage,omitempty"`
}

// RunDAGEvent is a [RunDAG] as recorded in the log.
type RunDAGEvent struct {
	RecordEventMembers
	AnswerMode *string `json:"answer_mode,omitempty"`
	AuditMode  *string `json:"audit_mode,omitempty"`
	// CacheDimensions maps names to values; a version is nil if too long or with a lone surrogate.
	CacheDimensions map[string]*string `json:"cache_dimensions,omitempty"`
	DocumentRoots   []string           `json:"document_roots,omitempty"`
	EvidenceIDs     []string           `json:"evidence_ids,omitempty"`
	FailureStage    *string            `json:"failure_stage"`
	Hashes          Hashes             `json:"hashes"`
	LookupPath      *string            `json:"lookup_path,omitempty"` // how the answer was found, such as retrieval
	NQuotes         json.Number        `json:"n_quotes,omitempty"`
	NSources        json.Number        `json:"n_sources,omitempty"`
	NVerified       json.Number        `json:"n_verified,omitempty"` // number of the answer's verified quotes
	Nodes           []Node             `json:"nodes"`
	// Preflight is available if the run has a preflight stage, or else unavailable_legacy_run.
	Preflight string `json:"preflight"`
	// PreflightGeneration names the form of a preflight payload that does not have the current
	// form. It is the payload's node_version, or legacy if node_version does not identify the form.
	PreflightGeneration string  `json:"preflight_generation,omitempty"`
	QuestionMode        string  `json:"question_mode,omitempty"`
	Shape               string  `json:"shape"` // the run's sequence of stages: quote, pointer, reject or unrecognised
	VerifierMethod      *string `json:"verifier_method,omitempty"`
}

// CitationSetEvent is a [CitationSet] as recorded in the log.
type CitationSetEvent struct {
	RecordEventMembers
	Citations []CitationRow `json:"citations"`
	Subject   string        `json:"subject"`
}

// PathFingerprintEvent is a [PathFingerprint] as recorded in the log.
type PathFingerprintEvent struct {
	RecordEventMembers
	Base        *string  `json:"base,omitempty"` // build that the record names for comparison with its own build
	Branch      *string  `json:"branch,omitempty"`
	Build       *string  `json:"build,omitempty"`
	HashVersion string   `json:"hash_version"`
	Hashes      Hashes   `json:"hashes"`
	Project     string   `json:"project"`
	Route       []string `json:"route"`
}

// RecordStateChangedEvent is a [StateChange] as recorded in the log.
type RecordStateChangedEvent struct {
	RequestEventMembers
	Reason    string `json:"reason"`
	RecordSeq uint64 `json:"record_seq"`
	State     State  `json:"state"`
	ActionOrigin
}

// NoteEvent is a [Note] as recorded in the log.
type NoteEvent struct {
	RequestEventMembers
	RecordSeq uint64  `json:"record_seq"`
	Text      *string `json:"text,omitempty"`
	Topic     string  `json:"topic"`
	ActionOrigin
}

// PathValidatedEvent is a [PathValidation] as recorded in the log.
type PathValidatedEvent struct {
	RequestEventMembers
	Build              *string  `json:"build,omitempty"`     // build of the validated record
	ContentFingerprint *string  `json:"content_fingerprint"` // fingerprint of the validated content
	RequestMembers     []string `json:"names,omitempty"`     // which of build and content_fingerprint the request contained
	PathID             string   `json:"path_id"`
	Project            string   `json:"project"`
	Reason             *string  `json:"reason,omitempty"`
	RecordSeq          uint64   `json:"record_seq"` // seq of the path's latest record in Build at the time of the validation
	Validated          bool     `json:"validated"`
	ActionOrigin
}

// SourceEvent is a [SourceRegistration] or a [SourceRevocation] as recorded in the log.
type SourceEvent struct {
	RequestEventMembers
	ChunkHashes []string `json:"chunk_hashes,omitzero"`
	Reason      *string  `json:"reason,omitempty"`
	SourceID    string   `json:"source_id"`
	Title       *string  `json:"title,omitempty"`
}

// ContentRedactedEvent records that the content of records was withdrawn.
type ContentRedactedEvent struct {
	RequestEventMembers
	Reason string     `json:"reason"`
	Seqs   []SeqRange `json:"seqs"`
}

// SeqRange is the range of events from First to Last, inclusive. Its JSON is [First, Last], or only
// First if the two are equal.
type SeqRange struct{ First, Last uint64 }

// MarshalJSON implements [json.Marshaler].
func (r SeqRange) MarshalJSON() ([]byte, error) {
	if r.First == r.Last {
		return strconv.AppendUint(nil, r.First, 10), nil
	}
	return fmt.Appendf(nil, "[%d,%d]", r.First, r.Last), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *SeqRange) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte("[")) {
		r.Last = 0
		err := json.Unmarshal(text, &r.First)
		r.Last = r.First
		return err
	}
	var ends []uint64
	if err := json.Unmarshal(text, &ends); err != nil {
		return err
	}
	if len(ends) != 2 {
		return fmt.Errorf("wire: a range of events must have two numbers; got %d", len(ends))
	}
	r.First, r.Last = ends[0], ends[1]
	return nil
}

// LedgerCreatedEvent is the first event of every log.
type LedgerCreatedEvent struct {
	MemberSecretHash string `json:"member_secret_hash,omitempty"` // commits to the secret for payload-member digests
	Origin           string `json:"origin"`
	VerifierKey      string `json:"verifier_key"`
}

// KeyRotatedEvent is one step of a key rotation. To verify it, use proofs.KeyHistory.
type KeyRotatedEvent struct {
	Digest               string `json:"digest"`
	Handover             string `json:"handover,omitempty"` // signed note naming the next key; set only if introduced
	IdempotencyKeyDigest string `json:"idempotency_key"`
	PreviousKey          string `json:"previous_key"`
	Step                 string `json:"step"` // introduced or retired
	VerifierKey          string `json:"verifier_key"`
}

// RecordRefusedEvent records that a request was refused.
type RecordRefusedEvent struct {
	Digest               string  `json:"digest"`              // digest that the request's event would have contained
	FirstSeq             *uint64 `json:"first_seq,omitempty"` // seq of the event that already uses the idempotency key
	IdempotencyKeyDigest string  `json:"idempotency_key,omitempty"`
	Kind                 Kind    `json:"kind"`
	Mismatches           uint64  `json:"mismatches"` // number of failed checks; the event lists at most the first 64
	Reason               string  `json:"reason"`     // mismatch or idempotency_key_conflict
	RunID                string  `json:"run_id,omitempty"`
}
