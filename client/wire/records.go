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
	Producer *Producer         `json:"producer,omitempty"` // nil if the record names no producer
}

// RecordRunID implements [Record].
func (c CommonRecordMembers) RecordRunID() string { return c.RunID }

// Producer names the producer of a record and contains the producer's own number for the record. If a
// producer numbers its records from 1 without gaps, a gap reveals a record that was never posted.
type Producer struct {
	ID  string `json:"id"`  // name of the producer, 1 to 128 bytes
	Seq int64  `json:"seq"` // the producer's own number for the record, 0 or more
}

// IPCRecord records one generation, as part of an interpretive provenance chain (IPC). Payload or
// InputHash is required. Hashes are claims. The ledger checks a hash if the record contains the
// content that the hash covers.
type IPCRecord struct {
	CommonRecordMembers
	Payload   json.RawMessage `json:"payload,omitempty"`    // input of the prompt, a JSON object
	InputHash string          `json:"input_hash,omitempty"` // SHA-256 of Payload in canonical JSON
	// PayloadSchema is axis-payload-1 if the ledger is to normalise the payload before it hashes it, or else "".
	PayloadSchema    string   `json:"payload_schema,omitempty"`
	SystemPrompt     *string  `json:"system_prompt,omitempty"`      // nil if not sent
	SystemPromptHash string   `json:"system_prompt_hash,omitempty"` // SHA-256 of SystemPrompt with stripped lines
	Output           *string  `json:"output,omitempty"`             // the generated text; nil if not sent
	OutputHash       string   `json:"output_hash,omitempty"`        // SHA-256 of Output with normalised spaces
	Model            string   `json:"model"`                        // name of the model, at most 1,024 bytes
	Temperature      *float64 `json:"temperature,omitempty"`        // sampling temperature; nil if not sent
	// MaxTokens is the token limit, 0 or more, and Seed is the sampling seed. Both are integers of any size;
	// see [IntNumber]. The default of Seed is the seed member of the payload.
	MaxTokens json.Number `json:"max_tokens,omitempty"`
	Seed      json.Number `json:"seed,omitempty"`
	// IPCID is the claimed hash of the input hash, system prompt hash, model, temperature, token
	// limit and seed. IPCIDAdvanced also covers the environment.
	IPCID         string          `json:"ipc_id,omitempty"`
	IPCIDAdvanced string          `json:"ipc_id_advanced,omitempty"`
	Environment   *Environment    `json:"environment,omitempty"`
	Usage         json.RawMessage `json:"usage,omitempty"` // token counts, durations and the like, a JSON object
}

// RecordKind implements [Record].
func (IPCRecord) RecordKind() Kind { return KindIPCRecord }

// Environment describes where a generation ran. Each value has at most 1,024 bytes. The ledger computes the
// ipc_id_advanced only if it knows all three values.
type Environment struct {
	OllamaBuildHash *string `json:"ollama_build_hash,omitempty"` // build of the runtime
	ModelDigest     *string `json:"model_digest,omitempty"`      // digest of the model's weights
	HostPlatform    *string `json:"host_platform,omitempty"`     // machine and operating system
}

// RunDAG holds the stages of a question-answering run. One of DAG, Inputs and RejectedInputs is
// required; Inputs and RejectedInputs exclude each other. The texts and free-form JSON can contain lone surrogates.
// DAG stands for directed acyclic graph; here, the graph is a list of stages.
type RunDAG struct {
	CommonRecordMembers
	DAG            *DAG               `json:"dag,omitempty"`           // stages that the service computed
	Inputs         *RunInputs         `json:"inputs,omitempty"`        // values from which the stages are computed
	RejectedInputs *RejectedRunInputs `json:"reject_inputs,omitempty"` // the same for a run that preflight rejected
	Question       *string            `json:"question,omitempty"`      // text from which question_hash is computed
	// QuestionMode is equivalence_class (the default) if the hash of the question ignores case, articles and
	// final punctuation, or strict if it does not.
	QuestionMode    string           `json:"question_mode,omitempty"`
	AnswerText      *string          `json:"answer_text,omitempty"`      // the answer; can replace Inputs.AnswerText
	Messages        json.RawMessage  `json:"messages,omitempty"`         // a JSON list of the messages to the model
	Policy          json.RawMessage  `json:"policy,omitempty"`           // governance policy, a JSON object
	VerifierPolicy  json.RawMessage  `json:"verifier_policy,omitempty"`  // verifier's part of Policy, a JSON object
	SourceRoots     []string         `json:"source_roots,omitzero"`      // root hashes of the source documents
	Evidence        []Evidence       `json:"evidence,omitzero"`          // from which evidence_map_root is computed
	CacheDimensions *CacheDimensions `json:"cache_dimensions,omitempty"` // values from which CacheKey is computed
	CacheKey        string           `json:"cache_key,omitempty"`        // claimed SHA-256 of the cache dimensions
}

