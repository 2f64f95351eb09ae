package record

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// NoteFields are the fields of a note event: a statement about a record, such as a review or a
// step of a workflow (spec: Notes).
type NoteFields struct {
	RecordSeq uint64
	Topic     []byte
	Text      []byte // nil if there is none
	Origin
}

// Bounds of a note, in bytes.
const (
	maxTopic = MaxShort
	maxText  = MaxReason
)

var noteNames = append([]string{"topic", "text"}, originNames...)

// ParseNote decodes `{"topic", "text"?, "original_actor"?, "timestamp"?}` for the record that is
// event seq. The error is a *strict.Error.
func ParseNote(seq uint64, body []byte) (*Verb, error) {
	f := &NoteFields{RecordSeq: seq}
	return parseVerb(Note, f, body, f.read, noteNames...)
}

func (f *NoteFields) read(o strict.Object) {
	f.Topic, f.Text, f.Origin = o.RequiredText("topic", maxTopic), o.Text("text", maxText), ReadOrigin(o)
	if f.Topic != nil && len(f.Topic) == 0 {
		o.Invalid("topic", "must not be empty; give the topic of the note, such as review")
	}
}

func (f *NoteFields) appendRequest(w *pyjson.Builder) {
	f.Origin.append(w)
	appendNumber(w, "record_seq", f.RecordSeq)
	w.Text("text", f.Text)
	w.Text("topic", f.Topic)
}

func (f *NoteFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendRequest(w)
	w.Close()
}

// Check implements Fields.
func (f *NoteFields) Check() error {
	var c forms
	c.filled("topic", f.Topic, maxTopic)
	c.text("text", f.Text, maxText)
	f.Origin.check(&c)
	return c.err
}
