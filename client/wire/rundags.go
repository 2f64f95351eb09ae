package wire

import "encoding/json"

// RunDAGSummary describes a run-DAG in a response.
type RunDAGSummary struct {
	RowMembers
	RunID *string `json:"run_id"` // nil if the record names no run
	Time  Time    `json:"time"`   // when the run-DAG was recorded
	Root  string  `json:"root"`   // Merkle root over the hashes of the stages
	Shape string  `json:"shape"`  // the run's sequence of stages: quote, pointer, reject or unrecognised
}

// RunDAGComparison is the response to GET /run-dags/compare.
type RunDAGComparison struct {
	IndexedTreeSize
	RunDAGChange
}

// RunDAGChange describes how run-DAG B differs from run-DAG A.
type RunDAGChange struct {
	A RunDAGSummary `json:"a"`
	B RunDAGSummary `json:"b"`
	// FirstDivergingStage is nil if no stage differs, and "outcome" if one run was rejected and the
	// other was answered.
	FirstDivergingStage *string  `json:"first_diverging_stage"`
	DifferingStages     []string `json:"differing_stages"` // names of all stages that differ, in order
	OnlyInA             []string `json:"only_in_a"`        // differing stages that B lacks
	OnlyInB             []string `json:"only_in_b"`        // differing stages that A lacks
	// DifferingDimensions lists the dimensions of the cache key that differ. It is nil if one of the
	// runs has no dimensions.
	DifferingDimensions []string        `json:"differing_dimensions"`
	Cause               DivergenceCause `json:"cause"` // why the run-DAGs differ
	Summary             string          `json:"says"`  // the difference in one sentence
}

// DivergenceRow compares a run-DAG with the previous live run-DAG of the same question. PreviousSeq
// is nil if there is no such run-DAG.
type DivergenceRow struct {
	RunDAGSummary
	State       State   `json:"state"`   // state of this run-DAG, not of the previous one
	PreviousSeq *uint64 `json:"against"` // seq of the previous live run-DAG; nil if there is none
	// FirstDivergingStage is nil if no stage differs or PreviousSeq is nil, and "outcome" if one run
	// was rejected and the other was answered.
	FirstDivergingStage *string `json:"first_diverging_stage"`
	// Cause states why the two differ. It and DifferingDimensions are nil if PreviousSeq is nil.
	Cause *DivergenceCause `json:"cause"`
	// DifferingDimensions lists the dimensions of the cache key that differ. It is also nil if either
	// run has no dimensions.
	DifferingDimensions []string `json:"differing_dimensions"`
}

// DivergenceCause is the reason why two run-DAGs diverge: the name of the cache key's only
// differing dimension, or one of the constants below.
type DivergenceCause string

// Causes other than the name of a dimension of the cache key.
const (
	DivergenceCauseIdentical   DivergenceCause = "identical"    // no stage differs
	DivergenceCauseConfounded  DivergenceCause = "confounded"   // several dimensions differ
	DivergenceCauseNoDimension DivergenceCause = "no_dimension" // stages differ, but all dimensions agree
	DivergenceCauseUnknown     DivergenceCause = "unknown"      // stages differ, and at least one run has no dimensions
)

// CachedRunDAG is the live run-DAG with a given cache key.
type CachedRunDAG struct {
	IndexedTreeSize
	RunDAGSummary
	CacheKey string `json:"cache_key"` // hash of the dimensions
	// CacheDimensions maps names to values; a version is nil if too long or with a lone surrogate.
	CacheDimensions map[string]*string `json:"cache_dimensions"`
	QuestionHash    *string            `json:"question_hash"` // nil if the run-DAG has none
	// FailureStage is retrieval, context, or answer. It is nil if the run did not fail, and "unknown"
	// if it was posted as stages without inputs.
	FailureStage *string `json:"failure_stage"`
	AuditMode    *string `json:"audit_mode"` // outcome of the audit, as posted; nil if not stated
	Others       uint64  `json:"others"`     // number of other live run-DAGs with the same key and dimensions
}

// CacheKeyAnswer is the response to POST /v1/compute/cache-key.
type CacheKeyAnswer struct {
	CacheKey string `json:"cache_key"`
}

// QuestionHashAnswer is the response to POST /v1/compute/question-hash.
type QuestionHashAnswer struct {
	QuestionHash string `json:"question_hash"`
	QuestionMode string `json:"question_mode"` // strict or equivalence_class
}

// QuestionHashRequest asks the server for the hash of a question.
type QuestionHashRequest struct {
	Question     string `json:"question"`
	QuestionMode string `json:"question_mode,omitempty"` // equivalence_class (default) or strict
}

// LookupRequest selects the live run-DAG with the given question and cache dimensions. The server ignores
// question_hash in the dimensions.
type LookupRequest struct {
	Question        string          `json:"question"`
	CacheDimensions json.RawMessage `json:"cache_dimensions"`
}

// LookupAnswer is the run-DAG that a [LookupRequest] selects, with its answer.
type LookupAnswer struct {
	CachedRunDAG
	QuestionMode string `json:"question_mode"` // the mode that found the run: strict or equivalence_class
	// AnswerText is a JSON string, which can contain lone surrogates. It is null if the record has no
	// answer or its content was erased.
	AnswerText json.RawMessage `json:"answer_text"`
	// RedactedBy is the seq of the event that erased the content, or nil. It is always the current
	// value, regardless of AsOf.
	RedactedBy *uint64 `json:"redacted_by,omitempty"`
}

