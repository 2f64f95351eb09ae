package wire

import "encoding/json"

// DriftCause is the reason why the outputs of two runs differ, or the finding that they do not
// differ. It is one of the constants below or, if only one variable differs, the name of that
// variable, such as "model".
type DriftCause string

// Causes that are not names of variables.
const (
	DriftCauseIdentical     DriftCause = "identical"      // neither the variables nor the outputs differ
	DriftCauseConfounded    DriftCause = "confounded"     // several variables differ
	DriftCauseNoEffect      DriftCause = "no_effect"      // variables differ, but the outputs do not
	DriftCauseModelInternal DriftCause = "model_internal" // only the model's digest and the output differ
	DriftCauseStochastic    DriftCause = "stochastic"     // only the output differs; seed and model digests are known
	// DriftCauseStochasticOrModelInternal means that only the output differs, and that a seed was
	// given but a model digest is unknown.
	DriftCauseStochasticOrModelInternal DriftCause = "stochastic_or_model_internal"
	// DriftCauseUnseeded means that only the output differs, and no seed was given.
	DriftCauseUnseeded   DriftCause = "unseeded"
	DriftCauseEvidence   DriftCause = "evidence"   // only the citation sets of the two runs and the output differ
	DriftCauseIncomplete DriftCause = "incomplete" // a record has no output to compare
)

// RunPage is one page of a list of runs, of groups of runs or of pairs of runs.
type RunPage[T any] struct {
	Page[T]
	// Incomplete lists the parts, such as seed, that IPC records of the ledger lack. It is set only if
	// there are no rows.
	Incomplete []string `json:"incomplete,omitempty"`
}

// Generation identifies an IPC record, which is one generation of text by a model, recorded as part
// of an interpretive provenance chain (IPC).
type Generation struct {
	RowMembers
	RunID      *string   `json:"run_id"`          // run to which the record belongs; nil if the record names none
	Time       Time      `json:"time"`            // time at which the ledger recorded the generation
	IPCID      *string   `json:"ipc_id"`          // hash of the inputs, such as model and seed; nil if unknown
	OutputHash *string   `json:"output_hash"`     // hash of the generated text; nil if unknown
	Names      *RunNames `json:"names,omitempty"` // set only if the request has names=true
}

// ComparedRecord is record A or record B of a [DriftAttribution].
type ComparedRecord struct {
	Generation
	State      State    `json:"state"`
	Mismatches []string `json:"mismatches"` // names of the hashes for which the record's claim was wrong
}

// VariableDifference is a variable that differs between two runs.
type VariableDifference struct {
	Variable string `json:"variable"` // name of the variable, such as model, seed or input
	// A and B are the values in the two runs: a hash, a text, a number, or null if the run has none. If
	// Variable is evidence, they are the seqs of two citation sets.
	A json.RawMessage `json:"a"`
	B json.RawMessage `json:"b"`
	// Members holds the payload members that differ, sorted by Pointer. It is set only if Variable is
	// input and the ledger has member digests for both payloads.
	Members []MemberDifference `json:"members,omitempty"`
}

// MemberDifference is a member of the payload that differs between two runs.
type MemberDifference struct {
	Pointer string `json:"pointer"` // JSON pointer of the member in the payload, such as /policy_hash
	// A and B are the digests of the member's values in the two payloads. A digest is nil if its
	// payload lacks the member.
	A *string `json:"a"`
	B *string `json:"b"`
	// AValue and BValue are the values as they were posted. A value is present only if the request has
	// text=true, the caller is allowed to read content, the payload has the member, and neither payload
	// is erased or too long.
	AValue json.RawMessage `json:"a_value,omitempty"`
	BValue json.RawMessage `json:"b_value,omitempty"`
}

// DriftAttribution describes what caused the change from record A to record B.
type DriftAttribution struct {
	IndexedTreeSize
	IPCChange
	// Text describes how much the texts changed. It is present only if the request has text=true and the
	// caller is allowed to read content.
	Text *RunTextChanges `json:"text,omitempty"`
}

