package records

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/storage"
)

// MaxFilterValues is the maximum number of values in a Filter.
const MaxFilterValues = 8

// Filter selects records (spec: Requests). The zero Filter selects all records.
type Filter struct {
	Kind            record.Kind  // one of record.RecordKinds, KindContentRedacted, or KindNote; empty means all of record.RecordKinds
	State           record.State // if not empty, only IPC records and run-DAGs in this state are selected
	Values          []Value      // a selected record has all of these values; there must be at most MaxFilterValues
	index.TimeRange              // when records were recorded (for List) or occurred (for ListByOccurrence)
	IncludeBodies   bool         // also return event bodies
}

// Value is a named value by which records can be found (spec: Lists of records). Each effective
// hash has its own name. The name of a label begins with "label:", and the name of a run-DAG stage
// begins with "stage:".
type Value struct{ Name, Text string }

// ProducerSeqValue returns a Value that selects records by their producer and by the sequence
// number seq that the producer gave them.
func ProducerSeqValue(producer string, seq uint64) Value {
	return Value{producerSeqName, string(producerSeqText([]byte(producer), seq))}
}

// valueIDs returns the Identity of each value in the filter. Each Identity is a row in
// PostingsDimension.
func (q *Filter) valueIDs() []rowstore.Identity {
	var ids []rowstore.Identity
	for _, value := range q.Values {
		ids = append(ids, rowstore.IdentityOf([]byte(value.Name), []byte(value.Text)))
	}
	return ids
}

// Record describes one row of a list: a record, a redaction, or a note.
type Record struct {
	Seq          uint64
	Kind         record.Kind
	Time         time.Time    // time at which it was recorded
	EventHash    storage.Hash // event_hash of its event
	State        record.State // empty if the kind has no state
	RunID        *string      // nil if there is none
	Timestamp    *string      // the record's timestamp, as it was sent; nil if there is none
	Hashes       []byte       // effective hashes, as an object in canonical JSON
	Labels       []byte       // labels, as an object in canonical JSON
	Mismatches   []string     // names of the checks whose result is a mismatch
	BrokenRules  []string     // rules that the verdict breaks
	MissingParts []string     // parts that an IPC record lacks (spec: Receipts)
	Body         []byte       // body of the event; nil unless Filter.IncludeBodies is set
}

// List returns a page of records, newest first. A page ends when its budget is spent. If few events
// match the filter, a page can therefore have fewer rows than its limit, or none. next is nil only
// on the last page.
func List(ctx context.Context, v *index.View, q Filter, p index.PageRequest) (rows []Record, next []byte, err error) {
	from, below, err := v.SeqRange(q.TimeRange)
	if err != nil {
		return nil, nil, err
	}
	if p.After != nil {
		after, err := rowstore.DecodeSeq(p.After)
		if err != nil || after > v.Size() {
			return nil, nil, index.ErrInvalidPosition
		}
		below = min(below, after)
	}
	search := newSearch(v, q.searched())
	defer func() { err = errors.Join(err, search.close()) }()
	for b := v.Budget(p); below > from; {
		var found bool
		if below, found, err = search.step(below); err != nil {
			return nil, nil, err
		}
		if found && below >= from {
			if rows, err = appendRecord(ctx, v, rows, &q, below); err != nil {
				return nil, nil, err
			}
		}
		if below > from && b.IsSpent(len(rows)) {
			return rows, rowstore.AppendSeq(nil, below), nil
		}
	}
	return rows, nil, nil
}

// searched returns the identities of the rows in PostingsDimension that a search for the filter
// must intersect.
func (q *Filter) searched() []rowstore.Identity {
	ids := q.valueIDs()
	if q.Kind != "" {
		ids = append(ids, rowstore.IdentityOf([]byte(kindName), []byte(q.Kind)))
	}
	if q.State != "" && q.State != record.StateLive {
		ids = append(ids, rowstore.IdentityOf([]byte(stateName), []byte(q.State)))
	}
	return ids
}

