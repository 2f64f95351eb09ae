package wire

import "encoding/json"

// Record is implemented by the types that a service can post: an [IPCRecord], a [RunDAG], a
// [CitationSet], a [PathFingerprint] or a [RawRecord]. In a batch, it can also be a [StateChangeLine], a
// [ValidationLine], or a [NoteLine].
type Record interface {
	// RecordKind returns the kind of the record. For any other line of a batch, it returns the kind of
	// the event that the line creates.
	RecordKind() Kind
	// RecordRunID returns the run_id, or "" if the record has none.
	RecordRunID() string
}

// CommonRecordMembers holds the members that are common to records of all kinds.
type CommonRecordMembers struct {
	// RunID identifies the run to which the record belongs. It has at most 1,024 bytes, and "" means no
	// run. If the request has no idempotency key, RunID serves as the key, separately for each kind.
	RunID string `json:"run_id,omitempty"`
	// Timestamp is the time at which the service made the record, in RFC 3339 with any offset. The ledger
	// records its own time in addition.
	Timestamp string `json:"timestamp,omitempty"`
	// Labels are chosen by the caller: at most 32, with names and values of at most 128 bytes each. The
	// event contains them, so readers of the log see them.
	Labels   map[string]string `json:"labels,omitempty"`
	Producer *Producer         `json:"producer,omitempty"`
}

// RecordRunID implements [Record].
func (c CommonRecordMembers) RecordRunID() string { return c.RunID }

// Producer names the producer of a record and contains the producer's own number for the record. If a
// producer numbers its records from 1 without gaps, a gap reveals a record that was never posted.
type Producer struct {
	ID  string `json:"id"` // 1 to 128 bytes
	Seq int64  `json:"seq"`
}

// IPCRecord records one generation, as part of an interpretive provenance chain (IPC). Payload or
// InputHash is required. Hashes are claims. The ledger checks a hash if the record contains the
// content that the hash covers.
type IPCRecord struct {
	CommonRecordMembers
	Payload          json.RawMessage `json:"payload,omitempty"` // a JSON object
	InputHash        string          `json:"input_hash,omitempty"`
	PayloadSchema    string          `json:"payload_schema,omitempty"` // "" or axis-payload-1
	SystemPrompt     *string         `json:"system_prompt,omitempty"`
	SystemPromptHash string          `json:"system_prompt_hash,omitempty"`
	Output           *string         `json:"output,omitempty"`
	OutputHash       string          `json:"output_hash,omitempty"`
	Model            string          `json:"model"`
	Temperature      *float64        `json:"temperature,omitempty"`
	MaxTokens        json.Number     `json:"max_tokens,omitempty"` // an integer of any size; see [IntNumber]
	Seed             json.Number     `json:"seed,omitempty"`       // an integer of any size; the default is the seed member of the payload
	// IPCID is the claimed hash of the input hash, system prompt hash, model, temperature, token
	// limit and seed. IPCIDAdvanced also covers the environment.
	IPCID         string          `json:"ipc_id,omitempty"`
	IPCIDAdvanced string          `json:"ipc_id_advanced,omitempty"`
	Environment   *Environment    `json:"environment,omitempty"`
	Usage         json.RawMessage `json:"usage,omitempty"` // a JSON object
}

// RecordKind implements [Record].
func (IPCRecord) RecordKind() Kind { return KindIPCRecord }

// Environment describes where a generation ran.
type Environment struct {
	OllamaBuildHash *string `json:"ollama_build_hash,omitempty"`
	ModelDigest     *string `json:"model_digest,omitempty"`
	HostPlatform    *string `json:"host_platform,omitempty"`
}

