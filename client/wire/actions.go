package wire

// ActionOrigin states which person or service acted in another system, and when. The event also
// contains the actor and the time that the ledger recorded.
type ActionOrigin struct {
	OriginalActor string `json:"original_actor,omitempty"` // the person or service, at most 1,024 bytes
	Timestamp     string `json:"timestamp,omitempty"`      // time of the action, in RFC 3339 with any offset
}

// StateChange sets the state of a record.
type StateChange struct {
	State  State  `json:"state"`  // new state of the record
	Reason string `json:"reason"` // 1 to 4,096 bytes; the event contains it
	ActionOrigin
}

// StateChangeLine is a [StateChange] as a line of a batch.
type StateChangeLine struct {
	RecordSeq uint64 `json:"record_seq"` // seq of the record to change; it must already be in the ledger
	StateChange
}

// RecordKind implements [Record].
func (StateChangeLine) RecordKind() Kind { return KindRecordStateChanged }

// RecordRunID implements [Record].
func (StateChangeLine) RecordRunID() string { return "" }

// ValidationLine is a [PathValidation] as a line of a batch.
type ValidationLine struct {
	Project string `json:"project"`
	PathID  string `json:"path_id"` // the path_id that the ledger assigned
	PathValidation
}

// RecordKind implements [Record].
func (ValidationLine) RecordKind() Kind { return KindPathValidated }

// RecordRunID implements [Record].
func (ValidationLine) RecordRunID() string { return "" }

// NoteLine is a [Note] as a line of a batch.
type NoteLine struct {
	RecordSeq uint64 `json:"record_seq"` // seq of the record that the note is about; it must already be in the ledger
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
	Seqs   []uint64       `json:"seqs,omitempty"`    // 1 to 1,000 seqs of records, in any order
	DryRun *bool          `json:"dry_run,omitempty"` // nil or true means that nothing changes
	// AsOf is the tree size at which the records are selected. It is required if DryRun is false; otherwise, nil
	// means the current size.
	AsOf *uint64 `json:"as_of,omitempty"`
}

// StateChangeResult is the result of a [StateChangeRequest]. In a dry run, it describes what the
// request would do.
type StateChangeResult struct {
	AsOf         uint64     `json:"as_of"`              // tree size at which the records were selected
	DryRun       bool       `json:"dry_run"`            // true if nothing was changed
	Records      uint64     `json:"records"`            // number of records that change; each change is one event
	AlreadySet   uint64     `json:"already"`            // number of records that already had the state
	WithoutState uint64     `json:"without_state"`      // number of selected events whose kind has no state
	FirstSeqs    []uint64   `json:"first_seqs"`         // seqs of the first records that change, at most 100, ascending
	Receipts     []*Receipt `json:"receipts,omitempty"` // receipts of the first changes, at most 100; nil in a dry run
}

// Note is a remark about a record, for example from a review or a step of a workflow.
type Note struct {
	Topic string  `json:"topic"`          // subject of the note, such as review; 1 to 128 bytes
	Text  *string `json:"text,omitempty"` // at most 4,096 bytes; the event contains it
	ActionOrigin
}

// PathValidation states whether a path's content is correct.
type PathValidation struct {
	Validated bool    `json:"validated"`        // whether the content along the route is correct
	Reason    *string `json:"reason,omitempty"` // at most 4,096 bytes; the event contains it
	Build     *string `json:"build,omitempty"`  // nil means the build of the path's latest record
	// ContentFingerprint is the fingerprint that the path must have in the build. Nil matches any
	// fingerprint.
	ContentFingerprint *string `json:"content_fingerprint,omitempty"`
	ActionOrigin
}

// SourceRegistration registers a source. A nil ChunkHashes means that the chunks are not
// listed; an empty one means that the source has no chunks.
type SourceRegistration struct {
	ChunkHashes []string `json:"chunk_hashes,omitzero"` // hashes of all chunks of the source, each once
	Title       *string  `json:"title,omitempty"`       // at most 1,024 bytes; the event contains it
	Reason      *string  `json:"reason,omitempty"`      // at most 4,096 bytes; the event contains it
}

// SourceRevocation revokes a source.
type SourceRevocation struct {
	Reason *string `json:"reason,omitempty"` // at most 4,096 bytes; the event contains it
}

// ContentRedaction withdraws the content of one record.
type ContentRedaction struct {
	Reason string `json:"reason"` // 1 to 4,096 bytes; the event contains it permanently
}

// RedactionRequest withdraws the content of the records that either Filter or Seqs selects. It erases
// content only if DryRun is false and AsOf is the value that the dry run returned.
type RedactionRequest struct {
	Reason string `json:"reason"` // 1 to 4,096 bytes; each event contains it permanently
	// Filter holds parameters of GET /records, keyed by name. Values are strings or integers. A nil map
	// means no filter.
	Filter map[string]any `json:"filter,omitempty"`
	Seqs   []uint64       `json:"seqs,omitempty"`    // seqs of at most 1,000 records, in any order
	DryRun *bool          `json:"dry_run,omitempty"` // the default is true
	AsOf   *uint64        `json:"as_of,omitempty"`   // tree size of the selection; required if DryRun is false
}

// RedactionResult is the result of a [RedactionRequest]. In a dry run, it describes what the
// request would do.
type RedactionResult struct {
	AsOf            uint64       `json:"as_of"`            // tree size at which the records were selected
	DryRun          bool         `json:"dry_run"`          // true for a dry run, which erases nothing
	Records         uint64       `json:"records"`          // number of records whose content is withdrawn
	AlreadyRedacted uint64       `json:"already_redacted"` // number of records that were already redacted
	WithoutContent  uint64       `json:"without_content"`  // number of events that refer to no content
	Erased          ContentCount `json:"erased"`           // content that no other record needs
	Kept            ContentCount `json:"kept"`             // content that other records need
	NeededBy        uint64       `json:"needed_by"`        // number of other records that need kept content
	// FirstSeqs lists the seqs of the first newly redacted records, and FirstAlreadyRedacted the first
	// of the records that were already redacted. Each list has at most 100 elements and is in ascending
	// order.
	FirstSeqs            []uint64         `json:"first_seqs"`
	FirstAlreadyRedacted []RedactedRecord `json:"first_already_redacted"`
	Events               *uint64          `json:"events,omitempty"` // number of events written; nil in a dry run
	// Receipts holds the receipts of the first events only, at most 100. To get all events, list those
	// of kind content_redacted.
	Receipts []*Receipt `json:"receipts,omitempty"`
}

// ContentCount counts pieces of content and their bytes.
type ContentCount struct {
	Pieces uint64 `json:"pieces"` // each piece counts once, even if several records need it
	Bytes  uint64 `json:"bytes"`  // total length of the pieces
}

// RedactedRecord is a record and the event that withdrew its content.
type RedactedRecord struct {
	Seq        uint64 `json:"seq"`         // seq of the record
	RedactedBy uint64 `json:"redacted_by"` // seq of the event that withdrew the content
}