// IPCChange describes how two IPC records, A and B, differ, and what caused the difference.
type IPCChange struct {
	A             ComparedRecord       `json:"a"`
	B             ComparedRecord       `json:"b"`
	Cause         DriftCause           `json:"cause"`          // why the outputs differ, or that they do not
	OutputChanged bool                 `json:"output_changed"` // whether the output hashes differ
	Differences   []VariableDifference `json:"differences"`    // the variables that differ
	Summary       string               `json:"says"`           // the change in one sentence
}

// RunGroup describes the runs that share a value. Seq is the seq of the last of these runs.
type RunGroup struct {
	RowMembers
	// By is what the runs have in common: ipc_id, input, input_hash, system_prompt_hash, output_hash,
	// model, ollama_build_hash or label:<name>.
	By              string        `json:"by"`
	Value           string        `json:"value"`            // value that the runs have in common
	Name            *ReadableName `json:"name,omitempty"`   // name of Value; set only if the request has names=true
	Runs            uint64        `json:"runs"`             // number of runs in the group
	DistinctOutputs uint64        `json:"distinct_outputs"` // number of different outputs
	Stability       Decimal       `json:"stability"`        // fraction of the runs that have the most common output
	EntropyBits     Decimal       `json:"entropy_bits"`     // Shannon entropy of the distribution of outputs, in bits
	// Flips is the number of runs whose output differs from that of the previous run in the group.
	Flips        uint64 `json:"flips"`
	FirstRunSeq  uint64 `json:"first_seq"`  // seq of the group's earliest run
	FirstRunTime Time   `json:"first_time"` // time at which the ledger recorded the earliest run
	LastRunSeq   uint64 `json:"last_seq"`   // seq of the group's latest run
	LastRunTime  Time   `json:"last_time"`  // time at which the ledger recorded the latest run
}

// GroupAnswer is a group with one page of its outputs and one page of its runs.
type GroupAnswer struct {
	Page[GroupMember]
	Group RunGroup `json:"group"` // describes the group as a whole
	// Outputs holds one row for each different output. The output that first appeared last comes first.
	Outputs     []GroupOutput `json:"outputs"`
	OutputsNext string        `json:"outputs_next,omitempty"` // cursor of the next page of outputs
}

// GroupOutput is one of a group's outputs. Seq is the seq of the first run that produced it.
type GroupOutput struct {
	RowMembers
	OutputHash string        `json:"output_hash"`    // hash of the generated text
	Name       *ReadableName `json:"name,omitempty"` // name of the output; set only if the request has names=true
	Runs       uint64        `json:"runs"`           // number of the group's runs that have this output
	Share      Decimal       `json:"share"`          // fraction of the group's runs that have this output
}

// GroupMember is one run of a group.
type GroupMember struct {
	Generation
	State State `json:"state"`
}

// TimelineRow describes a run and what caused the change since the previous run. PreviousSeq, Cause
// and OutputChanged are nil in the first row.
type TimelineRow struct {
	Generation
	State         State                `json:"state"`
	PreviousSeq   *uint64              `json:"against"`        // seq of the previous run
	Cause         *DriftCause          `json:"cause"`          // why the output changed, or that it did not
	OutputChanged *bool                `json:"output_changed"` // whether the two output hashes differ
	Differences   []VariableDifference `json:"differences"`    // changes since the previous run; empty in the first row
	// Text describes how much the output changed since the previous run. It is set under the same
	// conditions as DriftAttribution.Text.
	Text *TextChange `json:"text,omitempty"`
}

// EffectsAnswer contains one page of the pairs of runs that differ in only one variable, and
// totals. The totals cover all pairs unless Partial is true.
type EffectsAnswer struct {
	RunPage[EffectPair]
	Variable  string `json:"variable"`  // the variable in which paired runs differ, such as model
	Pairs     uint64 `json:"pairs"`     // number of pairs of runs
	Changed   uint64 `json:"changed"`   // number of pairs whose outputs differ
	Unchanged uint64 `json:"unchanged"` // number of pairs whose outputs are equal
	// Partial is true if the list has more pairs than Pairs, Changed, and Unchanged cover. This can
	// happen only if the request asked for partial totals (totals=first).
	Partial bool `json:"sample,omitempty"`
	// Text summarises how much the outputs changed. It is set only on the first page, under the same
	// conditions as DriftAttribution.Text.
	Text *EffectTextSummary `json:"text,omitempty"`
}