// RunDAG holds the stages of a question-answering run. One of DAG, Inputs and RejectedInputs is
// required. Its texts and free-form JSON can contain lone surrogates.
type RunDAG struct {
	CommonRecordMembers
	DAG             *DAG               `json:"dag,omitempty"`
	Inputs          *RunInputs         `json:"inputs,omitempty"`
	RejectedInputs  *RejectedRunInputs `json:"reject_inputs,omitempty"`
	Question        *string            `json:"question,omitempty"`
	QuestionMode    string             `json:"question_mode,omitempty"` // equivalence_class (default) or strict
	AnswerText      *string            `json:"answer_text,omitempty"`
	Messages        json.RawMessage    `json:"messages,omitempty"`        // a JSON list
	Policy          json.RawMessage    `json:"policy,omitempty"`          // a JSON object
	VerifierPolicy  json.RawMessage    `json:"verifier_policy,omitempty"` // a JSON object
	SourceRoots     []string           `json:"source_roots,omitzero"`
	Evidence        []Evidence         `json:"evidence,omitzero"`
	CacheDimensions *CacheDimensions   `json:"cache_dimensions,omitempty"`
	CacheKey        string             `json:"cache_key,omitempty"`
}

// RecordKind implements [Record].
func (RunDAG) RecordKind() Kind { return KindRunDAG }

// DAG holds the stages of a run as the service computed them.
type DAG struct {
	Root             string            `json:"root"`
	Nodes            []Node            `json:"nodes"`
	PreflightPayload *PreflightPayload `json:"preflight_payload,omitempty"`
}

// Node is one stage of a run.
type Node struct {
	Stage string `json:"stage"`
	Hash  string `json:"hash"`
}

// RunInputs holds the inputs from which the ledger builds a run-DAG. The shape of the run-DAG is
// "pointer" if EvidenceMapRoot is set, and "quote" otherwise.
type RunInputs struct {
	QuestionHash      string            `json:"question_hash,omitempty"`
	PreflightHash     string            `json:"preflight_hash,omitempty"`
	PreflightPayload  *PreflightPayload `json:"preflight_payload,omitempty"`
	ContextRoot       string            `json:"context_root,omitempty"`
	EvidenceMapRoot   string            `json:"evidence_map_root,omitempty"`
	ConversationHash  string            `json:"conversation_hash,omitempty"`
	AnswerText        *string           `json:"answer_text,omitempty"`
	RawAnswerText     *string           `json:"raw_answer_text,omitempty"`
	RenderedText      *string           `json:"rendered_text,omitempty"`
	ParsedLattice     json.RawMessage   `json:"parsed_lattice,omitempty"` // a pointer run's claim lattice, as any JSON
	AuditMode         string            `json:"audit_mode"`
	VerifierMethod    string            `json:"verifier_method"`
	NQuotes           json.Number       `json:"n_quotes"`   // 0 or more
	NVerified         json.Number       `json:"n_verified"` // number of the answer's verified quotes, 0 or more
	Sources           []RunSource       `json:"sources"`
	RetrievalPlanHash string            `json:"retrieval_plan_hash,omitempty"`
	LookupPath        *string           `json:"lookup_path,omitempty"`    // how the answer was found, such as retrieval
	ClaimStatuses     json.RawMessage   `json:"claim_statuses,omitempty"` // a JSON list
	Violations        json.RawMessage   `json:"violations,omitempty"`     // a JSON list
	AnswerMode        *string           `json:"answer_mode,omitempty"`
}

// RunSource is one source of a run's retrieval. Each member can be any JSON, and nil means null. To send
// further members, which no hash covers, post a [RawRecord].
type RunSource struct {
	DocumentRoot json.RawMessage `json:"document_root,omitempty"`
	SourceRole   json.RawMessage `json:"source_role,omitempty"`
	Score        json.RawMessage `json:"score,omitempty"`
	ChunkIdx     json.RawMessage `json:"chunk_idx,omitempty"`
}

// RejectedRunInputs holds the inputs from which the ledger builds the run-DAG of a run that preflight rejected.
type RejectedRunInputs struct {
	QuestionHash     string            `json:"question_hash,omitempty"`
	PreflightHash    string            `json:"preflight_hash,omitempty"`
	PreflightPayload *PreflightPayload `json:"preflight_payload,omitempty"`
	RejectionReason  string            `json:"rejection_reason"`
	AnswerText       *string           `json:"answer_text,omitempty"`
	Violations       json.RawMessage   `json:"violations,omitempty"`      // a JSON list
	AuditMode        *string           `json:"audit_mode,omitempty"`      // the default is UNGROUNDED
	VerifierMethod   *string           `json:"verifier_method,omitempty"` // the default is claim_lattice_pointer
}

