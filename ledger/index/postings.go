package index

import (
	"bytes"
	"strings"

	"colophon/ledger/event"
)

// posting is one value that an event is found by.
type posting struct {
	id identity
	// family is that of the name, if the runs of the value are a group (4.1): then
	// the rows carry what is known of them. Zero if they are not.
	family identity
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
	return appendSeq(bytes.Clone(producer), seq)
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
	return posting{id: identify([]byte(name), value), family: familyOf(name)}
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

// post collects a value of the event; a nil value is none.
func (f *fold) post(name string, value []byte) {
	if value != nil {
		f.posted = append(f.posted, postingOf(name, value))
	}
}

// postRecurring is post for a value that many records have.
func (f *fold) postRecurring(name string, value []byte) {
	if value != nil {
		f.posted = append(f.posted, posting{id: identify([]byte(name), value), recurs: true})
	}
}

// collect begins the values of a record: those that every kind can have. It writes
// nothing.
func (f *fold) collect(e *event.Event) {
	f.posted = f.posted[:0]
	f.postRecurring(kindName, []byte(e.Kind))
	f.post(runIDName, e.RunID())
	for name, value := range e.Labels() {
		f.post(labelPrefix+string(name), value)
	}
	for name, value := range e.Hashes() {
		f.post(string(name), value)
	}
}

// writePostings writes a row for every value collected, once, what the record is
// to its producer, and when it occurred. run is nil unless the record is an IPC run.
func (f *fold) writePostings(e *event.Event, run *run) {
	f.producer(e)
	f.occurred(e)
	flags := []byte{isRecord}
	for i, p := range f.posted {
		if repeated(f.posted[:i], p) {
			continue
		}
		switch {
		case p.family != (identity{}):
			f.group(e, p, run)
		case p.recurs:
			f.rows.put(postings, p.id[:], e.Seq, flags)
		default:
			f.rows.write(postings, p.id[:], e.Seq, flags)
		}
	}
}

// repeated reports whether a value stands among those before it.
func repeated(before []posting, p posting) bool {
	for _, b := range before {
		if b == p {
			return true
		}
	}
	return false
}
