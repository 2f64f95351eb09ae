// Package fields defines the contents of an event of each kind: the fields of its record, their
// required formats, and how they are written.
package fields

import "colophon/ledger/record/pyjson"

// Fields holds the members of an event's record that are specific to its kind. Each kind has one
// type. Package record sets them when it decodes a request, and package event when it reads an
// event.
type Fields interface {
	// Check returns an error if no event of the kind can have these fields, because one is missing,
	// too long, or in the wrong format. A member of the wrong type counts as missing.
	Check() error
	// Append writes the record of the event.
	Append(w *pyjson.Builder, c *Common)
}

// Hashed is implemented by the fields of each kind with effective hashes (spec: Effective hashes).
type Hashed interface {
	Fields
	AppendHashes(w *pyjson.Builder) // writes the hashes in the order of the event
}

// MaxEntry is the largest log entry in bytes (tlog-tiles): 32 bytes of chain
// link and the event body.
const MaxEntry = 65535

// Limits of texts in an event, in bytes of UTF-8. The bounds of labels are in record.Limits.
// Content is bounded only by the size of the request.
const (
	MaxName  = 1024 // run_id, subject, project, build, model, source_id, section, a passage of a route, …
	MaxShort = 128  // name of a stage, a mode, a producer's id, a hash_version
	// MaxTimestamp is the largest length of a timestamp.
	MaxTimestamp = 64
	// MaxSourceID is the largest length of the id of a source, in its registration and in citations.
	MaxSourceID = MaxName
	// MaxTitle is the largest length of the title of a source.
	MaxTitle = MaxName
	// MaxReason is the largest length of a reason.
	MaxReason = 4096
)
