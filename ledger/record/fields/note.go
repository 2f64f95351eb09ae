package fields

import "colophon/ledger/record/pyjson"

// Note holds the fields of a note event: a statement about a record, such as a review or a step of
// a workflow (spec: Notes).
type Note struct {
	RecordSeq uint64
	Topic     []byte
	Text      []byte // nil if there is none
	OriginalAction
}

// MaxTopic and MaxNoteText are the maximum lengths of a note's topic and text, in bytes.
const (
	MaxTopic    = MaxShortText
	MaxNoteText = MaxReason
)

func (f *Note) appendRequest(w *pyjson.Builder) {
	f.OriginalAction.append(w)
	w.Uint("record_seq", f.RecordSeq)
	w.Text("text", f.Text)
	w.Text("topic", f.Topic)
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
	c.filled("topic", f.Topic, MaxTopic)
	c.text("text", f.Text, MaxNoteText)
	f.OriginalAction.check(&c)
	return c.err
}
