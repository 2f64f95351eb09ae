package index

import (
	"colophon/ledger/event"
	"colophon/ledger/record"
)

// Event is an event of the log and the values that preparers derive from it alone. It is valid only
// until the fold reuses it for another event.
type Event struct {
	event.Event
	EntryBytes int // length of the event's entry
	// The decoded details of the record. Only the field for the event's kind is set. The other
	// fields keep values from earlier events.
	IPC  event.IPC
	DAG  event.DAG
	Set  event.CitationSet
	Path event.Path

	decoder  event.Decoder
	prepared []any
}

// decode decodes an entry. The entry must not change while the event is in use.
func (e *Event) decode(entry []byte) (err error) {
	e.EntryBytes = len(entry)
	if e.Event, err = e.decoder.Decode(entry); err != nil {
		return err
	}
	switch e.Kind {
	case record.KindIPCRecord:
		e.IPC = e.Event.IPC()
	case record.KindRunDAG:
		e.DAG = e.Event.DAG()
	case record.KindCitationSet:
		e.Set = e.Event.CitationSet()
	case record.KindPathFingerprint:
		e.Path = e.Event.Path()
	}
	return nil
}