// RecordKind implements [Record].
func (RunDAG) RecordKind() Kind { return KindRunDAG }

// DAG holds the stages of a run as the service computed them.
type DAG struct {
	Root             string            `json:"root"`                        // Merkle root over the hashes of the stages
	Nodes            []Node            `json:"nodes"`                       // in the order of the stages
	PreflightPayload *PreflightPayload `json:"preflight_payload,omitempty"` // content of the stage preflight, if known
}

// Node is one stage of a run.
type Node struct {
	Stage string `json:"stage"` // name of the stage, such as retrieval; at most 128 bytes
	Hash  string `json:"hash"`  // SHA-256 in 64 hexadecimal digits
}

// RunInputs holds the inputs from which the ledger builds a run-DAG. The shape of the run-DAG is
// "pointer" if EvidenceMapRoot is set or can be computed, and "quote" otherwise. QuestionHash, ContextRoot,
// EvidenceMapRoot and ConversationHash can be left out if the ledger can compute them from the Question,
// SourceRoots, Evidence and Messages of the [RunDAG].
type RunInputs struct {
	QuestionHash     string            `json:"question_hash,omitempty"`     // hash of the stage question
	PreflightHash    string            `json:"preflight_hash,omitempty"`    // hash of the stage preflight, if any
	PreflightPayload *PreflightPayload `json:"preflight_payload,omitempty"` // content that PreflightHash covers
	ContextRoot      string            `json:"context_root,omitempty"`      // hash of the stage context (quote runs)
	EvidenceMapRoot  string            `json:"evidence_map_root,omitempty"` // hash of the stage evidence_map
	ConversationHash string            `json:"conversation_hash,omitempty"` // hash of the stage prompt
	AnswerText       *string           `json:"answer_text,omitempty"`       // required here or in the [RunDAG]
	RawAnswerText    *string           `json:"raw_answer_text,omitempty"`   // pointer runs only; nil means AnswerText
	RenderedText     *string           `json:"rendered_text,omitempty"`     // pointer runs only; nil means AnswerText
	ParsedLattice    json.RawMessage   `json:"parsed_lattice,omitempty"`    // a pointer run's claim lattice, any JSON
	AuditMode        string            `json:"audit_mode"`                  // audit outcome; STRICT if nothing failed
	VerifierMethod   string            `json:"verifier_method"`             // how the answer was verified
	NQuotes          json.Number       `json:"n_quotes"`                    // number of quotes in the answer
	NVerified        json.Number       `json:"n_verified"`                  // number of those quotes that were verified
	Sources          []RunSource       `json:"sources"`                     // as retrieval found them, in order
	// RetrievalPlanHash is the hash of the retrieval plan. If it is set, the stage retrieval also covers it.
	RetrievalPlanHash string `json:"retrieval_plan_hash,omitempty"`
	// LookupPath is a name for how the answer was found, such as retrieval. It is not a file path.
	LookupPath    *string         `json:"lookup_path,omitempty"`
	ClaimStatuses json.RawMessage `json:"claim_statuses,omitempty"` // status of each claim, a JSON list; nil means []
	Violations    json.RawMessage `json:"violations,omitempty"`     // rules that were violated, a JSON list
	AnswerMode    *string         `json:"answer_mode,omitempty"`    // how the answer is given, such as pointer
}

// RunSource is one source of a run's retrieval. Each member can be any JSON, and nil means null. To send
// further members, which no hash covers, post a [RawRecord].
type RunSource struct {
	DocumentRoot json.RawMessage `json:"document_root,omitempty"` // root hash or other ID of the document
	SourceRole   json.RawMessage `json:"source_role,omitempty"`   // role of the source, such as "corroboration"
	Score        json.RawMessage `json:"score,omitempty"`         // retrieval score
	ChunkIdx     json.RawMessage `json:"chunk_idx,omitempty"`     // index of the retrieved chunk
}

// RejectedRunInputs holds the inputs from which the ledger builds the run-DAG of a run that preflight rejected.
type RejectedRunInputs struct {
	QuestionHash     string            `json:"question_hash,omitempty"`     // default: hash of the RunDAG's Question
	PreflightHash    string            `json:"preflight_hash,omitempty"`    // the default is PreflightPayload's hash
	PreflightPayload *PreflightPayload `json:"preflight_payload,omitempty"` // content that PreflightHash covers
	RejectionReason  string            `json:"rejection_reason"`            // why preflight rejected the run
	AnswerText       *string           `json:"answer_text,omitempty"`       // text that the user got, if any
	Violations       json.RawMessage   `json:"violations,omitempty"`        // rules that were violated, a JSON list
	AuditMode        *string           `json:"audit_mode,omitempty"`        // audit outcome; the default is UNGROUNDED
	// VerifierMethod states how answers are verified. The default is claim_lattice_pointer.
	VerifierMethod *string `json:"verifier_method,omitempty"`
}

