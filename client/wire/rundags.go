package wire

import "encoding/json"

// RunRow is a run-DAG in answers.
type RunRow struct {
	Row
	RunID *string `json:"run_id"`
	Time  Time    `json:"time"`
	Root  string  `json:"root"`
	Shape string  `json:"shape"`
}

// RunComparison compares run-DAG B with A.
type RunComparison struct {
	View
	A                   RunRow   `json:"a"`
	B                   RunRow   `json:"b"`
	FirstDivergingStage *string  `json:"first_diverging_stage"` // nil if no stage differs; outcome: rejected against answered
	DifferingStages     []string `json:"differing_stages"`
	OnlyInA             []string `json:"only_in_a"`
	OnlyInB             []string `json:"only_in_b"`
	DifferingDimensions []string `json:"differing_dimensions"` // of the cache key; nil if one run has no dimensions
	Cause               RunCause `json:"cause"`
	Says                string   `json:"says"` // the same in words
}

// DivergenceRow compares a run-DAG with the live one before it. Against is nil in the first row.
type DivergenceRow struct {
	RunRow
	State               State   `json:"state"`
	Against             *uint64 `json:"against"`
	FirstDivergingStage *string `json:"first_diverging_stage"`
	// Cause and DifferingDimensions are nil in the first row.
	Cause               *RunCause `json:"cause"`
	DifferingDimensions []string  `json:"differing_dimensions"` // nil also if one run has no dimensions
}

// RunCause is why two run-DAGs diverge: the one dimension of the cache key that differs, or one of
// the causes below.
type RunCause string

// The causes other than a dimension.
const (
	RunIdentical   RunCause = "identical"    // no stage differs
	RunConfounded  RunCause = "confounded"   // several dimensions differ
	RunNoDimension RunCause = "no_dimension" // stages differ, and all dimensions agree
	RunUnknown     RunCause = "unknown"      // stages differ, and at least one run has no dimensions
)

// CachedRun is the live run-DAG of a cache key.
type CachedRun struct {
	View
	RunRow
	CacheKey        string             `json:"cache_key"`
	CacheDimensions map[string]*string `json:"cache_dimensions"` // nil: too long for the event
	QuestionHash    *string            `json:"question_hash"`
	FailureStage    *string            `json:"failure_stage"`
	AuditMode       *string            `json:"audit_mode"`
	Others          uint64             `json:"others"` // further live runs of the same key and dimensions
}

// CacheKey is a computed cache key.
type CacheKey struct {
	CacheKey string `json:"cache_key"`
}

// QuestionHash is the computed hash of a question.
type QuestionHash struct {
	QuestionHash string `json:"question_hash"`
	QuestionMode string `json:"question_mode"` // strict or equivalence_class
}

// QuestionRequest is a question to hash.
type QuestionRequest struct {
	Question     string `json:"question"`
	QuestionMode string `json:"question_mode,omitempty"` // equivalence_class (default) or strict
}

// LookupRequest asks for the live run-DAG of a question. The question_hash of the dimensions is
// ignored.
type LookupRequest struct {
	Question        string          `json:"question"`
	CacheDimensions json.RawMessage `json:"cache_dimensions"`
}

// Lookup is the live run-DAG of a question and of dimensions, with its answer.
type Lookup struct {
	CachedRun
	QuestionMode string          `json:"question_mode"`         // strict or equivalence_class: the one that found it
	AnswerText   json.RawMessage `json:"answer_text"`           // a JSON string, which may hold lone surrogates, or null
	RedactedBy   *uint64         `json:"redacted_by,omitempty"` // current, regardless of as_of
}

// ListedRun is a run-DAG in a list.
type ListedRun struct {
	RunRow
	State                State    `json:"state"`
	FailureStage         *string  `json:"failure_stage"` // nil: it did not fail; unknown: stages without inputs
	AuditMode            *string  `json:"audit_mode"`
	VerifierMethod       *string  `json:"verifier_method"`
	QuestionHash         *string  `json:"question_hash"`
	ModelProfileHash     *string  `json:"model_profile_hash"`
	GovernancePolicyHash *string  `json:"governance_policy_hash"`
	Inconsistent         []string `json:"inconsistent"` // rules that its verdict breaks
}

// StageProof proves a stage of a run-DAG.
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
}

// FailureCount is the number of run-DAGs with one outcome.
type FailureCount struct {
	FailureStage *string `json:"failure_stage"` // nil: it did not fail; unknown: stages without inputs
	AuditMode    *string `json:"audit_mode"`
	Shape        *string `json:"shape"`
	Count        uint64  `json:"count"`
}
