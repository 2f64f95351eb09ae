package index

import (
	"colophon/ledger/event"
	"colophon/ledger/record"
)

// Event is an event with what follows from it alone, which is found ahead of the fold by
// the goroutine that reads the log. It holds until its place is used again.
type Event struct {
	event.Event
	EntryBytes int // the length of its entry
	// What it says, by its kind; of another kind, what an earlier event said.
	IPC  event.IPC
	DAG  event.DAG
	Set  event.CitationSet
	Path event.Path

	decoder  event.Decoder
	prepared []any
}

// decode decodes an entry, which must not change while the event is used.
func (e *Event) decode(entry []byte) (err error) {
	e.EntryBytes = len(entry)
	if e.Event, err = e.decoder.Decode(entry); err != nil {
		return err
	}
	switch e.Kind {
	case record.IPCRecord:
		e.IPC = e.Event.IPC()
	case record.RunDAG:
		e.DAG = e.Event.DAG()
	case record.CitationSet:
		e.Set = e.Event.CitationSet()
	case record.PathFingerprint:
		e.Path = e.Event.Path()
	}
	return nil
}
