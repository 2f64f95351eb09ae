package records

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// Posting is one value by which an event can be found.
type Posting struct {
	ID rowstore.Identity // identity of the value's name and the value
	// Grouping is the identity of the value's name if runs are grouped by that name (spec: Runs), and
	// zero otherwise. If it is not zero, the posting's versions contain the state of the group.
	Grouping rowstore.Identity
	// recurs is true if many records have this value. Several versions then share one key.
	recurs bool
}

// IsLabel reports whether the posting is for the value of a label.
func (p *Posting) IsLabel() bool {
	switch p.Grouping {
	case rowstore.Identity{}, IPCIDGrouping, InputGrouping, InputHashGrouping, SystemPromptHashGrouping, OutputHashGrouping, ModelGrouping, OllamaBuildHashGrouping:
		return false
	}
	return true
}

// IsOutsideCombination reports whether runs are grouped by the value although no combination
// of the six variables contains it (spec: Effects of a variable).
func (p *Posting) IsOutsideCombination() bool {
	return p.Grouping == OllamaBuildHashGrouping || p.IsLabel()
}

// Names of the values by which records can be found, in addition to the names of hash fields. The
// index stores a posting for each value of a record, under one of these names. A query selects records
// by the same names, in Value.Name.
const (
	kindName      = "kind"
	projectName   = "project"
	buildName     = "build"
	NameSubject   = "subject"    // what a citation set is about
	NameTopic     = "topic"      // topic of a note
	NameRecordSeq = "record_seq" // seq of the record that a note refers to, in decimal
	// NameFlag is the name of these values: "mismatch", "inconsistent", "unregistered_source", and
	// "other_base". Each marks records that have a certain problem.
	NameFlag        = "flag"
	NameIncomplete  = "incomplete" // a part that an IPC record lacks
	runIDName       = "run_id"
	LabelPrefix     = "label:"       // followed by the name of a label
	producerName    = "producer"     // the producer's id
	producerSeqName = "producer_seq" // see producerSeqText
)

// producerSeqText returns a producer's id followed by the number that it gave to a record.
func producerSeqText(producer []byte, seq uint64) []byte {
	return rowstore.AppendSeq(bytes.Clone(producer), seq)
}

// FormsRunGroups reports whether IPC runs are grouped by values with the given name.
func FormsRunGroups(name string) bool {
	switch name {
	case NameIPCID, NameInput, NameInputHash, NameSystemPromptHash, NameOutputHash, NameModel, NameOllamaBuildHash:
		return true
	}
	return strings.HasPrefix(name, LabelPrefix)
}

// postingOf returns the posting of a value.
func postingOf(name string, value []byte) Posting {
	return Posting{ID: rowstore.IdentityOf([]byte(name), value), Grouping: GroupingOf(name)}
}

// Flags in the first byte of a version in PostingsDimension. Only versions of groups have more
// bytes.
const (
	// FlagRecord means that the record itself wrote the version. If it is not set, a state change
	// wrote the version, and lists of records leave it out.
	FlagRecord = 1 << iota
	// FlagRun means that the record is an IPC run.
	FlagRun
)

// ValueCollector collects the values of one record. They are valid until the values of the next record
// are collected.
type ValueCollector struct {
	list       []Posting
	identities *PostingCache // may be nil
}

// collect drops the values of the previous record and adds the values that records of any kind can
// have.
func (v *ValueCollector) collect(identities *PostingCache, e *event.Event) {
	v.list, v.identities = v.list[:0], identities
	v.AddRecurring(kindName, []byte(e.Kind))
	v.Add(runIDName, e.RunID())
	// These loops repeat the code of e.Labels and e.EffectiveHashes, because calling those would
	// allocate.
	for name, value := range e.Record.Member("labels").Members() {
		v.Add(LabelPrefix+string(name.Text()), value.Text())
	}
	for name, value := range e.Record.Member("hashes").Members() {
		if string(name.Text()) != seedlessHash { // records with this hash are found under NameInput instead
			v.Add(string(name.Text()), value.Text())
		}
	}
}

// Add adds a value unless it is nil.
func (v *ValueCollector) Add(name string, value []byte) {
	if value != nil {
		v.list = append(v.list, v.identities.Posting(len(v.list), name, value))
	}
}

// detach stops using the identity cache, so that another goroutine can add values.
func (v *ValueCollector) detach() { v.identities = nil }

