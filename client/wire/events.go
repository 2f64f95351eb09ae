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
	EventHash string          `json:"event_hash"` // SHA-256 of Entry, in hexadecimal digits
	Entry     []byte          `json:"entry"`      // the 32 bytes of prev_event_hash, then the exact bytes of the event
	Event     json.RawMessage `json:"event"`      // the event's body as JSON, which [ParseEvent] parses
}

// LiveSummary holds the counters and the newest events of a ledger, as GET /live returns them.
type LiveSummary struct {
	TreeSize uint64 `json:"tree_size"` // number of events in the log
	// Time is the time of the last event. The commit of that event also signed the checkpoint for
	// TreeSize.
	Time       Time                  `json:"time"`
	IndexSize  uint64                `json:"index_size"` // number of events that the counters cover
	Records    map[Kind]uint64       `json:"records"`    // number of records of each kind
	Mismatches uint64                `json:"mismatches"` // number of checks that found a wrong hash
	Incomplete map[string]uint64     `json:"incomplete"` // number of IPC records that lack each part, such as seed
	Drift      map[DriftCause]uint64 `json:"drift"`      // number of runs for each cause; omits causes without runs
	Newest     []LiveEvent           `json:"newest"`     // at most 10 events, newest first
}

// LiveEvent describes one of the newest events.
type LiveEvent struct {
	Seq        uint64 `json:"seq"`
	Kind       Kind   `json:"kind"`
	Time       Time   `json:"time"`
	RunID      string `json:"run_id,omitempty"`     // run to which the event belongs; "" if none
	Mismatches int    `json:"mismatches,omitempty"` // number of checks that found a wrong hash
}

// Event is the body of an event, which follows prev_event_hash in the log entry.
type Event struct {
	Actor         string          `json:"actor"`  // name of the caller's token, or anonymous
	Checks        Checks          `json:"checks"` // results of the hash checks; may be empty
	Kind          Kind            `json:"kind"`
	Ledger        string          `json:"ledger"` // name of the ledger
	Record        json.RawMessage `json:"record"` // the event's content, whose form depends on Kind; see [Event.Decode]
	RulesVersion  uint64          `json:"rules"`  // version of the hashing rules that the checks follow, currently 1
	Seq           uint64          `json:"seq"`
	Time          Time            `json:"time"` // time of the commit that added the event
	FormatVersion uint64          `json:"v"`    // version of the event format, currently 1
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
	// Content identifies the record's content. Its keys are the names under which the content can be
	// fetched.
	Content map[string]ContentDigest `json:"content,omitempty"`
	// Digest is the SHA-256 of the record in canonical JSON.
	Digest               string            `json:"digest"`
	IdempotencyKeyDigest string            `json:"idempotency_key,omitempty"` // digest of the key; "" if there is none
	Labels               map[string]string `json:"labels,omitempty"`          // names and values chosen by the caller
	Producer             *Producer         `json:"producer,omitempty"`        // nil if the record names none
	RunID                string            `json:"run_id,omitempty"`          // run of the record; "" if it names none
	Timestamp            string            `json:"timestamp,omitempty"`       // time stated by the service, in RFC 3339
}

// ContentDigest identifies content in an event: its SHA-256 and its length in bytes.
type ContentDigest struct {
	SHA256 string `json:"sha256"` // in hexadecimal digits
	Size   uint64 `json:"size"`   // length in bytes
}

// RequestEventMembers holds the members common to the events of all requests that do not post a
// record.
type RequestEventMembers struct {
	Digest               string `json:"digest"`                    // SHA-256 of the request in canonical JSON
	IdempotencyKeyDigest string `json:"idempotency_key,omitempty"` // digest of the key; "" if the request has none
}