// PreflightPayload holds the content that the hash of a run's preflight stage covers. Classifier
// and the members after it can be any JSON. To send another node_version, post a [RawRecord].
type PreflightPayload struct {
	Stage            *string         `json:"stage,omitempty"`        // "preflight"
	NodeVersion      *string         `json:"node_version,omitempty"` // "preflight-node-v1"
	Classifier       json.RawMessage `json:"classifier,omitempty"`
	AnswerContract   json.RawMessage `json:"answer_contract,omitempty"`
	PromptContract   json.RawMessage `json:"prompt_contract,omitempty"`
	EvidenceContract json.RawMessage `json:"evidence_contract,omitempty"`
	PolicyRefs       json.RawMessage `json:"policy_refs,omitempty"`
	QuestionState    json.RawMessage `json:"question_state,omitempty"`
}

// Evidence is the part of a chunk from Start up to, but not including, End. To send further
// members, which no hash covers, post a [RawRecord].
type Evidence struct {
	ChunkRoot  string      `json:"chunk_root"`
	Start      json.Number `json:"start"`
	End        json.Number `json:"end"`
	EvidenceID *string     `json:"evidence_id,omitempty"` // a claimed ID, which the ledger checks
	TextHash   string      `json:"text_hash,omitempty"`   // a claimed hash of Span
	Span       *string     `json:"span,omitempty"`
}

// CacheDimensions holds the values from which a cache key is computed.
type CacheDimensions struct {
	SourceRoot              string `json:"source_root"`
	QuestionHash            string `json:"question_hash"`
	ModelProfileHash        string `json:"model_profile_hash"`
	ConversationHash        string `json:"conversation_hash"`
	GovernancePolicyHash    string `json:"governance_policy_hash"`
	SchemaVersion           string `json:"schema_version"`
	CanonicalizationVersion string `json:"canonicalization_version"`
	ChunkingVersion         string `json:"chunking_version"`
	VerifierPolicyHash      string `json:"verifier_policy_hash,omitempty"`
}

// CitationSet holds the citations that support an answer.
type CitationSet struct {
	CommonRecordMembers
	Subject   string     `json:"subject"`
	Citations []Citation `json:"citations"`
}

// RecordKind implements [Record].
func (CitationSet) RecordKind() Kind { return KindCitationSet }

// Citation is one citation of a set. Text or ChunkHash is required.
type Citation struct {
	SourceID  string  `json:"source_id"`
	Text      *string `json:"text,omitempty"`
	ChunkHash string  `json:"chunk_hash,omitempty"`
	Weight    float64 `json:"weight"` // how much the answer depends on the citation, from 0 to 1
	Section   *string `json:"section,omitempty"`
}

// PathFingerprint records a path, which is one route through a branching story, and its content.
type PathFingerprint struct {
	CommonRecordMembers
	Project string   `json:"project"`
	Build   *string  `json:"build,omitempty"`
	Branch  *string  `json:"branch,omitempty"` // the branch to which the build belongs
	Base    *string  `json:"base,omitempty"`   // build to compare with; nil means the last one in the branch or, without a branch, in the project
	Route   []string `json:"route"`            // names of passages (sections of text) in reading order
	Content *string  `json:"content,omitempty"`
	PathID  string   `json:"path_id,omitempty"` // a claim: 8 or 16 hexadecimal digits
	// ContentFingerprint and RawContentFingerprint are the claimed fingerprints of the content
	// without and with its links: 8 hexadecimal digits, or up to 64 if HashVersion is not adr-004.
	ContentFingerprint    string `json:"content_fingerprint,omitempty"`
	RawContentFingerprint string `json:"raw_content_fingerprint,omitempty"`
	// HashVersion names the rules for the fingerprints: "" means adr-004. Any other version
	// requires ContentFingerprint, which the ledger does not check.
	HashVersion string `json:"hash_version,omitempty"`
}

// RecordKind implements [Record].
func (PathFingerprint) RecordKind() Kind { return KindPathFingerprint }

