package wire

import "encoding/json"

// RunRow describes a run-DAG in a response.
type RunRow struct {
	Row
	RunID *string `json:"run_id"`
	Time  Time    `json:"time"`
	Root  string  `json:"root"`
	Shape string  `json:"shape"`
}

// RunComparison is the response to GET /run-dags/compare.
type RunComparison struct {
	View
	RunDAGChange
}

// RunDAGChange describes how run-DAG B differs from run-DAG A.
type RunDAGChange struct {
	A                   RunRow   `json:"a"`
	B                   RunRow   `json:"b"`
	FirstDivergingStage *string  `json:"first_diverging_stage"` // nil if no stage differs; "outcome" if one run was rejected and the other was answered
	DifferingStages     []string `json:"differing_stages"`
	OnlyInA             []string `json:"only_in_a"`
	OnlyInB             []string `json:"only_in_b"`
	DifferingDimensions []string `json:"differing_dimensions"` // dimensions of the cache key that differ; nil if one of the runs has no dimensions
	Cause               RunCause `json:"cause"`
	Says                string   `json:"says"` // the difference in one sentence
}

// DivergenceRow compares a run-DAG with the previous live one. Against is nil in the first
// row.
type DivergenceRow struct {
	RunRow
	State               State   `json:"state"`
	Against             *uint64 `json:"against"`
	FirstDivergingStage *string `json:"first_diverging_stage"`
	// Cause and DifferingDimensions are nil in the first row.
	Cause               *RunCause `json:"cause"`
	DifferingDimensions []string  `json:"differing_dimensions"` // also nil if one run has no dimensions
}

// RunCause is the reason why two run-DAGs diverge: the only dimension of the cache key that differs, or one
// of the causes below.
type RunCause string

// Causes that are not names of dimensions.
const (
	RunIdentical   RunCause = "identical"    // no stage differs
	RunConfounded  RunCause = "confounded"   // several dimensions differ
	RunNoDimension RunCause = "no_dimension" // stages differ, but all dimensions agree
	RunUnknown     RunCause = "unknown"      // stages differ, and at least one run has no dimensions
)

// CachedRun is the live run-DAG with a cache key.
type CachedRun struct {
	View
	RunRow
	CacheKey        string             `json:"cache_key"`
	CacheDimensions map[string]*string `json:"cache_dimensions"` // nil if the texts are too long for the event
	QuestionHash    *string            `json:"question_hash"`
	FailureStage    *string            `json:"failure_stage"`
	AuditMode       *string            `json:"audit_mode"`
	Others          uint64             `json:"others"` // number of other live run-DAGs with the same key and dimensions
}

// CacheKey is the response to POST /v1/compute/cache-key.
type CacheKey struct {
	CacheKey string `json:"cache_key"`
}

// QuestionHash is the response to POST /v1/compute/question-hash.
type QuestionHash struct {
	QuestionHash string `json:"question_hash"`
	QuestionMode string `json:"question_mode"` // strict or equivalence_class
}

// QuestionRequest is a question whose hash the server must compute.
type QuestionRequest struct {
	Question     string `json:"question"`
	QuestionMode string `json:"question_mode,omitempty"` // equivalence_class (default) or strict
}

// LookupRequest selects the live run-DAG with the given question and cache dimensions. The server ignores
// question_hash in the dimensions.
type LookupRequest struct {
	Question        string          `json:"question"`
	CacheDimensions json.RawMessage `json:"cache_dimensions"`
}

// Lookup is the run-DAG that a [LookupRequest] selects, with its answer.
type Lookup struct {
	CachedRun
	QuestionMode string          `json:"question_mode"`         // the mode that found the run: strict or equivalence_class
	AnswerText   json.RawMessage `json:"answer_text"`           // null, or a JSON string, which can contain lone surrogates
	RedactedBy   *uint64         `json:"redacted_by,omitempty"` // seq of the event that erased the content; always the current value, regardless of AsOf
}

// ListedRun is a run-DAG in a list.
type ListedRun struct {
	RunRow
	State                State    `json:"state"`
	FailureStage         *string  `json:"failure_stage"` // nil if the run did not fail; "unknown" if it was posted as stages without inputs
	AuditMode            *string  `json:"audit_mode"`
	VerifierMethod       *string  `json:"verifier_method"`
	QuestionHash         *string  `json:"question_hash"`
	ModelProfileHash     *string  `json:"model_profile_hash"`
	GovernancePolicyHash *string  `json:"governance_policy_hash"`
	Inconsistent         []string `json:"inconsistent"`   // names of the rules that the run-DAG's verdict breaks
	Name                 *Name    `json:"name,omitempty"` // names of the question; only with names=true
}

// RunGroup describes the run-DAGs that have a hash in common. Its Seq is that of the last of them.
type RunGroup struct {
	Row
	By              string    `json:"by"`
	Value           string    `json:"value"`
	Name            *Name     `json:"name,omitempty"` // only with names=true
	Runs            uint64    `json:"runs"`
	DistinctAnswers uint64    `json:"distinct_answers"` // runs without an answer are not counted
	Verdicts        []Verdict `json:"verdicts"`
	FirstSeq        uint64    `json:"first_seq"`
	FirstTime       Time      `json:"first_time"`
	LastSeq         uint64    `json:"last_seq"`
	LastTime        Time      `json:"last_time"`
}

// Verdict is the number of run-DAGs of a group that have the same outcome.
type Verdict struct {
	FailureStage *string `json:"failure_stage"` // nil if the runs did not fail; "unknown" if they were posted as stages without inputs
	AuditMode    *string `json:"audit_mode"`
	Shape        *string `json:"shape"`
	Runs         uint64  `json:"runs"`
	Share        Decimal `json:"share"` // share of the group's runs
}

// StageProof proves one stage of a run-DAG.
type StageProof struct {
	View
	Seq     uint64     `json:"seq"`
	Stage   string     `json:"stage"`
	Index   uint64     `json:"index"` // from 0
	Hash    string     `json:"hash"`
	Root    string     `json:"root"`
	Path    []PathStep `json:"path"` // from the leaf upwards
	Receipt Receipt    `json:"receipt"`
}

// FailureCounts counts run-DAGs by outcome.
type FailureCounts struct {
	View
	Total uint64         `json:"total"`
	Rows  []FailureCount `json:"rows"`
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
	Rows  []FailureCount `json:"rows"`
}

// FailureCount is the number of run-DAGs that have the same outcome.
type FailureCount struct {
	FailureStage *string `json:"failure_stage"` // nil if the runs did not fail; "unknown" if they were posted as stages without inputs
	AuditMode    *string `json:"audit_mode"`
	Shape        *string `json:"shape"`
	Count        uint64  `json:"count"`
}