// ListedRunDAG is a run-DAG in a list.
type ListedRunDAG struct {
	RunDAGSummary
	State State `json:"state"`
	// FailureStage is retrieval, context, or answer. It is nil if the run did not fail, and "unknown"
	// if it was posted as stages without inputs.
	FailureStage         *string  `json:"failure_stage"`
	AuditMode            *string  `json:"audit_mode"`             // outcome of the audit, as posted; nil if not stated
	VerifierMethod       *string  `json:"verifier_method"`        // how the answer was verified; nil if not stated
	QuestionHash         *string  `json:"question_hash"`          // nil if unknown
	ModelProfileHash     *string  `json:"model_profile_hash"`     // nil if unknown
	GovernancePolicyHash *string  `json:"governance_policy_hash"` // nil if unknown
	BrokenRules          []string `json:"inconsistent"`           // names of the rules that its verdict breaks
	// Name is the readable name of the question. It is set only if the request has names=true.
	Name *ReadableName `json:"name,omitempty"`
}

// RunDAGGroup describes the run-DAGs that share a hash. Seq is the seq of the last run-DAG.
type RunDAGGroup struct {
	RowMembers
	// By names the hash that the run-DAGs share: question_hash, model_profile_hash,
	// governance_policy_hash, verifier_policy_hash, or cache_key.
	By    string `json:"by"`
	Value string `json:"value"` // the hash itself
	// Name is the readable name of Value. It is set only if the request has names=true.
	Name *ReadableName `json:"name,omitempty"`
	Runs uint64        `json:"runs"` // number of run-DAGs in the group
	// DistinctAnswers is the number of different answers. Runs without an answer do not count.
	DistinctAnswers uint64              `json:"distinct_answers"`
	OutcomeCounts   []GroupOutcomeCount `json:"verdicts"`   // sorted by shape, audit mode, and failure stage
	FirstRunSeq     uint64              `json:"first_seq"`  // seq of the group's first run-DAG
	FirstRunTime    Time                `json:"first_time"` // when the first run-DAG was recorded
	LastRunSeq      uint64              `json:"last_seq"`   // seq of the group's last run-DAG
	LastRunTime     Time                `json:"last_time"`  // when the last run-DAG was recorded
}

// GroupOutcomeCount counts the run-DAGs in a group that have a given outcome.
type GroupOutcomeCount struct {
	// FailureStage is retrieval, context, answer, or other. It is nil if the runs did not fail, and
	// "unknown" if they were posted as stages without inputs.
	FailureStage *string `json:"failure_stage"`
	AuditMode    *string `json:"audit_mode"` // STRICT, HYBRID, UNGROUNDED, or other; nil if not stated
	Shape        *string `json:"shape"`      // form of the list of stages: quote, pointer, reject, unrecognised, or other
	Runs         uint64  `json:"runs"`       // number of run-DAGs with this outcome
	Share        Decimal `json:"share"`      // fraction of the group's runs that have this outcome
}

// StageProof proves one stage of a run-DAG.
type StageProof struct {
	IndexedTreeSize
	Seq     uint64       `json:"seq"`     // seq of the run-DAG
	Stage   string       `json:"stage"`   // name of the stage
	Index   uint64       `json:"index"`   // position of the stage, counted from 0
	Hash    string       `json:"hash"`    // hash of the stage
	Root    string       `json:"root"`    // Merkle root over the hashes of the run-DAG's stages
	Path    []MerkleStep `json:"path"`    // sibling hashes, from the leaf upwards
	Receipt Receipt      `json:"receipt"` // receipt of the run-DAG's event
}

// FailuresAnswer counts run-DAGs by outcome.
type FailuresAnswer struct {
	IndexedTreeSize
	Total uint64         `json:"total"` // number of all counted run-DAGs
	Rows  []OutcomeCount `json:"rows"`  // sorted by shape, audit mode, and failure stage
	// Step is the length of a period in seconds. Step and Periods are absent unless the request has
	// periods=true.
	Step    uint64          `json:"step,omitempty"`
	Periods []FailurePeriod `json:"periods,omitempty"` // oldest first
}

// FailurePeriod counts the run-DAGs that were recorded from Since up to but not including Until.
type FailurePeriod struct {
	Since Time           `json:"since"` // start, inclusive
	Until Time           `json:"until"` // end, exclusive
	Total uint64         `json:"total"` // number of all run-DAGs in the period
	Rows  []OutcomeCount `json:"rows"`  // sorted by shape, audit mode, and failure stage
}

// OutcomeCount is the number of run-DAGs with a given outcome.
type OutcomeCount struct {
	// FailureStage is retrieval, context, answer, or other. It is nil if the runs did not fail, and
	// "unknown" if they were posted as stages without inputs.
	FailureStage *string `json:"failure_stage"`
	AuditMode    *string `json:"audit_mode"` // STRICT, HYBRID, UNGROUNDED, or other; nil if not stated
	Shape        *string `json:"shape"`      // quote, pointer, reject, unrecognised, or other
	Count        uint64  `json:"count"`      // number of run-DAGs with this outcome
}
