package index

import (
	"colophon/ledger/event"
	"colophon/ledger/record"
)

// Event is an event of the log and the values that preparers derive from it alone. It is valid only
// until the fold reuses it for another event.
type Event struct {
	event.Event
	// IPC, DAG, CitationSet, and PathFingerprint hold the decoded fields of the record. Only the
	// one for the event's kind is set. The others keep values from earlier events.
	IPC             event.IPC
	DAG             event.DAG
	CitationSet     event.CitationSet
	PathFingerprint event.PathFingerprint

	decoder  event.Decoder
	prepared []any
}

// decode decodes an entry. The entry must not change while the event is in use.
func (e *Event) decode(entry []byte) (err error) {
	if e.Event, err = e.decoder.Decode(entry); err != nil {
		return err
	}
	switch e.Kind {
	case record.KindIPCRecord:
		e.IPC = e.Event.IPC()
	case record.KindRunDAG:
		e.DAG = e.Event.DAG()
	case record.KindCitationSet:
		e.CitationSet = e.Event.CitationSet()
	case record.KindPathFingerprint:
		e.PathFingerprint = e.Event.PathFingerprint()
	}
	return nil
}