// PreflightPayload holds the content that the hash of a run's preflight stage covers. Classifier
// and the members after it can be any JSON. The ledger does not interpret them; it hashes an empty one as {}. To
// send another node_version, post a [RawRecord].
type PreflightPayload struct {
	Stage            *string         `json:"stage,omitempty"`        // nil or "preflight"
	NodeVersion      *string         `json:"node_version,omitempty"` // nil or "preflight-node-v1"
	Classifier       json.RawMessage `json:"classifier,omitempty"`
	AnswerContract   json.RawMessage `json:"answer_contract,omitempty"`
	PromptContract   json.RawMessage `json:"prompt_contract,omitempty"`
	EvidenceContract json.RawMessage `json:"evidence_contract,omitempty"`
	PolicyRefs       json.RawMessage `json:"policy_refs,omitempty"`
	QuestionState    json.RawMessage `json:"question_state,omitempty"`
}

// Evidence is the part of a chunk from Start up to, but not including, End. The unit of these positions is up to
// the service; the ledger only hashes them. To send further members, which no hash covers, post a [RawRecord].
type Evidence struct {
	ChunkRoot  string      `json:"chunk_root"`            // hash of the chunk, 64 hexadecimal digits
	Start      json.Number `json:"start"`                 // where the part begins in the chunk; 0 or more
	End        json.Number `json:"end"`                   // where the part ends in the chunk; 0 or more
	EvidenceID *string     `json:"evidence_id,omitempty"` // a claim that the ledger checks: E and 8 hexadecimal digits
	TextHash   string      `json:"text_hash,omitempty"`   // a claimed SHA-256 of Span, which the ledger checks
	Span       *string     `json:"span,omitempty"`        // text of the part
}

// CacheDimensions holds the values from which a cache key is computed: hashes of 64 hexadecimal digits, and
// versions that the service chooses. If the [RunDAG] has the content that a hash covers, the computed hash replaces
// the given one in the cache key.
type CacheDimensions struct {
	SourceRoot              string `json:"source_root"`            // root hash of the sources; always a claim
	QuestionHash            string `json:"question_hash"`          // hash of RunDAG.Question
	ModelProfileHash        string `json:"model_profile_hash"`     // hash of the model's profile; always a claim
	ConversationHash        string `json:"conversation_hash"`      // hash of RunDAG.Messages
	GovernancePolicyHash    string `json:"governance_policy_hash"` // hash of RunDAG.Policy
	SchemaVersion           string `json:"schema_version"`
	CanonicalizationVersion string `json:"canonicalization_version"`
	ChunkingVersion         string `json:"chunking_version"`
	// VerifierPolicyHash is the hash of RunDAG.VerifierPolicy. If it is "", the cache key does not cover it.
	VerifierPolicyHash string `json:"verifier_policy_hash,omitempty"`
}

// CitationSet holds the citations that support an answer.
type CitationSet struct {
	CommonRecordMembers
	Subject   string     `json:"subject"`   // what the citations are about, at most 1,024 bytes
	Citations []Citation `json:"citations"` // in the order of the answer
}

// RecordKind implements [Record].
func (CitationSet) RecordKind() Kind { return KindCitationSet }

// Citation is one citation of a set. Text or ChunkHash is required.
type Citation struct {
	SourceID  string  `json:"source_id"`            // ID of the source, at most 1,024 bytes
	Text      *string `json:"text,omitempty"`       // text of the cited chunk
	ChunkHash string  `json:"chunk_hash,omitempty"` // "sha256:" and the SHA-256 of the words of Text
	Weight    float64 `json:"weight"`               // how much the answer depends on the citation, from 0 to 1
	Section   *string `json:"section,omitempty"`    // section of the answer, at most 1,024 bytes
}

// PathFingerprint records a path, which is one route through a branching story, and its content.
type PathFingerprint struct {
	CommonRecordMembers
	Project string  `json:"project"`          // name of the story, at most 1,024 bytes
	Build   *string `json:"build,omitempty"`  // version of the story; nil if none
	Branch  *string `json:"branch,omitempty"` // branch of the build, such as a pull request; nil if none
	// Base is the build with which Build is compared. If Base is nil, it is the last build in the branch or,
	// without a branch, in the project.
	Base    *string  `json:"base,omitempty"`
	Route   []string `json:"route"`             // names of passages (sections of text) in reading order
	Content *string  `json:"content,omitempty"` // text along the route, with its links
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
	JSON json.RawMessage // the record, in the form that its kind requires
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
	Record         any    `json:"record"`                    // a [Record], encoded as JSON
	IdempotencyKey string `json:"idempotency_key,omitempty"` // at most 1,024 bytes; the default is the record's run_id
}

