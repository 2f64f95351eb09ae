package record

import (
	"colophon/ledger/record/fields"
	"colophon/ledger/record/strict"
)

var noteNames = append([]string{"topic", "text"}, originNames...)

// ParseNote decodes `{"topic", "text"?, "original_actor"?, "timestamp"?}` for the record that is
// event seq. The error is a *strict.Error.
func ParseNote(seq uint64, body []byte) (*Verb, error) {
	f := &fields.Note{RecordSeq: seq}
	return parseVerb(Note, f, body, func(o strict.Object) { readNote(o, f) }, noteNames...)
}

func readNote(o strict.Object, f *fields.Note) {
	f.Topic, f.Text, f.Origin = o.RequiredText("topic", fields.MaxTopic), o.Text("text", fields.MaxText), ReadOrigin(o)
	if f.Topic != nil && len(f.Topic) == 0 {
		o.Invalid("topic", "must not be empty; give the topic of the note, such as review")
	}
}
