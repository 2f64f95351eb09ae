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
	Incomplete []string `json:"incomplete,omitempty"` // parts that IPC records lack; set only if there are no rows
}

// Generation identifies an IPC record, which is one generation of text by a model.
type Generation struct {
	RowMembers
	RunID      *string   `json:"run_id"`
	Time       Time      `json:"time"`
	IPCID      *string   `json:"ipc_id"`
	OutputHash *string   `json:"output_hash"`
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
	Variable string          `json:"variable"`
	A        json.RawMessage `json:"a"`
	B        json.RawMessage `json:"b"`
	// Members holds the payload members that differ. It is set only if Variable is input and the ledger
	// has member digests for both payloads.
	Members []MemberDifference `json:"members,omitempty"`
}

// MemberDifference is a member of the payload that differs between two runs.
type MemberDifference struct {
	Pointer string `json:"pointer"`
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
	Cause         DriftCause           `json:"cause"`
	OutputChanged bool                 `json:"output_changed"`
	Differences   []VariableDifference `json:"differences"`
	Summary       string               `json:"says"` // the change in one sentence
}

// RunGroup describes the runs that share a value. Seq is the seq of the last of these runs.
type RunGroup struct {
	RowMembers
	By              string        `json:"by"` // what the runs have in common, such as model or input_hash
	Value           string        `json:"value"`
	Name            *ReadableName `json:"name,omitempty"` // name of Value; set only if the request has names=true
	Runs            uint64        `json:"runs"`
	DistinctOutputs uint64        `json:"distinct_outputs"`
	Stability       Decimal       `json:"stability"`    // fraction of the runs that have the most common output
	EntropyBits     Decimal       `json:"entropy_bits"` // Shannon entropy of the distribution of outputs, in bits
	Flips           uint64        `json:"flips"`        // number of runs whose output differs from that of the previous run
	FirstRunSeq     uint64        `json:"first_seq"`
	FirstRunTime    Time          `json:"first_time"`
	LastRunSeq      uint64        `json:"last_seq"`
	LastRunTime     Time          `json:"last_time"`
}

// GroupAnswer is a group with one page of its outputs and one page of its runs.
type GroupAnswer struct {
	Page[GroupMember]
	Group       RunGroup      `json:"group"`
	Outputs     []GroupOutput `json:"outputs"`
	OutputsNext string        `json:"outputs_next,omitempty"` // cursor of the next page of outputs
}

// GroupOutput is one of a group's outputs. Seq is the seq of the first run that produced it.
type GroupOutput struct {
	RowMembers
	OutputHash string        `json:"output_hash"`
	Name       *ReadableName `json:"name,omitempty"` // name of the output; set only if the request has names=true
	Runs       uint64        `json:"runs"`
	Share      Decimal       `json:"share"` // fraction of the group's runs that have this output
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
	PreviousSeq   *uint64              `json:"against"`
	Cause         *DriftCause          `json:"cause"`
	OutputChanged *bool                `json:"output_changed"`
	Differences   []VariableDifference `json:"differences"`
	Text          *TextChange          `json:"text,omitempty"` // how much the output changed since the previous run; set under the same conditions as DriftAttribution.Text
}

// EffectsAnswer contains one page of the pairs of runs that differ in only one variable, and
// totals. The totals cover all pairs unless Partial is true.
type EffectsAnswer struct {
	RunPage[EffectPair]
	Variable  string `json:"variable"`
	Pairs     uint64 `json:"pairs"`
	Changed   uint64 `json:"changed"`
	Unchanged uint64 `json:"unchanged"`
	// Partial is true if the list has more pairs than Pairs, Changed, and Unchanged cover. This can
	// happen only if the request asked for partial totals (totals=first).
	Partial bool `json:"sample,omitempty"`
	// Text summarises how much the outputs changed. It is set only on the first page.
	Text *EffectTextSummary `json:"text,omitempty"`
}

// EffectPair is a pair of runs that differ in only one variable. Seq is the seq of run A.
type EffectPair struct {
	Seq           uint64      `json:"seq"`
	A             Generation  `json:"a"`
	B             Generation  `json:"b"`
	OutputChanged bool        `json:"output_changed"`
	Text          *TextChange `json:"text,omitempty"` // how much the output changed from A to B; set under the same conditions as DriftAttribution.Text
}

// Rerun describes a repeated generation, to be compared with a record. Output or OutputHash is required.
// For any other omitted member except Environment, the server uses the record's value.
type Rerun struct {
	Seq              uint64          `json:"seq"`               // seq of the IPC record
	Payload          json.RawMessage `json:"payload,omitempty"` // a JSON object
	PayloadSchema    string          `json:"payload_schema,omitempty"`
	InputHash        string          `json:"input_hash,omitempty"`
	SystemPrompt     *string         `json:"system_prompt,omitempty"`
	SystemPromptHash string          `json:"system_prompt_hash,omitempty"`
	Output           *string         `json:"output,omitempty"`
	OutputHash       string          `json:"output_hash,omitempty"`
	Model            *string         `json:"model,omitempty"`
	Temperature      *float64        `json:"temperature,omitempty"`
	MaxTokens        json.Number     `json:"max_tokens,omitempty"`
	Seed             json.Number     `json:"seed,omitempty"`
	Environment      *Environment    `json:"environment,omitempty"`
}

// Reproduction is the result of comparing a re-run with the record that it repeats.
type Reproduction struct {
	IndexedTreeSize
	Record        Generation           `json:"record"`
	IPCID         HashPair             `json:"ipc_id"`
	OutputHash    HashPair             `json:"output_hash"`
	Cause         DriftCause           `json:"cause"`
	OutputChanged bool                 `json:"output_changed"`
	Differences   []VariableDifference `json:"differences"`
	Summary       string               `json:"says"` // the result in one sentence
}

// HashPair holds a hash of the record and the same hash of the re-run. Match is false if either is nil.
type HashPair struct {
	Recorded *string `json:"recorded"`
	Rerun    *string `json:"rerun"`
	Match    bool    `json:"match"`
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
	Since      Time    `json:"since"`
	Until      Time    `json:"until"`
	FirstSeq   *uint64 `json:"first_seq,omitempty"` // seq of the first event; nil if there is none
	Events     uint64  `json:"events"`
	Mismatches uint64  `json:"mismatches"` // number of records with a wrong claim
	NoOutput   uint64  `json:"no_output"`  // number of IPC records without an output, which cannot be compared
	// Drift counts runs by the cause of their change from the previous live run with the same input. A
	// cause without runs is omitted.
	Drift map[DriftCause]uint64 `json:"drift"`
}
