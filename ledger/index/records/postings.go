package records

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
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