// IPCRecordEvent is an [IPCRecord], which describes one generation, as recorded in the log.
type IPCRecordEvent struct {
	RecordEventMembers
	// Environment has the values of host_platform, model_digest and ollama_build_hash that were posted.
	Environment map[string]string `json:"environment,omitempty"`
	Hashes      Hashes            `json:"hashes"`               // ipc_id, input_hash and others
	MaxTokens   json.Number       `json:"max_tokens,omitempty"` // maximum length of the output, in tokens
	Model       string            `json:"model"`                // name of the model
	// PayloadMembers maps JSON pointers to the digests of the payload's members. It is null if the
	// payload has too many members.
	PayloadMembers Nullable[map[string]string] `json:"payload_members,omitzero"`
	PayloadSchema  string                      `json:"payload_schema,omitempty"` // axis-payload-1 or ""
	// Seed is the seed of the record or, if the record has none, the seed in its payload.
	Seed        json.Number `json:"seed,omitempty"`
	Temperature *float64    `json:"temperature,omitempty"` // sampling temperature; nil if not given
	// Usage is a JSON object with token counts, durations and the like. It is nil if it was not given or
	// is part of Content.
	Usage json.RawMessage `json:"usage,omitempty"`
}

// RunDAGEvent is a [RunDAG], which holds the stages of a question-answering run, as recorded in the
// log.
type RunDAGEvent struct {
	RecordEventMembers
	AnswerMode *string `json:"answer_mode,omitempty"` // how the answer is given; nil if unknown
	AuditMode  *string `json:"audit_mode,omitempty"`  // outcome of the audit, such as STRICT; nil if unknown
	// CacheDimensions maps the names of the dimensions of the cache key to their values. A version is
	// nil if it is too long or has a lone surrogate.
	CacheDimensions map[string]*string `json:"cache_dimensions,omitempty"`
	// DocumentRoots holds the distinct document roots of the sources, sorted. It is nil if there are
	// none or more than 256.
	DocumentRoots []string `json:"document_roots,omitempty"`
	// EvidenceIDs holds the distinct IDs of the evidence, sorted. It is nil if there are none or more
	// than 256.
	EvidenceIDs []string `json:"evidence_ids,omitempty"`
	// FailureStage is retrieval, context or answer. It is nil if the run did not fail, was rejected, or
	// was posted as stages without inputs.
	FailureStage *string     `json:"failure_stage"`
	Hashes       Hashes      `json:"hashes"`                // root, question_hash and others
	LookupPath   *string     `json:"lookup_path,omitempty"` // how the answer was found, such as retrieval
	NQuotes      json.Number `json:"n_quotes,omitempty"`    // number of quotes in the answer
	NSources     json.Number `json:"n_sources,omitempty"`   // number of sources that retrieval found
	NVerified    json.Number `json:"n_verified,omitempty"`  // number of the quotes that were verified
	Nodes        []Node      `json:"nodes"`                 // the run's stages, in order
	// Preflight is available if the run has a preflight stage, or else unavailable_legacy_run.
	Preflight string `json:"preflight"`
	// PreflightGeneration names the form of a preflight payload that does not have the current
	// form. It is the payload's node_version, or legacy if node_version does not identify the form.
	PreflightGeneration string `json:"preflight_generation,omitempty"`
	QuestionMode        string `json:"question_mode,omitempty"` // equivalence_class, strict or "" (no question)
	// Shape describes the run's sequence of stages: quote, pointer, reject or unrecognised.
	Shape          string  `json:"shape"`
	VerifierMethod *string `json:"verifier_method,omitempty"` // how the answer was verified; nil if unknown
}

// CitationSetEvent is a [CitationSet] as recorded in the log.
type CitationSetEvent struct {
	RecordEventMembers
	Citations []CitationRow `json:"citations"` // in the order of the set
	Subject   string        `json:"subject"`   // what the citations are about
}

// PathFingerprintEvent is a [PathFingerprint] as recorded in the log.
type PathFingerprintEvent struct {
	RecordEventMembers
	Base        *string  `json:"base,omitempty"`   // build to compare with Build; nil if not given
	Branch      *string  `json:"branch,omitempty"` // branch to which the build belongs; nil if not given
	Build       *string  `json:"build,omitempty"`  // version of the story; nil if not given
	HashVersion string   `json:"hash_version"`     // version of the rules for fingerprints, such as adr-004
	Hashes      Hashes   `json:"hashes"`           // path_id and the content fingerprints
	Project     string   `json:"project"`          // name of the story
	Route       []string `json:"route"`            // names of passages (sections of text) in reading order
}

