package wire

import "encoding/json"

// Receipt is the ledger's acknowledgement of an event. A minimal receipt lacks Event, Inclusion and
// Checkpoint, and proves nothing.
type Receipt struct {
	Ledger        string `json:"ledger"` // name of the ledger
	Seq           uint64 `json:"seq"`
	Kind          Kind   `json:"kind"`
	Time          Time   `json:"time"`
	EventHash     string `json:"event_hash"`      // SHA-256 of PrevEventHash (32 bytes) followed by Event
	PrevEventHash string `json:"prev_event_hash"` // EventHash of the log's previous event; all zeros if there is none
	LeafHash      string `json:"leaf_hash"`       // hash of the event as a leaf of the log's Merkle tree
	Hashes        Hashes `json:"hashes"`
	Checks        Checks `json:"checks"`          // results of the checks, keyed by name of the hash or rule
	Shape         string `json:"shape,omitempty"` // only for run-DAGs: quote, pointer, reject or unrecognised
	// FailureStage is set only for run-DAGs: retrieval, context or answer, or null if the run did not
	// fail or its inputs are not known.
	FailureStage Nullable[string] `json:"failure_stage,omitzero"`
	// Replayed is true if the record was already posted with this idempotency key. The receipt is then
	// for the existing event.
	Replayed bool `json:"replayed,omitempty"`
	DerivedMembers
	Imported   *ImportResult   `json:"imported,omitempty"`   // set only for a ForeignRecordLine
	Event      json.RawMessage `json:"event,omitempty"`      // the exact bytes of the hashed [Event]
	Inclusion  *InclusionProof `json:"inclusion,omitempty"`  // proof that the event is in the tree of Checkpoint
	Checkpoint string          `json:"checkpoint,omitempty"` // signed note with the size and root hash of the tree
}

// DerivedMembers holds what the ledger derived from other events. No proof covers these members, except
// Incomplete in a receipt. Without derive=true, only Incomplete can be set.
type DerivedMembers struct {
	// Drift describes the change from the previous run with the same input. It is nil if there is no
	// such run.
	Drift      *DerivedDrift `json:"drift,omitempty"`
	Incomplete []string      `json:"incomplete,omitempty"` // parts that an IPC record lacks; also without derive=true
	// Divergence describes how a run-DAG differs from the previous one with the same question hash. It
	// is nil if there is no such run-DAG.
	Divergence *DerivedDivergence `json:"divergence,omitempty"`
	PathID     string             `json:"path_id,omitempty"`  // the path_id that the ledger assigned
	Category   string             `json:"category,omitempty"` // for a path: new, modified, unchanged, or incomparable
	// Validated states whether the path is validated. It is nil if the record is not a path
	// fingerprint.
	Validated            *bool  `json:"validated,omitempty"`
	EarlierValidationSeq uint64 `json:"validated_before,omitempty"` // see [PathStatus]
	// OtherBase is true if the record names a base or branch other than that of its build.
	OtherBase bool `json:"other_base,omitempty"`
	// Conflicts lists the chunks of a citation set that are also attributed to other sources, in the
	// order of the set.
	Conflicts []DerivedChunkConflict `json:"conflicts,omitzero"`
	// UnregisteredSources lists the cited sources that were not registered when the citation set was
	// recorded. It is empty if the ledger had never registered a source by then.
	UnregisteredSources []string `json:"unregistered_sources,omitzero"`
}

// DerivedDrift describes what caused the change since the previous run with the same input.
type DerivedDrift struct {
	PreviousSeq   uint64     `json:"against"` // seq of the previous run
	Cause         DriftCause `json:"cause"`
	Variables     []string   `json:"variables"`      // names of the variables that differ, such as model
	OutputChanged bool       `json:"output_changed"` // whether the outputs differ
}

// DerivedDivergence names the first stage in which a run-DAG differs from the previous one, and what
// caused the difference.
type DerivedDivergence struct {
	PreviousSeq uint64 `json:"against"` // seq of the previous run-DAG
	// FirstDivergingStage is nil if no stage differs. It is "outcome" if one run was rejected and the
	// other was answered.
	FirstDivergingStage *string         `json:"first_diverging_stage"`
	Cause               DivergenceCause `json:"cause"`
	// DifferingDimensions lists the dimensions of the cache key that differ. It is nil if one of the
	// runs has no dimensions.
	DifferingDimensions []string `json:"differing_dimensions"`
}

// DerivedChunkConflict is a chunk of a citation set that is also attributed to other sources.
type DerivedChunkConflict struct {
	ChunkHash   string      `json:"chunk_hash"`
	SourceCount uint64      `json:"source_count"` // number of all sources, of which Sources lists at most 16
	Sources     []SourceUse `json:"sources"`      // oldest first
}

// ComputeAnswer is the response to POST /v1/compute/{kind}. It holds the hashes, the checks, and
// the record that a ledger would store if the given record were posted.
type ComputeAnswer struct {
	Checks Checks          `json:"checks"` // results of the checks, keyed by name of the hash or rule
	Hashes Hashes          `json:"hashes"` // hashes of the record, keyed by name
	Kind   Kind            `json:"kind"`
	Record json.RawMessage `json:"record"` // same format as Event.Record
}

// NestedProof proves one stage of a run-DAG or one citation of a citation set. proofs.ParseNestedProof
// parses its JSON.
type NestedProof struct {
	Format   string          `json:"format"`             // colophon-nested-proof@1
	Stage    *NestedStage    `json:"stage,omitempty"`    // nil if the proof is for a citation
	Citation *NestedCitation `json:"citation,omitempty"` // nil if the proof is for a stage
	// Text is the text that the hash of the stage or citation covers. It is a JSON string, which can
	// contain lone surrogates. The server never sends it, but the holder of a proof can add it
	// before passing the proof on.
	Text    json.RawMessage `json:"text,omitempty"`
	Receipt Receipt         `json:"receipt"` // receipt of the record
}

// NestedStage is a stage and the Merkle path from it to the root of its run-DAG.
type NestedStage struct {
	Name  string       `json:"name"`  // such as answer
	Index uint64       `json:"index"` // position of the stage in the run, counted from 0
	Hash  string       `json:"hash"`  // hash of the stage
	Root  string       `json:"root"`  // root hash of the run-DAG
	Path  []MerkleStep `json:"path"`  // sibling hashes, from the leaf upwards
}

// NestedCitation is one citation of a citation set. Index is its position, counted from 0.
type NestedCitation struct {
	Index     uint64 `json:"index"`
	ChunkHash string `json:"chunk_hash"` // sha256: followed by 64 hexadecimal digits
}

// MerkleStep is one sibling hash on the Merkle path from a stage to the root of its run-DAG.
type MerkleStep struct {
	Sibling string `json:"sibling"` // 64 hexadecimal digits
	IsLeft  bool   `json:"is_left"` // whether the sibling is the left one of the two nodes
}