// RawRecord is a record that is already JSON. It is sent byte for byte, except that PostBatch replaces line
// breaks between tokens with spaces, because each record must be one line.
type RawRecord struct {
	Kind Kind
	JSON json.RawMessage
}

// RecordKind implements [Record].
func (r RawRecord) RecordKind() Kind { return r.Kind }

// RecordRunID implements [Record]. It returns the run_id member of JSON, or "" if there is none.
func (r RawRecord) RecordRunID() string {
	var run struct {
		RunID string `json:"run_id"`
	}
	if json.Unmarshal(r.JSON, &run) != nil {
		return ""
	}
	return run.RunID
}

// MarshalJSON implements [json.Marshaler].
func (r RawRecord) MarshalJSON() ([]byte, error) { return r.JSON.MarshalJSON() }

// BatchLine is one line of a batch.
type BatchLine struct {
	Kind           Kind   `json:"kind"`
	Record         any    `json:"record"`
	IdempotencyKey string `json:"idempotency_key,omitempty"` // at most 1,024 bytes
}

// ForeignRecordLine is one line of a batch that imports a record from another system. The record is
// unchanged, in the format of that system.
type ForeignRecordLine struct {
	Format         string          `json:"format"`
	Record         json.RawMessage `json:"record"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"` // at most 1,024 bytes; the default is derived from the record
	Zone           string          `json:"zone,omitempty"`            // time zone for times that do not state one
	Project        string          `json:"project,omitempty"`         // default project for entries of a validation cache
	Subject        string          `json:"subject,omitempty"`         // default subject for citations
	RunID          string          `json:"run_id,omitempty"`          // default run_id for citations
}

// ImportResult describes where each member of a [ForeignRecordLine] was recorded.
type ImportResult struct {
	Change  *ImportedChange  `json:"change,omitempty"` // state change or validation that followed the record
	Members []ImportedMember `json:"members"`
}