// ForeignRecordLine is one line of a batch that imports a record from another system. The record is
// unchanged, in the format of that system.
type ForeignRecordLine struct {
	Format string          `json:"format"` // axis-log, axis-save, citations, validation-cache or providence
	Record json.RawMessage `json:"record"` // a JSON object
	// IdempotencyKey has at most 1,024 bytes. The default is derived from Format, Record, Project, Subject and RunID.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Zone is the time zone for times that do not state one: UTC, an offset such as +01:00, or a name such as
	// Europe/Berlin. Without Zone, such a time becomes a label.
	Zone    string `json:"zone,omitempty"`
	Project string `json:"project,omitempty"` // default project for entries of a validation cache
	Subject string `json:"subject,omitempty"` // default subject for citations
	RunID   string `json:"run_id,omitempty"`  // default run_id for citations
}

// ImportResult describes where each member of a [ForeignRecordLine] was recorded.
type ImportResult struct {
	Change  *ImportedChange  `json:"change,omitempty"` // state change or validation that followed the record, if any
	Members []ImportedMember `json:"members"`
}

// ImportedChange is a change of state or a validation that resulted from a [ForeignRecordLine].
// Either Seq or Problem is set.
type ImportedChange struct {
	Kind    Kind   `json:"kind"`              // record_state_changed or path_validated
	Seq     uint64 `json:"seq,omitempty"`     // seq of the event that made the change
	Problem string `json:"problem,omitempty"` // why the change failed; the record itself is in the log
}

// ImportedMember states where one member of a foreign record was recorded, or why it was left out.
type ImportedMember struct {
	Pointer string `json:"pointer"` // JSON pointer into the foreign record
	Outcome string `json:"fate"`    // "taken as", "kept as label", "kept as content" or "left" (left out)
	Detail  string `json:"as"`      // location of the member in the record or, if it was left out, the reason
}

// RecordAnswer is one event and what the ledger derived about it from other events.
type RecordAnswer struct {
	IndexedTreeSize
	RowMembers
	Kind          Kind    `json:"kind"`
	Time          Time    `json:"time"`
	EventHash     string  `json:"event_hash"`      // SHA-256 of PrevEventHash (32 bytes) followed by Event
	PrevEventHash string  `json:"prev_event_hash"` // EventHash of the log's previous event; all zeros if there is none
	LeafHash      string  `json:"leaf_hash"`       // hash of the event as a leaf of the log's Merkle tree
	Hashes        Hashes  `json:"hashes"`
	Checks        Checks  `json:"checks"`                // results of the checks, keyed by name of the hash or rule
	State         State   `json:"state,omitempty"`       // "" if events of this kind have no state
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
	State       State             `json:"state,omitempty"`       // "" if events of this kind have no state
	RedactedBy  *uint64           `json:"redacted_by,omitempty"` // seq of the event that withdrew the content, or nil
	RunID       string            `json:"run_id,omitempty"`
	Timestamp   string            `json:"timestamp,omitempty"` // time at which the service made the record, as posted
	Hashes      Hashes            `json:"hashes"`
	Mismatches  []string          `json:"mismatches"`             // names of the hashes for which the claim was wrong
	BrokenRules []string          `json:"inconsistent,omitempty"` // names of rules that the run-DAG's verdict breaks
	Incomplete  []string          `json:"incomplete,omitempty"`   // parts, such as seed, that the IPC record lacks
	Labels      map[string]string `json:"labels"`
	Name        *ReadableName     `json:"name,omitempty"` // set only if the request has names=true
	Links       RecordLinks       `json:"links"`
	// Event is an [Event], exactly as it is hashed. It is set only if the request has events=true.
	Event json.RawMessage `json:"event,omitempty"`
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
	Name  *ReadableName `json:"name,omitempty"` // readable name of Value; set only if the request has names=true
}

// RecordLinks holds paths of related resources on the server.
type RecordLinks struct {
	Record string `json:"record"` // path of the record with its event and checks
	// Receipt, Content, and Queries are set only in the response to GET /runs/{run_id}.
	Receipt string            `json:"receipt,omitempty"`
	Content map[string]string `json:"content,omitempty"` // paths keyed by name of the content, such as output
	Queries map[string]string `json:"queries,omitempty"` // paths keyed by name of the query, such as timeline
}