// EffectPair is a pair of runs that differ in only one variable, which has one value in run A and
// another in run B. Seq is the seq of run A.
type EffectPair struct {
	Seq           uint64     `json:"seq"`
	A             Generation `json:"a"`
	B             Generation `json:"b"`
	OutputChanged bool       `json:"output_changed"` // whether the outputs differ
	// Text describes how much the output changed from A to B. It is set under the same conditions as
	// DriftAttribution.Text.
	Text *TextChange `json:"text,omitempty"`
}

// Rerun describes a repeated generation, to be compared with a record. Output or OutputHash is
// required. For any other omitted member except Environment, the server uses the record's value.
type Rerun struct {
	Seq              uint64          `json:"seq"`                      // seq of the IPC record that was repeated
	Payload          json.RawMessage `json:"payload,omitempty"`        // a JSON object
	PayloadSchema    string          `json:"payload_schema,omitempty"` // axis-payload-1; "" means the record's schema
	InputHash        string          `json:"input_hash,omitempty"`     // claimed hash of the payload
	SystemPrompt     *string         `json:"system_prompt,omitempty"`
	SystemPromptHash string          `json:"system_prompt_hash,omitempty"` // claimed hash of the system prompt
	Output           *string         `json:"output,omitempty"`             // the text that the re-run generated
	OutputHash       string          `json:"output_hash,omitempty"`        // claimed hash of the output
	Model            *string         `json:"model,omitempty"`              // name of the model
	Temperature      *float64        `json:"temperature,omitempty"`        // sampling temperature
	MaxTokens        json.Number     `json:"max_tokens,omitempty"`         // maximum length of the output, in tokens
	// Seed is an integer of any size. By default, the seed in Payload applies if Payload has one and
	// differs from the record's payload. Otherwise the record's seed applies.
	Seed        json.Number  `json:"seed,omitempty"`
	Environment *Environment `json:"environment,omitempty"` // nil means unknown
}

// Reproduction is the result of comparing a re-run with the record that it repeats.
type Reproduction struct {
	IndexedTreeSize
	Record        Generation           `json:"record"`         // the record that was repeated
	IPCID         HashPair             `json:"ipc_id"`         // hashes of the inputs, such as model and seed
	OutputHash    HashPair             `json:"output_hash"`    // hashes of the generated texts
	Cause         DriftCause           `json:"cause"`          // why the outputs differ, or that they do not
	OutputChanged bool                 `json:"output_changed"` // whether the output hashes differ
	Differences   []VariableDifference `json:"differences"`    // variables that differ in the re-run
	Summary       string               `json:"says"`           // the result in one sentence
}

// HashPair holds a hash of the record and the same hash of the re-run. Match is false if either is nil.
type HashPair struct {
	Recorded *string `json:"recorded"` // hash of the record; nil if unknown
	Rerun    *string `json:"rerun"`    // hash of the re-run; nil if unknown
	Match    bool    `json:"match"`    // true if both hashes are known and equal
}

// RunValue is one temperature, one value of max_tokens or one label name that occurs in the runs.
// Seq is the seq of the first run with this value.
type RunValue struct {
	RowMembers
	Value string `json:"value"` // a number in JSON syntax, or the name of a label
}

// Rates counts the records of a ledger in consecutive periods.
type Rates struct {
	IndexedTreeSize
	Step uint64       `json:"step"` // length of a period, in seconds
	Rows []RatePeriod `json:"rows"` // oldest first, without gaps
}

// RatePeriod counts what was recorded from Since up to but not including Until.
type RatePeriod struct {
	Since      Time    `json:"since"`               // start of the period, inclusive
	Until      Time    `json:"until"`               // end of the period, exclusive
	FirstSeq   *uint64 `json:"first_seq,omitempty"` // seq of the first event; nil if there is none
	Events     uint64  `json:"events"`              // number of events of any kind
	Mismatches uint64  `json:"mismatches"`          // number of records with a wrong claim
	NoOutput   uint64  `json:"no_output"`           // number of IPC records without an output, which cannot be compared
	// Drift counts runs by the cause of their change from the previous live run with the same input. A
	// cause without runs is omitted.
	Drift map[DriftCause]uint64 `json:"drift"`
}
