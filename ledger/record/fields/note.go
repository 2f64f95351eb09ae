package fields

import "colophon/ledger/record/pyjson"

// Note holds the fields of a note event: a statement about a record, such as a review or a step of
// a workflow (spec: Notes).
type Note struct {
	RecordSeq uint64 // seq of the record that the note is about
	Topic     []byte // what the note is about, such as "review"
	Text      []byte // nil if there is none
	ActionOrigin
}

// MaxTopicBytes and MaxNoteTextBytes are the maximum lengths of a note's topic and text, in bytes.
const (
	MaxTopicBytes    = MaxShortTextBytes
	MaxNoteTextBytes = MaxReasonBytes
)

func (f *Note) appendRequest(w *pyjson.Builder) {
	f.ActionOrigin.append(w)
	w.AddUint("record_seq", f.RecordSeq)
	w.AddText("text", f.Text)
	w.AddText("topic", f.Topic)
}

// Append implements Fields.
func (f *Note) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginObject()
	c.appendIdentity(w)
	f.appendRequest(w)
	w.EndObject()
}

// Check implements Fields.
func (f *Note) Check() error {
	var c forms
	c.filled("topic", f.Topic, MaxTopicBytes)
	c.text("text", f.Text, MaxNoteTextBytes)
	f.ActionOrigin.check(&c)
	return c.err
}
