package index

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// posting is one value that an event is found by.
type posting struct {
	id rowstore.Identity
	// family is that of the name, if the runs of the value are a group (4.1): then
	// the rows carry what is known of them. Zero if they are not.
	family rowstore.Identity
	// recurs: a value that many records have. Their versions share keys.
	recurs bool
}

// Names of values, beside those of hash fields. A label's is labelPrefix and its
// own name, a run-DAG stage's stagePrefix and its own.
const (
	kindName        = "kind"
	runIDName       = "run_id"
	labelPrefix     = "label:"
	producerName    = "producer"     // the id
	producerSeqName = "producer_seq" // what producerSeqText makes of it
)

// producerSeqText is the sequence number that a producer has for a record, with the
// producer's id before it.
func producerSeqText(producer []byte, seq uint64) []byte {
	return rowstore.AppendSeq(bytes.Clone(producer), seq)
}

// grouping reports whether IPC runs are grouped by the values of a name.
func grouping(name string) bool {
	switch name {
	case "ipc_id", "input_hash", "system_prompt_hash", "output_hash", "model":
		return true
	}
	return strings.HasPrefix(name, labelPrefix)
}

// postingOf is what an event with that value is found by.
func postingOf(name string, value []byte) posting {
	return posting{id: rowstore.Identify([]byte(name), value), family: familyOf(name)}
}

// flags of a posting's version; what stands behind it is for grouped postings
// only.
const (
	// isRecord: the version is of the record itself. Otherwise a change of its
	// state made it, and it is no posting.
	isRecord = 1 << iota
	// isRun: the record is an IPC run.
	isRun
)

// values gathers what a record is found by. They hold until the next record's are
// gathered.
type values struct {
	postings []posting
	known    *identities // may be nil
}

// collect begins a record, with the values that every kind can have.
func (v *values) collect(known *identities, e *event.Event) {
	v.postings, v.known = v.postings[:0], known
	v.addRecurring(kindName, []byte(e.Kind))
	v.add(runIDName, e.RunID())
	// These are Labels and Hashes: they are ranged over here, where that allocates nothing.
	for name, value := range e.Detail.Member("labels").Members() {
		v.add(labelPrefix+string(name.Text()), value.Text())
	}
	for name, value := range e.Detail.Member("hashes").Members() {
		v.add(string(name.Text()), value.Text())
	}
}

// add adds a value; a nil value is none.
func (v *values) add(name string, value []byte) {
	if value != nil {
		v.postings = append(v.postings, v.known.posting(len(v.postings), name, value))
	}
}

// settle leaves the values to another goroutine, which may add more.
func (v *values) settle() { v.known = nil }

// addRecurring is add for a value that many records have.
func (v *values) addRecurring(name string, value []byte) {
	if value != nil {
		v.add(name, value)
		v.postings[len(v.postings)-1].recurs = true
	}
}

// of is the posting of a family that a record has one value of.
func (v *values) of(family rowstore.Identity) posting {
	for _, p := range v.postings {
		if p.family == family {
			return p
		}
	}
	return posting{}
}

// grouped yields the values whose runs are groups, each once.
func (v *values) grouped() iter.Seq[posting] {
	return func(yield func(posting) bool) {
		for i, p := range v.postings {
			if p.family != (rowstore.Identity{}) && !slices.Contains(v.postings[:i], p) && !yield(p) {
				return
			}
		}
	}
}

// identities knows what was identified last, place by place: most records have at most
// places what the one before had there.
type identities struct{ last []identified }

// identified is a value under its name.
type identified struct {
	name  string
	value []byte
	posting
}

// posting is postingOf for a value at a place, which is at most one behind the last.
func (k *identities) posting(at int, name string, value []byte) posting {
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
		last.posting = postingOf(last.name, value)
	}
	return last.posting
}

// collectIPC begins an IPC record.
func (v *values) collectIPC(known *identities, e *event.Event, ipc *event.IPC) {
	v.collect(known, e)
	v.add(modelName, ipc.Model)
}

// writePostings writes a row for every value collected, once, what the record is
// to its producer, and when it occurred. run is nil unless the record is an IPC run.
func (f *fold) writePostings(e *drawn, run *run) {
	f.producer(&e.Event)
	f.occurred(&e.Event)
	flags := []byte{isRecord}
	for i, p := range e.values.postings {
		switch {
		case slices.Contains(e.values.postings[:i], p):
		case p.family != (rowstore.Identity{}):
			f.group(e.Seq, p, run)
		case p.recurs:
			f.rows.Put(postings, p.id[:], e.Seq, flags)
		default:
			f.rows.Write(postings, p.id[:], e.Seq, flags)
		}
	}
}
