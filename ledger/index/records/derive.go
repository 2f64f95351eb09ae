package records

import (
	"context"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Deriver keeps the values that records are found by, when they occurred, and their
// states.
type Deriver struct {
	*index.Fold
	grouping  Grouper
	observers []StateObserver

	identities Identities // of the goroutine that prepares
	encoded    []byte     // scratch of that one
	value      []byte     // scratch
}

// Grouper writes the postings whose runs are groups: they are versions of these.
type Grouper interface {
	// Begin is called before any posting of a record is written.
	Begin(ctx context.Context, e *index.Event) error
	// Group writes the version that the record makes of one of its groups.
	Group(e *index.Event, p Posting)
}

// StateObserver changes what follows from the state of a record.
type StateObserver interface {
	// Restate is called before anything of the change is written.
	StateChanged(ctx context.Context, c StateChange) error
}

// StateChange is a change of a record's state to another.
type StateChange struct {
	Event, Target *event.Event
	From, To      string
}

// GroupBy has the versions of groups written by another deriver.
func (f *Deriver) GroupBy(g Grouper) { f.grouping = g }

// ObserveStates has a deriver hear of changes of state.
func (f *Deriver) ObserveStates(r StateObserver) { f.observers = append(f.observers, r) }

// Derive implements Deriver.
func (f *Deriver) Derive(ctx context.Context, e *index.Event) error {
	switch {
	case e.Kind.IsRecord():
		return f.writePostings(ctx, e)
	case e.Kind == record.RecordStateChanged:
		return f.stateChanged(ctx, &e.Event)
	case e.Kind == record.ContentRedacted:
		f.redacted(&e.Event)
	}
	return nil
}

// Prepare implements Preparer: it finds what a record is found by, but for what depends on
// other events, and keeps what an IPC record says: mostly late ones are asked for.
func (f *Deriver) Prepare(e *index.Event) {
	v := index.Prepared[Values](e)
	switch e.Kind {
	case record.IPCRecord:
		v.CollectIPC(&f.identities, &e.Event, &e.IPC)
	case record.RunDAG:
		v.collect(&f.identities, &e.Event)
		for _, stage := range e.DAG.Stages {
			v.Add(counters.StagePrefix+string(stage.Name), stage.Hash)
		}
	case record.CitationSet:
		v.collect(&f.identities, &e.Event)
		v.Add(Subject, e.Set.Subject)
	case record.PathFingerprint:
		v.collect(&f.identities, &e.Event)
		v.AddRecurring(projectName, e.Path.Project)
		v.AddRecurring(buildName, e.Path.Build)
	default: // no record
		return
	}
	v.addProducer(&e.Event)
	v.addMismatches(&e.Event)
	v.detach()
	if e.Kind == record.IPCRecord && f.Cache.Enabled() {
		decoded, listed := ipcRecordOf(&e.Event, e.IPC), recordOf(&e.Event)
		f.encoded = listed.appendEncoded(decoded.appendEncoded(f.encoded[:0], e.EntryBytes), &decoded)
		f.Cache.Keep(e.Seq, f.encoded)
	}
}

// writePostings writes a row for every value of a record, once, and when it occurred.
func (f *Deriver) writePostings(ctx context.Context, e *index.Event) error {
	if err := f.grouping.Begin(ctx, e); err != nil {
		return err
	}
	f.occurred(&e.Event)
	flags := []byte{IsRecord}
	all := index.Prepared[Values](e).list
	for i, p := range all {
		switch {
		case slices.Contains(all[:i], p):
		case p.Family != (rowstore.Identity{}):
			f.grouping.Group(e, p)
		case p.recurs:
			f.Rows.Put(Postings, p.ID[:], e.Seq, flags)
		default:
			f.Rows.Write(Postings, p.ID[:], e.Seq, flags)
		}
	}
	return nil
}

// Post has an event found by a value beside those that every event of its kind has.
func Post(f *index.Fold, id rowstore.Identity, seq uint64) {
	f.Rows.Write(Postings, id[:], seq, []byte{IsRecord})
}

// redacted makes a redaction one that lists find by its kind. Nothing else follows
// from it: answers are derived from entries alone (spec: Index and as_of).
func (f *Deriver) redacted(e *event.Event) {
	Post(f.Fold, rowstore.Identify([]byte(kindName), []byte(e.Kind)), e.Seq)
}