// ImportedChange is a change of state or a validation that resulted from a [ForeignRecordLine].
// Either Seq or Problem is set.
type ImportedChange struct {
	Kind    Kind   `json:"kind"`
	Seq     uint64 `json:"seq,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// ImportedMember states where one member of a foreign record was recorded, or why it was left out.
type ImportedMember struct {
	Pointer string `json:"pointer"`
	Outcome string `json:"fate"` // "taken as", "kept as label", "kept as content" or "left"
	Detail  string `json:"as"`   // location of the member in the record or, if it was left out, the reason
}

// ActionOrigin states which person or service acted in another system, and when. The event also
// contains the actor and the time that the ledger recorded.
type ActionOrigin struct {
	OriginalActor string `json:"original_actor,omitempty"` // at most 1,024 bytes
	Timestamp     string `json:"timestamp,omitempty"`      // RFC 3339 with any offset
}

// StateChange sets the state of a record.
type StateChange struct {
	State  State  `json:"state"`
	Reason string `json:"reason"`
	ActionOrigin
}

// StateChangeLine is a [StateChange] as a line of a batch.
type StateChangeLine struct {
	RecordSeq uint64 `json:"record_seq"`
	StateChange
}

// RecordKind implements [Record].
func (StateChangeLine) RecordKind() Kind { return KindRecordStateChanged }

// RecordRunID implements [Record].
func (StateChangeLine) RecordRunID() string { return "" }

// ValidationLine is a [PathValidation] as a line of a batch.
type ValidationLine struct {
	Project string `json:"project"`
	PathID  string `json:"path_id"`
	PathValidation
}

// RecordKind implements [Record].
func (ValidationLine) RecordKind() Kind { return KindPathValidated }

// RecordRunID implements [Record].
func (ValidationLine) RecordRunID() string { return "" }

// NoteLine is a [Note] as a line of a batch.
type NoteLine struct {
	RecordSeq uint64 `json:"record_seq"`
	Note
}

// RecordKind implements [Record].
func (NoteLine) RecordKind() Kind { return KindNote }

// RecordRunID implements [Record].
func (NoteLine) RecordRunID() string { return "" }

// StateChangeRequest sets the state of the records that either Filter or Seqs selects. It changes records only
// if DryRun is false and AsOf is the value that the dry run returned.
type StateChangeRequest struct {
	StateChange
	// Filter holds parameters of GET /records, keyed by name. Values are strings or integers. A nil map
	// means no filter.
	Filter map[string]any `json:"filter,omitempty"`
	Seqs   []uint64       `json:"seqs,omitempty"`
	DryRun *bool          `json:"dry_run,omitempty"` // the default is true
	AsOf   *uint64        `json:"as_of,omitempty"`   // tree size of the selection; required if DryRun is false
}

// StateChangeResult is the result of a [StateChangeRequest]. In a dry run, it describes what the
// request would do.
type StateChangeResult struct {
	AsOf         uint64     `json:"as_of"`
	DryRun       bool       `json:"dry_run"`
	Records      uint64     `json:"records"`            // number of records that change; each change is one event
	AlreadySet   uint64     `json:"already"`            // number of records that already had the state
	WithoutState uint64     `json:"without_state"`      // number of selected events whose kind has no state
	FirstSeqs    []uint64   `json:"first_seqs"`         // seqs of the first records that change, in ascending order
	Receipts     []*Receipt `json:"receipts,omitempty"` // receipts of the first changes only
}

// Note is a remark about a record, for example from a review or a step of a workflow.
type Note struct {
	Topic string  `json:"topic"`          // subject of the note, such as review; 1 to 128 bytes
	Text  *string `json:"text,omitempty"` // at most 4,096 bytes; the event contains it
	ActionOrigin
}

// PathValidation states whether a path's content is correct.
type PathValidation struct {
	Validated          bool    `json:"validated"`
	Reason             *string `json:"reason,omitempty"`
	Build              *string `json:"build,omitempty"`               // nil means the build of the path's latest record
	ContentFingerprint *string `json:"content_fingerprint,omitempty"` // if set, the path must have this fingerprint in the build
	ActionOrigin
}

// SourceRegistration registers a source. A nil ChunkHashes means that the chunks are not
// listed; an empty one means that the source has no chunks.
type SourceRegistration struct {
	ChunkHashes []string `json:"chunk_hashes,omitzero"`
	Title       *string  `json:"title,omitempty"`
	Reason      *string  `json:"reason,omitempty"`
}

// SourceRevocation revokes a source.
type SourceRevocation struct {
	Reason *string `json:"reason,omitempty"`
}

// ContentRedaction withdraws the content of one record.
type ContentRedaction struct {
	Reason string `json:"reason"`
}

// RedactionRequest withdraws the content of the records that either Filter or Seqs selects. It erases
// content only if DryRun is false and AsOf is the value that the dry run returned.
type RedactionRequest struct {
	Reason string `json:"reason"`
	// Filter holds parameters of GET /records, keyed by name. Values are strings or integers. A nil map
	// means no filter.
	Filter map[string]any `json:"filter,omitempty"`
	Seqs   []uint64       `json:"seqs,omitempty"`
	DryRun *bool          `json:"dry_run,omitempty"` // the default is true
	AsOf   *uint64        `json:"as_of,omitempty"`   // tree size of the selection; required if DryRun is false
}

// RedactionResult is the result of a [RedactionRequest]. In a dry run, it describes what the
// request would do.
type RedactionResult struct {
	AsOf                 uint64           `json:"as_of"`
	DryRun               bool             `json:"dry_run"`
	Records              uint64           `json:"records"`
	AlreadyRedacted      uint64           `json:"already_redacted"`
	WithoutContent       uint64           `json:"without_content"`
	Erased               ContentCount     `json:"erased"`     // content that no other record needs
	Kept                 ContentCount     `json:"kept"`       // content that other records need
	NeededBy             uint64           `json:"needed_by"`  // number of other records that need some kept content
	FirstSeqs            []uint64         `json:"first_seqs"` // seqs of the first newly redacted records, ascending
	FirstAlreadyRedacted []RedactedRecord `json:"first_already_redacted"`
	Events               *uint64          `json:"events,omitempty"`
	Receipts             []*Receipt       `json:"receipts,omitempty"` // receipts of the first events only; to get all, list the content_redacted events
}

// ContentCount counts pieces of content and their bytes.
type ContentCount struct {
	Pieces uint64 `json:"pieces"`
	Bytes  uint64 `json:"bytes"`
}

// RedactedRecord is a record and the event that withdrew its content.
type RedactedRecord struct {
	Seq        uint64 `json:"seq"`
	RedactedBy uint64 `json:"redacted_by"` // seq of the event that withdrew the content
}

// Receipt is the ledger's acknowledgement of an event. A minimal receipt lacks Event, Inclusion and
// Checkpoint, and proves nothing.
type Receipt struct {
	Ledger        string           `json:"ledger"`
	Seq           uint64           `json:"seq"`
	Kind          Kind             `json:"kind"`
	Time          Time             `json:"time"`
	EventHash     string           `json:"event_hash"`
	PrevEventHash string           `json:"prev_event_hash"`
	LeafHash      string           `json:"leaf_hash"`
	Hashes        Hashes           `json:"hashes"`
	Checks        Checks           `json:"checks"`
	Shape         string           `json:"shape,omitempty"`        // only for run-DAGs: quote, pointer, reject or unrecognised
	FailureStage  Nullable[string] `json:"failure_stage,omitzero"` // only for run-DAGs: null, retrieval, context or answer
	Replayed      bool             `json:"replayed,omitempty"`     // the record was already posted with this idempotency key; this receipt is for the existing event
	DerivedMembers
	Imported   *ImportResult   `json:"imported,omitempty"` // set only for a ForeignRecordLine
	Event      json.RawMessage `json:"event,omitempty"`    // the exact bytes of the hashed [Event]
	Inclusion  *InclusionProof `json:"inclusion,omitempty"`
	Checkpoint string          `json:"checkpoint,omitempty"` // signed note
}

// DerivedMembers holds what the ledger derived from other events. No proof covers these members, except
// Incomplete in a receipt. Without derive=true, only Incomplete can be set.
type DerivedMembers struct {
	Drift                *DerivedDrift          `json:"drift,omitempty"`
	Incomplete           []string               `json:"incomplete,omitempty"` // parts that an IPC record lacks; set even without derive=true
	Divergence           *DerivedDivergence     `json:"divergence,omitempty"`
	PathID               string                 `json:"path_id,omitempty"`  // the path_id that the ledger assigned
	Category             string                 `json:"category,omitempty"` // new, modified, unchanged, or incomparable
	Validated            *bool                  `json:"validated,omitempty"`
	EarlierValidationSeq uint64                 `json:"validated_before,omitempty"` // see [PathStatus]
	OtherBase            bool                   `json:"other_base,omitempty"`       // the record names a base or branch other than that of its build
	Conflicts            []DerivedChunkConflict `json:"conflicts,omitzero"`
	UnregisteredSources  []string               `json:"unregistered_sources,omitzero"`
}

// DerivedDrift describes what caused the change since the previous run with the same input.
type DerivedDrift struct {
	PreviousSeq   uint64     `json:"against"`
	Cause         DriftCause `json:"cause"`
	Variables     []string   `json:"variables"`
	OutputChanged bool       `json:"output_changed"`
}

// DerivedDivergence names the first stage in which a run-DAG differs from the previous one, and what
// caused the difference.
type DerivedDivergence struct {
	PreviousSeq         uint64          `json:"against"`
	FirstDivergingStage *string         `json:"first_diverging_stage"` // nil if no stage differs
	Cause               DivergenceCause `json:"cause"`
	DifferingDimensions []string        `json:"differing_dimensions"` // dimensions of the cache key that differ; nil if one of the runs has no dimensions
}

// DerivedChunkConflict is a chunk of a citation set that is also attributed to other sources.
type DerivedChunkConflict struct {
	ChunkHash   string      `json:"chunk_hash"`
	SourceCount uint64      `json:"source_count"`
	Sources     []SourceUse `json:"sources"`
}

// ComputeAnswer is the response to POST /v1/compute/{kind}. It holds the hashes, the checks, and
// the record that a ledger would store if the given record were posted.
type ComputeAnswer struct {
	Checks Checks          `json:"checks"`
	Hashes Hashes          `json:"hashes"`
	Kind   Kind            `json:"kind"`
	Record json.RawMessage `json:"record"` // same format as Event.Record
}

// RecordAnswer is one event and what the ledger derived about it from other events.
type RecordAnswer struct {
	IndexedTreeSize
	RowMembers
	Kind          Kind    `json:"kind"`
	Time          Time    `json:"time"`
	EventHash     string  `json:"event_hash"`
	PrevEventHash string  `json:"prev_event_hash"`
	LeafHash      string  `json:"leaf_hash"`
	Hashes        Hashes  `json:"hashes"`
	Checks        Checks  `json:"checks"`
	State         State   `json:"state,omitempty"`
	RedactedBy    *uint64 `json:"redacted_by,omitempty"` // seq of the event that withdrew the record's content, or nil
	DerivedMembers
	Event json.RawMessage `json:"event"` // the exact bytes of the hashed [Event]
}

// ListedRecord is one row of a list of records.
type ListedRecord struct {
	RowMembers
	Kind        Kind              `json:"kind"`
	Time        Time              `json:"time"`
	EventHash   string            `json:"event_hash"`
	State       State             `json:"state,omitempty"`
	RedactedBy  *uint64           `json:"redacted_by,omitempty"` // seq of the event that withdrew the content, or nil
	RunID       string            `json:"run_id,omitempty"`
	Timestamp   string            `json:"timestamp,omitempty"`
	Hashes      Hashes            `json:"hashes"`
	Mismatches  []string          `json:"mismatches"`
	BrokenRules []string          `json:"inconsistent,omitempty"` // names of the rules that the run-DAG's verdict breaks
	Incomplete  []string          `json:"incomplete,omitempty"`   // parts, such as seed, that the IPC record lacks
	Labels      map[string]string `json:"labels"`
	Name        *ReadableName     `json:"name,omitempty"` // set only if the request has names=true
	Links       RecordLinks       `json:"links"`
	Event       json.RawMessage   `json:"event,omitempty"` // an [Event], exactly as it is hashed
}

// SearchAnswer is the response to GET /search. It lists the values that match the text.
type SearchAnswer struct {
	IndexedTreeSize
	Rows     []SearchHit `json:"rows"`     // at most 50; values that match exactly come first
	Complete bool        `json:"complete"` // false if the search may have missed some matches
}

// SearchHit is one value that matches the search. Seq is the seq of a record with this value.
type SearchHit struct {
	RowMembers
	// Type is event, event_hash, label, or the parameter of GET /records that filters by the value.
	// If Type is label, Value is the name of a label.
	Type  string        `json:"type"`
	Value string        `json:"value"`
	Name  *ReadableName `json:"name,omitempty"`
}

// RecordLinks holds paths of related resources on the server.
type RecordLinks struct {
	Record  string            `json:"record"`
	Receipt string            `json:"receipt,omitempty"`
	Content map[string]string `json:"content,omitempty"`
	Queries map[string]string `json:"queries,omitempty"`
}

// NestedProof proves one stage of a run-DAG or one citation of a citation set. proofs.ParseNestedProof
// parses its JSON.
type NestedProof struct {
	Format   string          `json:"format"` // colophon-nested-proof@1
	Stage    *NestedStage    `json:"stage,omitempty"`
	Citation *NestedCitation `json:"citation,omitempty"`
	Text     json.RawMessage `json:"text,omitempty"` // a JSON string, which can contain lone surrogates; absent from the server's responses
	Receipt  Receipt         `json:"receipt"`
}

// NestedStage is a stage and the Merkle path from it to the root of its run-DAG.
type NestedStage struct {
	Name  string       `json:"name"`
	Index uint64       `json:"index"`
	Hash  string       `json:"hash"`
	Root  string       `json:"root"`
	Path  []MerkleStep `json:"path"` // sibling hashes, from the leaf upwards
}

// NestedCitation is one citation of a citation set. Index is its position, counted from 0.
type NestedCitation struct {
	Index     uint64 `json:"index"`
	ChunkHash string `json:"chunk_hash"`
}

// MerkleStep is one sibling hash on the Merkle path from a stage to the root of its run-DAG.
type MerkleStep struct {
	Sibling string `json:"sibling"`
	IsLeft  bool   `json:"is_left"`
}