// ListExceeds reports whether List would read more than limit events for a filter. It does not read
// any events itself.
func ListExceeds(v *index.View, q Filter, limit int) (more bool, err error) {
	from, below, err := v.SeqRange(q.TimeRange)
	if err != nil {
		return false, err
	}
	search := newSearch(v, q.searched())
	defer func() { err = errors.Join(err, search.close()) }()
	for events := 0; below > from; {
		var found bool
		if below, found, err = search.step(below); err != nil {
			return false, err
		}
		if found && below >= from {
			events++
		}
		if events > limit {
			return true, nil
		}
	}
	return false, nil
}

// SeqsOfKind yields the seqs of the records of the given kind, newest first.
func SeqsOfKind(v *index.View, kind record.Kind) iter.Seq2[uint64, error] {
	id := rowstore.IdentityOf([]byte(kindName), []byte(kind))
	return rowstore.VersionSeqs(v.VersionsNewestFirst(PostingsDimension, id[:], v.Size()))
}

// appendRecord appends the record at seq if it has the kind and state that the filter selects.
func appendRecord(ctx context.Context, v *index.View, rows []Record, q *Filter, seq uint64) ([]Record, error) {
	var state string
	if q.State != "" {
		var err error
		if state, err = StateOf(v, seq); err != nil || state != string(q.State) {
			return rows, err
		}
	}
	one, err := Read(ctx, v, q, seq)
	if err != nil || !one.Kind.IsRecord() && one.Kind != q.Kind || q.State != "" && !one.Kind.HasState() {
		return rows, err
	}
	if state == "" && one.Kind.HasState() {
		if state, err = StateOf(v, seq); err != nil {
			return rows, err
		}
	}
	one.State = record.State(state)
	return append(rows, one), nil
}

// Read returns the event at seq as a record, without its state.
func Read(ctx context.Context, v *index.View, q *Filter, seq uint64) (Record, error) {
	if !q.IncludeBodies {
		if r, rest, found := cachedRecord(v, seq); found {
			return r.listed(rest), ctx.Err()
		}
	}
	entry, e, err := v.EntryAndEvent(ctx, seq)
	if err != nil {
		return Record{}, err
	}
	one := recordOf(&e)
	switch {
	case q.IncludeBodies:
		one.Body = entry[len(e.PrevHash):]
	case e.Kind == record.KindIPCRecord && v.EventCache().Enabled():
		decoded := ipcRecordOf(&e, e.IPC())
		cacheRecord(v, seq, len(entry), &decoded, &one)
	}
	return one, nil
}

// recordOf returns an event as a record, without State and Body.
func recordOf(e *event.Event) Record {
	one := cachedFieldsOf(e)
	one.RunID = index.StringPointer(e.RunID())
	if e.Kind == record.KindIPCRecord {
		ipc := e.IPC()
		one.MissingParts = slices.Collect(ipc.MissingParts())
	}
	return one
}

// cachedFieldsOf is like recordOf, but leaves out the fields that can be derived from an IPCRecord.
func cachedFieldsOf(e *event.Event) Record {
	one := Record{Seq: e.Seq, Kind: e.Kind, Time: e.Time, EventHash: e.Hash, Hashes: []byte("{}"), Labels: []byte("{}")}
	for name, value := range e.Record.Members() {
		switch string(name.Text()) {
		case "hashes":
			one.Hashes = objectOf(value)
		case "labels":
			one.Labels = objectOf(value)
		case "timestamp":
			one.Timestamp = index.StringPointer(value.Text())
		}
	}
	for name, check := range e.Checks.Members() {
		if string(check.Member("result").Text()) == string(record.ResultMismatch) {
			one.Mismatches = append(one.Mismatches, string(name.Text()))
		}
		if rule, is := bytes.CutPrefix(name.Text(), []byte(rules.VerdictCheckPrefix)); is {
			one.BrokenRules = append(one.BrokenRules, string(rule))
		}
	}
	return one
}

// objectOf returns a JSON object unchanged, or an empty object if the value is not an object.
func objectOf(v pyjson.Value) []byte {
	if v.Kind() != pyjson.Object {
		return []byte("{}")
	}
	return v.Raw()
}
