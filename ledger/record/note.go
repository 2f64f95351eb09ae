package record

import (
	"colophon/ledger/record/fields"
	"colophon/ledger/record/strict"
)

var noteNames = append([]string{"topic", "text"}, originNames...)

// ParseNote decodes the body `{"topic", "text"?, "original_actor"?, "timestamp"?}` of a note on the
// record at seq. If the body is not valid, the error is a *strict.Error.
func ParseNote(seq uint64, body []byte) (*Action, error) {
	f := &fields.Note{RecordSeq: seq}
	return parseAction(KindNote, f, body, func(o strict.Object) { readNote(o, f) }, noteNames...)
}

func readNote(o strict.Object, f *fields.Note) {
	f.Topic, f.Text, f.ActionOrigin = o.RequiredText("topic", fields.MaxTopicBytes), o.Text("text", fields.MaxNoteTextBytes), ReadActionOrigin(o)
	if f.Topic != nil && len(f.Topic) == 0 {
		o.ReportInvalid("topic", "must not be empty; give the topic of the note, for example \"review\"")
	}
}
