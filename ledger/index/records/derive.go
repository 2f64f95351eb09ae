package records

import (
	"context"
	"slices"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// Deriver writes the postings of records, the times at which they occurred, and their states.
type Deriver struct {
	*index.Fold
	grouping  Grouper
	observers []StateObserver

	identities PostingCache // used by Prepare's goroutine
	value      []byte       // scratch
}

// Grouper writes the postings of the values by which runs are grouped. These postings are also the
// versions of the groups.
type Grouper interface {
	// BeginRecord is called before any posting of the record is written.
	BeginRecord(ctx context.Context, e *index.Event) error
	// WriteGroup writes the new version of one group, which includes the event's record.
	WriteGroup(e *index.Event, p Posting)
}

// StateObserver updates rows that depend on the state of records.
type StateObserver interface {
	// BeforeStateChange is called before the new state is written.
	BeforeStateChange(ctx context.Context, c StateChange) error
}

// StateChange describes a change of a record's state. From and To differ.
type StateChange struct {
	// Event is the state change, and Target is the event of the record whose state it changes.
	Event, Target *event.Event
	From, To      string // state of the record before and after the change
}

// SetGrouper sets the deriver that writes the versions of groups.
func (f *Deriver) SetGrouper(g Grouper) { f.grouping = g }

// AddStateObserver adds a deriver that is notified of state changes.
func (f *Deriver) AddStateObserver(r StateObserver) { f.observers = append(f.observers, r) }

// Prepare implements index.Preparer. It collects the values of a record that do not depend on other
// events.
func (f *Deriver) Prepare(e *index.Event) {
	v := index.PreparedValue[ValueCollector](e)
	switch e.Kind {
	case record.KindIPCRecord:
		v.CollectIPC(&f.identities, &e.Event, &e.IPC)
	case record.KindRunDAG:
		v.collect(&f.identities, &e.Event)
		for _, stage := range e.DAG.Stages {
			v.Add(counters.StagePrefix+string(stage.Name), stage.Hash)
		}
		v.addRun(&e.DAG)
	case record.KindCitationSet:
		v.collect(&f.identities, &e.Event)
		v.Add(NameSubject, e.CitationSet.Subject)
	case record.KindPathFingerprint:
		v.collect(&f.identities, &e.Event)
		v.AddRecurring(projectName, e.PathFingerprint.Project)
		v.AddRecurring(buildName, e.PathFingerprint.Build)
	default: // the event is not a record
		return
	}
	v.addProducer(&e.Event)
	v.addMismatches(&e.Event)
	v.detach()
}

// addRun adds the values of a run-DAG: its outcome, its documents, and its evidence.
func (v *ValueCollector) addRun(dag *event.DAG) {
	failed := drift.FailureStage(dag)
	if failed == nil {
		failed = []byte(noFailure)
	}
	v.AddRecurring("failure_stage", failed)
	v.AddRecurring("audit_mode", dag.AuditMode)
	v.AddRecurring("shape", dag.Shape)
	v.AddRecurring("verifier_method", dag.VerifierMethod)
	for _, root := range dag.DocumentRoots {
		v.Add("document_root", root)
	}
	for _, id := range dag.EvidenceIDs {
		v.Add("evidence_id", id)
	}
}

// noFailure is the failure_stage of a run-DAG that did not fail.
const noFailure = "none"

// Derive implements index.Deriver.
func (f *Deriver) Derive(ctx context.Context, e *index.Event) error {
	switch {
	case e.Kind.IsRecord():
		return f.writePostings(ctx, e)
	case e.Kind == record.KindRecordStateChanged:
		return f.stateChanged(ctx, &e.Event)
	case e.Kind == record.KindContentRedacted:
		f.redacted(&e.Event)
	case e.Kind == record.KindNote:
		f.noted(&e.Event)
	}
	return nil
}

// writePostings writes one posting for each distinct value of a record, and the time at which
// the record occurred.
func (f *Deriver) writePostings(ctx context.Context, e *index.Event) error {
	if err := f.grouping.BeginRecord(ctx, e); err != nil {
		return err
	}
	f.occurred(&e.Event)
	if e.Kind == record.KindIPCRecord {
		for part := range e.IPC.MissingParts() {
			f.Counters.Add(counters.SeriesOf(counters.MetricIncompleteRecords, part), 1)
		}
	}
	flags := []byte{FlagRecord}
	all := index.PreparedValue[ValueCollector](e).list
	for i, p := range all {
		switch {
		case slices.Contains(all[:i], p):
		case p.Grouping != (rowstore.Identity{}):
			f.grouping.WriteGroup(e, p)
		case p.recurs:
			f.Rows.Put(PostingsDimension, p.ID[:], e.Seq, flags)
		default:
			f.Rows.PutSeparately(PostingsDimension, p.ID[:], e.Seq, flags)
		}
	}
	return nil
}

// WritePosting writes a posting for a value that Prepare cannot collect, because the value follows
// from other events or the event is not a record.
func WritePosting(f *index.Fold, id rowstore.Identity, seq uint64) {
	f.Rows.PutSeparately(PostingsDimension, id[:], seq, []byte{FlagRecord})
}

// noted folds a note. It writes a posting for each value by which lists can find the note.
func (f *Deriver) noted(e *event.Event) {
	WritePosting(f.Fold, rowstore.IdentityOf([]byte(kindName), []byte(e.Kind)), e.Seq)
	if topic := e.Record.Member(NameTopic); topic.Kind() == pyjson.String {
		WritePosting(f.Fold, rowstore.IdentityOf([]byte(NameTopic), topic.Text()), e.Seq)
	}
	if seq := e.Record.Member(NameRecordSeq); seq.Kind() == pyjson.Integer {
		WritePosting(f.Fold, rowstore.IdentityOf([]byte(NameRecordSeq), seq.Raw()), e.Seq)
	}
}

// redacted writes a posting for the kind of a redaction, so that lists can select redactions. A
// redaction has no other effect on the index, because answers are derived from entries alone (spec:
// Index and as_of).
func (f *Deriver) redacted(e *event.Event) {
	WritePosting(f.Fold, rowstore.IdentityOf([]byte(kindName), []byte(e.Kind)), e.Seq)
}
