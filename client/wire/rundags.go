package wire

import "encoding/json"

// RunDAGSummary describes a run-DAG in a response.
type RunDAGSummary struct {
	RowMembers
	RunID *string `json:"run_id"`
	Time  Time    `json:"time"`
	Root  string  `json:"root"`
	Shape string  `json:"shape"` // the run's sequence of stages: quote, pointer, reject or unrecognised
}

// RunDAGComparison is the response to GET /run-dags/compare.
type RunDAGComparison struct {
	IndexedTreeSize
	RunDAGChange
}

// RunDAGChange describes how run-DAG B differs from run-DAG A.
type RunDAGChange struct {
	A                   RunDAGSummary   `json:"a"`
	B                   RunDAGSummary   `json:"b"`
	FirstDivergingStage *string         `json:"first_diverging_stage"` // nil if no stage differs; "outcome" if one run was rejected and the other was answered
	DifferingStages     []string        `json:"differing_stages"`
	OnlyInA             []string        `json:"only_in_a"`
	OnlyInB             []string        `json:"only_in_b"`
	DifferingDimensions []string        `json:"differing_dimensions"` // dimensions of the cache key that differ; nil if one of the runs has no dimensions
	Cause               DivergenceCause `json:"cause"`
	Summary             string          `json:"says"` // the difference in one sentence
}

// DivergenceRow compares a run-DAG with the previous live run-DAG of the same question. PreviousSeq
// is nil if there is no such run-DAG.
type DivergenceRow struct {
	RunDAGSummary
	State               State   `json:"state"`
	PreviousSeq         *uint64 `json:"against"`
	FirstDivergingStage *string `json:"first_diverging_stage"`
	// Cause states why the two differ. It and DifferingDimensions are nil if PreviousSeq is nil.
	Cause               *DivergenceCause `json:"cause"`
	DifferingDimensions []string         `json:"differing_dimensions"` // also nil if either run has no dimensions
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
	CacheKey string `json:"cache_key"`
	// CacheDimensions maps names to values; a version is nil if too long or with a lone surrogate.
	CacheDimensions map[string]*string `json:"cache_dimensions"`
	QuestionHash    *string            `json:"question_hash"`
	FailureStage    *string            `json:"failure_stage"`
	AuditMode       *string            `json:"audit_mode"`
	Others          uint64             `json:"others"` // number of other live run-DAGs with the same key and dimensions
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
	QuestionMode string          `json:"question_mode"`         // the mode that found the run: strict or equivalence_class
	AnswerText   json.RawMessage `json:"answer_text"`           // null, or a JSON string, which can contain lone surrogates
	RedactedBy   *uint64         `json:"redacted_by,omitempty"` // seq of the event that erased the content; always the current value, regardless of AsOf
}

// ListedRunDAG is a run-DAG in a list.
type ListedRunDAG struct {
	RunDAGSummary
	State                State         `json:"state"`
	FailureStage         *string       `json:"failure_stage"` // nil if the run did not fail; "unknown" if it was posted as stages without inputs
	AuditMode            *string       `json:"audit_mode"`
	VerifierMethod       *string       `json:"verifier_method"`
	QuestionHash         *string       `json:"question_hash"`
	ModelProfileHash     *string       `json:"model_profile_hash"`
	GovernancePolicyHash *string       `json:"governance_policy_hash"`
	BrokenRules          []string      `json:"inconsistent"`   // names of the rules that the run-DAG's verdict breaks
	Name                 *ReadableName `json:"name,omitempty"` // readable name of the question; set only if the request has names=true
}

// RunDAGGroup describes the run-DAGs that share a hash. Seq is the seq of the last run-DAG.
type RunDAGGroup struct {
	RowMembers
	By              string              `json:"by"` // hash that the run-DAGs have in common, such as question_hash
	Value           string              `json:"value"`
	Name            *ReadableName       `json:"name,omitempty"` // name of Value; set only if the request has names=true
	Runs            uint64              `json:"runs"`
	DistinctAnswers uint64              `json:"distinct_answers"` // different answers, not counting runs without one
	OutcomeCounts   []GroupOutcomeCount `json:"verdicts"`
	FirstRunSeq     uint64              `json:"first_seq"`
	FirstRunTime    Time                `json:"first_time"`
	LastRunSeq      uint64              `json:"last_seq"`
	LastRunTime     Time                `json:"last_time"`
}

// GroupOutcomeCount counts the run-DAGs in a group that have a given outcome.
type GroupOutcomeCount struct {
	FailureStage *string `json:"failure_stage"` // nil if the runs did not fail; "unknown" if they were posted as stages without inputs
	AuditMode    *string `json:"audit_mode"`
	Shape        *string `json:"shape"`
	Runs         uint64  `json:"runs"`
	Share        Decimal `json:"share"` // fraction of the group's runs that have this outcome
}

// StageProof proves one stage of a run-DAG.
type StageProof struct {
	IndexedTreeSize
	Seq     uint64       `json:"seq"`
	Stage   string       `json:"stage"`
	Index   uint64       `json:"index"` // position of the stage, counted from 0
	Hash    string       `json:"hash"`
	Root    string       `json:"root"`
	Path    []MerkleStep `json:"path"` // sibling hashes, from the leaf upwards
	Receipt Receipt      `json:"receipt"`
}

// FailuresAnswer counts run-DAGs by outcome.
type FailuresAnswer struct {
	IndexedTreeSize
	Total uint64         `json:"total"`
	Rows  []OutcomeCount `json:"rows"`
	// Step is the length of a period in seconds. Step and Periods are absent unless the request has
	// periods=true.
	Step    uint64          `json:"step,omitempty"`
	Periods []FailurePeriod `json:"periods,omitempty"`
}

// FailurePeriod counts the run-DAGs that were recorded from Since up to but not including Until.
type FailurePeriod struct {
	Since Time           `json:"since"`
	Until Time           `json:"until"`
	Total uint64         `json:"total"`
	Rows  []OutcomeCount `json:"rows"`
}

// OutcomeCount is the number of run-DAGs with a given outcome.
type OutcomeCount struct {
	FailureStage *string `json:"failure_stage"` // nil if the runs did not fail; "unknown" if they were posted as stages without inputs
	AuditMode    *string `json:"audit_mode"`
	Shape        *string `json:"shape"`
	Count        uint64  `json:"count"`
}
