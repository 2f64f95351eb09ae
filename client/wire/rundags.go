package wire

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
	Says                string   `json:"says"`                 // the same in words
}

// DivergenceRow compares a run-DAG with the live one before it. Against is nil in the first row.
type DivergenceRow struct {
	RunRow
	State               State   `json:"state"`
	Against             *uint64 `json:"against"`
	FirstDivergingStage *string `json:"first_diverging_stage"`
}

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