// RecordStateChangedEvent is a [StateChange] as recorded in the log.
type RecordStateChangedEvent struct {
	RequestEventMembers
	Reason    string `json:"reason"`     // why the state was changed
	RecordSeq uint64 `json:"record_seq"` // seq of the record whose state was changed
	State     State  `json:"state"`      // the new state
	ActionOrigin
}

// NoteEvent is a [Note] as recorded in the log.
type NoteEvent struct {
	RequestEventMembers
	RecordSeq uint64  `json:"record_seq"`     // seq of the record that the note is about
	Text      *string `json:"text,omitempty"` // nil if the note has only a topic
	Topic     string  `json:"topic"`          // subject of the note, such as review
	ActionOrigin
}

// PathValidatedEvent is a [PathValidation] as recorded in the log.
type PathValidatedEvent struct {
	RequestEventMembers
	Build              *string `json:"build,omitempty"`     // build of the validated record; nil if it has none
	ContentFingerprint *string `json:"content_fingerprint"` // fingerprint of the validated content; nil if unknown
	// RequestMembers lists which of build and content_fingerprint the request contained.
	RequestMembers []string `json:"names,omitempty"`
	PathID         string   `json:"path_id"`          // ID that the ledger assigned to the path
	Project        string   `json:"project"`          // project to which the path belongs
	Reason         *string  `json:"reason,omitempty"` // reason for the validation; nil if not given
	// RecordSeq is the seq of the record that was validated: the latest record of the path in Build when
	// the request arrived.
	RecordSeq uint64 `json:"record_seq"`
	Validated bool   `json:"validated"` // true if the path's content is correct, false if it is not
	ActionOrigin
}

// SourceEvent is a [SourceRegistration] or a [SourceRevocation] as recorded in the log.
type SourceEvent struct {
	RequestEventMembers
	ChunkHashes []string `json:"chunk_hashes,omitzero"` // all chunks of the source; nil if they were not listed
	Reason      *string  `json:"reason,omitempty"`      // reason for the change; nil if not given
	SourceID    string   `json:"source_id"`
	Title       *string  `json:"title,omitempty"` // title of the source; nil if not given, and in a revocation
}

// ContentRedactedEvent records that the content of records was withdrawn.
type ContentRedactedEvent struct {
	RequestEventMembers
	Reason string     `json:"reason"` // why the content was withdrawn
	Seqs   []SeqRange `json:"seqs"`   // records whose content was withdrawn, ascending
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
	// MemberSecretHash commits to the secret from which the digests of payload members are computed. It
	// is "" if the ledger has no such secret.
	MemberSecretHash string `json:"member_secret_hash,omitempty"`
	Origin           string `json:"origin"`       // name of the log in its checkpoints and keys
	VerifierKey      string `json:"verifier_key"` // the log's first key
}

// KeyRotatedEvent is one step of a key rotation. To verify it, use proofs.KeyHistory.
type KeyRotatedEvent struct {
	Digest string `json:"digest"` // SHA-256 of the step in canonical JSON
	// Handover is a signed note that names the next key. It is set only if Step is introduced.
	Handover             string `json:"handover,omitempty"`
	IdempotencyKeyDigest string `json:"idempotency_key"` // digest of a key that only this step has
	PreviousKey          string `json:"previous_key"`    // verifier key that is replaced
	Step                 string `json:"step"`            // introduced or retired
	VerifierKey          string `json:"verifier_key"`    // verifier key that follows PreviousKey
}

// RecordRefusedEvent records that a request was refused.
type RecordRefusedEvent struct {
	// Digest is the digest that the event of the refused record or request would have contained.
	Digest string `json:"digest"`
	// FirstSeq is the seq of the event that already uses the idempotency key. It is nil unless Reason is
	// idempotency_key_conflict.
	FirstSeq             *uint64 `json:"first_seq,omitempty"`
	IdempotencyKeyDigest string  `json:"idempotency_key,omitempty"` // digest of the key; set only if FirstSeq is set
	Kind                 Kind    `json:"kind"`                      // kind of the refused record or request
	// Mismatches is the number of failed checks. If their JSON is longer than about 32 KiB, the event
	// lists only the first ones.
	Mismatches uint64 `json:"mismatches"`
	Reason     string `json:"reason"`           // mismatch or idempotency_key_conflict
	RunID      string `json:"run_id,omitempty"` // run of the refused record; "" if none
}
