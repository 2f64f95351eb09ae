// Package fields defines the fields of each kind of event, their formats, and how they are written.
package fields

import "colophon/ledger/record/pyjson"

// Fields holds the members of an event's record that are specific to its kind. Each kind has a type
// that implements Fields. Package record fills in the fields when it decodes a request, and package
// event fills them in when it reads an event.
type Fields interface {
	// Check returns an error if the fields are not valid in an event of this kind because one of
	// them is missing, too long, or in the wrong format. A member of the wrong type counts as
	// missing.
	Check() error
	// Append writes an event's record, which consists of these fields and the members in c.
	Append(w *pyjson.Builder, c *CommonFields)
}

// FieldsWithHashes is implemented by the fields of each kind that has effective hashes (spec:
// Effective hashes).
type FieldsWithHashes interface {
	Fields
	AppendHashes(w *pyjson.Builder) // writes the effective hashes to w in the same order as in the event
}

// MaxEntryBytes is the maximum length of a log entry in bytes, as specified by tlog-tiles. An entry
// is a 32-byte chain link followed by the event body.
const MaxEntryBytes = 65535

// These constants limit the length of texts in an event, in bytes of UTF-8. Labels are limited by
// record.Limits, and content is limited only by the size of the request.
const (
	MaxNameBytes      = 1024 // maximum length of most texts, such as run_id, subject, model, and passage names
	MaxShortTextBytes = 128  // maximum length of short texts, such as stage names, topics, and producer IDs
	// MaxTimestampBytes is the maximum length of a timestamp.
	MaxTimestampBytes = 64
	// MaxSourceIDBytes is the maximum length of a source's ID, both in its registration and in
	// citations.
	MaxSourceIDBytes = MaxNameBytes
	// MaxTitleBytes is the maximum length of the title of a source.
	MaxTitleBytes = MaxNameBytes
	// MaxReasonBytes is the maximum length of a reason.
	MaxReasonBytes = 4096
)
