package records

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Posting is one value that an event is found by.
type Posting struct {
	ID rowstore.Identity
	// Family is that of the name, if the runs of the value are a group (spec: Runs): then
	// the rows carry what is known of them. Zero if they are not.
	Family rowstore.Identity
	// recurs: a value that many records have. Their versions share keys.
	recurs bool
}

// Names of values, beside those of hash fields. A label's is labelPrefix and its
// own name, a run-DAG stage's stagePrefix and its own.
const (
	kindName        = "kind"
	projectName     = "project"
	buildName       = "build"
	Subject         = "subject"
	Flag            = "flag"
	runIDName       = "run_id"
	LabelPrefix     = "label:"
	producerName    = "producer"     // the id
	producerSeqName = "producer_seq" // what producerSeqText makes of it
)

// producerSeqText is the sequence number that a producer has for a record, with the
// producer's id before it.
func producerSeqText(producer []byte, seq uint64) []byte {
	return rowstore.AppendSeq(bytes.Clone(producer), seq)
}

// IsGrouped reports whether IPC runs are grouped by the values of a name.
func IsGrouped(name string) bool {
	switch name {
	case "ipc_id", "input_hash", "system_prompt_hash", "output_hash", "model":
		return true
	}
	return strings.HasPrefix(name, LabelPrefix)
}

// postingOf is what an event with that value is found by.
func postingOf(name string, value []byte) Posting {
	return Posting{ID: rowstore.Identify([]byte(name), value), Family: FamilyOf(name)}
}

// flags of a posting's version; what stands behind it is for grouped postings
// only.
const (
	// IsRecord: the version is of the record itself. Otherwise a change of its
	// state made it, and it is no posting.
	IsRecord = 1 << iota
	// IsRun: the record is an IPC run.
	IsRun
)

// Values gathers what a record is found by. They hold until the next record's are
// gathered.
type Values struct {
	list       []Posting
	identities *Identities // may be nil
}

// collect begins a record, with the values that every kind can have.
func (v *Values) collect(identities *Identities, e *event.Event) {
	v.list, v.identities = v.list[:0], identities
	v.AddRecurring(kindName, []byte(e.Kind))
	v.Add(runIDName, e.RunID())
	// These are Labels and Hashes: they are ranged over here, where that allocates nothing.
	for name, value := range e.Detail.Member("labels").Members() {
		v.Add(LabelPrefix+string(name.Text()), value.Text())
	}
	for name, value := range e.Detail.Member("hashes").Members() {
		v.Add(string(name.Text()), value.Text())
	}
}

// Add adds a value; a nil value is none.
func (v *Values) Add(name string, value []byte) {
	if value != nil {
		v.list = append(v.list, v.identities.Posting(len(v.list), name, value))
	}
}

// settle leaves the values to another goroutine, which may add more.
func (v *Values) detach() { v.identities = nil }

// AddRecurring is add for a value that many records have.
func (v *Values) AddRecurring(name string, value []byte) {
	if value != nil {
		v.Add(name, value)
		v.list[len(v.list)-1].recurs = true
	}
}

// Of is the posting of a family that a record has one value of.
func (v *Values) Of(family rowstore.Identity) Posting {
	for _, p := range v.list {
		if p.Family == family {
			return p
		}
	}
	return Posting{}
}

// Grouped yields the values whose runs are groups, each once.
func (v *Values) Grouped() iter.Seq[Posting] {
	return func(yield func(Posting) bool) {
		for i, p := range v.list {
			if p.Family != (rowstore.Identity{}) && !slices.Contains(v.list[:i], p) && !yield(p) {
				return
			}
		}
	}
}

// Identities knows what was identified last, place by place: most records have at most
// places what the one before had there.
type Identities struct{ last []identified }

// identified is a value under its name.
type identified struct {
	name  string
	value []byte
	Posting
}

// Posting is postingOf for a value at a place, which is at most one behind the last.
func (k *Identities) Posting(at int, name string, value []byte) Posting {
	if k == nil {
		return postingOf(name, value)
	}
	if at == len(k.last) {
		k.last = append(k.last, identified{})
	}
	last := &k.last[at]
	if last.name != name || !bytes.Equal(last.value, value) {
		if last.name != name {
			last.name = strings.Clone(name)
		}
		last.value = append(last.value[:0], value...)
		last.Posting = postingOf(last.name, value)
	}
	return last.Posting
}

// CollectIPC begins an IPC record.
func (v *Values) CollectIPC(identities *Identities, e *event.Event, ipc *event.IPC) {
	v.collect(identities, e)
	v.Add(Model, ipc.Model)
}

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

// addProducer adds who produced a record.
func (v *Values) addProducer(e *event.Event) {
	if id, number := e.Producer(); id != nil {
		v.AddRecurring(producerName, id)
		v.Add(producerSeqName, producerSeqText(id, number))
	}
}

// The names that runs are grouped by (spec: Runs), beside labelPrefix and the name of a
// label, and the families that they make.
const (
	IPCID            = "ipc_id"
	InputHash        = "input_hash"
	SystemPromptHash = "system_prompt_hash"
	OutputHash       = "output_hash"
	Model            = "model"
)

var (
	IPCFamily    = rowstore.Identify([]byte(IPCID))
	InputFamily  = rowstore.Identify([]byte(InputHash))
	PromptFamily = rowstore.Identify([]byte(SystemPromptHash))
	OutputFamily = rowstore.Identify([]byte(OutputHash))
	ModelFamily  = rowstore.Identify([]byte(Model))
)

// FamilyOf is the identity of a name that runs are grouped by, zero of any other.
func FamilyOf(name string) rowstore.Identity {
	switch name {
	case IPCID:
		return IPCFamily
	case InputHash:
		return InputFamily
	case SystemPromptHash:
		return PromptFamily
	case OutputHash:
		return OutputFamily
	case Model:
		return ModelFamily
	}
	if IsGrouped(name) {
		return rowstore.Identify([]byte(name))
	}
	return rowstore.Identity{}
}