// AddRecurring is like Add, but for a value that many records have.
func (v *ValueCollector) AddRecurring(name string, value []byte) {
	if value != nil {
		v.Add(name, value)
		v.list[len(v.list)-1].recurs = true
	}
}

// PostingOf returns the posting that has the given Grouping, or the zero Posting if the record has
// none. The record must have at most one posting with that Grouping.
func (v *ValueCollector) PostingOf(grouping rowstore.Identity) Posting {
	for _, p := range v.list {
		if p.Grouping == grouping {
			return p
		}
	}
	return Posting{}
}

// GroupPostings yields the distinct postings of the values by which runs are grouped.
func (v *ValueCollector) GroupPostings() iter.Seq[Posting] {
	return func(yield func(Posting) bool) {
		for i, p := range v.list {
			if p.Grouping != (rowstore.Identity{}) && !slices.Contains(v.list[:i], p) && !yield(p) {
				return
			}
		}
	}
}

// PostingCache caches the last posting computed for each position in a list of values.
// Consecutive records usually have the same value at the same position.
type PostingCache struct{ last []identified }

// identified is a value with its name and posting.
type identified struct {
	name  string
	value []byte
	Posting
}

// Posting returns the posting of the value with the given name. at is the index of the value in the
// list that the cache was made for, and must not exceed the number of cached positions.
func (k *PostingCache) Posting(at int, name string, value []byte) Posting {
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

// CollectIPC drops the values of the previous record, and adds those of an IPC record.
func (v *ValueCollector) CollectIPC(identities *PostingCache, e *event.Event, ipc *event.IPC) {
	v.collect(identities, e)
	v.Add(NameModel, ipc.Model)
	v.Add(NameInput, ipc.InputIdentity())
	v.Add(NameOllamaBuildHash, ipc.OllamaBuildHash)
	for part := range ipc.MissingParts() {
		v.AddRecurring(NameIncomplete, []byte(part))
	}
}

// addProducer adds the record's producer, and the sequence number that the producer gave the
// record.
func (v *ValueCollector) addProducer(e *event.Event) {
	if id, number := e.Producer(); id != nil {
		v.AddRecurring(producerName, id)
		v.Add(producerSeqName, producerSeqText(id, number))
	}
}

// Runs are grouped by the values with these names (spec: Runs), except seedlessHash, and by
// the values of each label.
const (
	NameIPCID            = "ipc_id"
	NameInput            = "input" // name of the value that identifies a run's input: event.IPC.InputIdentity
	NameInputHash        = "input_hash"
	NameSystemPromptHash = "system_prompt_hash"
	seedlessHash         = "seedless_input_hash"
	NameOutputHash       = "output_hash"
	NameModel            = "model"             // name of the model
	NameOllamaBuildHash  = "ollama_build_hash" // build of the model's runtime
)

// IPCIDGrouping and the variables below it are the identities that GroupingOf returns for the names
// above.
var (
	IPCIDGrouping            = rowstore.IdentityOf([]byte(NameIPCID))
	InputGrouping            = rowstore.IdentityOf([]byte(NameInput))
	InputHashGrouping        = rowstore.IdentityOf([]byte(NameInputHash))
	SystemPromptHashGrouping = rowstore.IdentityOf([]byte(NameSystemPromptHash))
	OutputHashGrouping       = rowstore.IdentityOf([]byte(NameOutputHash))
	ModelGrouping            = rowstore.IdentityOf([]byte(NameModel))
	OllamaBuildHashGrouping  = rowstore.IdentityOf([]byte(NameOllamaBuildHash))
)

// GroupingOf returns the identity of a name by which runs are grouped, or the zero Identity for any
// other name.
func GroupingOf(name string) rowstore.Identity {
	switch name {
	case NameIPCID:
		return IPCIDGrouping
	case NameInput:
		return InputGrouping
	case NameInputHash:
		return InputHashGrouping
	case NameSystemPromptHash:
		return SystemPromptHashGrouping
	case NameOutputHash:
		return OutputHashGrouping
	case NameModel:
		return ModelGrouping
	case NameOllamaBuildHash:
		return OllamaBuildHashGrouping
	}
	if FormsRunGroups(name) {
		return rowstore.IdentityOf([]byte(name))
	}
	return rowstore.Identity{}
}
