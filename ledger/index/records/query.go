package records

import (
	"context"
	"errors"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/storage"
)

// MaxValues bounds the values of a Filter.
const MaxValues = 8

// Filter chooses records (spec: Requests); its zero value chooses all.
type Filter struct {
	Kind         record.Kind  // one of record.Kinds or ContentRedacted; empty: every one of the former
	State        record.State // of an IPC record or a run-DAG; empty: any, and every kind
	Values       []Value      // that a record must have, all of them; at most MaxValues
	index.Bounds              // of the time that a record was recorded or occurred at
	Bodies       bool         // wanted, of the records
}

// Value is something that records are found by. The names are run_id, subject,
// project, chunk_hash, source_id, model, producer, flag, mismatch, those of effective
// hashes, and label: and stage: with the name of a label or a run-DAG's stage behind.
type Value struct{ Name, Text string }

// ProducerSeq is the value of a record that its producer has that number for.
func ProducerSeq(producer string, seq uint64) Value {
	return Value{producerSeqName, string(producerSeqText([]byte(producer), seq))}
}

// valueIDs are what the records that have all values are posted under.
func (q *Filter) valueIDs() []rowstore.Identity {
	var ids []rowstore.Identity
	for _, value := range q.Values {
		ids = append(ids, rowstore.Identify([]byte(value.Name), []byte(value.Text)))
	}
	return ids
}

// Record is a record as a list shows it, or an event that redacts content.
type Record struct {
	Seq       uint64
	Kind      record.Kind
	Time      time.Time // when it was recorded
	EventHash storage.Hash
	State     record.State // empty where the kind has none
	RunID     *string
	Occurred  *string // its timestamp, as it came
	// Hashes (the effective ones) and Labels are objects in canonical JSON.
	Hashes, Labels []byte
	Mismatches     []string // the fields whose claims did not hold
	Body           []byte   // of the event; nil unless it is wanted
}

// List lists records in the order of the log, newest first. A page may have
// fewer rows than there are, even none, where few events pass the filter: it ends
// when it has touched its share of keys, and next says where to go on.
func List(ctx context.Context, v *index.View, q Filter, p index.Page) (rows []Record, next []byte, err error) {
	from, below, err := v.SeqsIn(q.Bounds)
	if err != nil {
		return nil, nil, err
	}
	if p.After != nil {
		after, err := rowstore.DecodeSeq(p.After)
		if err != nil || after > v.Size() {
			return nil, nil, index.ErrPosition
		}
		below = min(below, after)
	}
	ids := q.valueIDs()
	if q.Kind != "" {
		ids = append(ids, rowstore.Identify([]byte(kindName), []byte(q.Kind)))
	}
	if q.State != "" && q.State != record.Live {
		ids = append(ids, rowstore.Identify([]byte(stateName), []byte(q.State)))
	}
	search := newSearch(v, ids)
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
		if below > from && b.Spent(len(rows)) {
			return rows, rowstore.AppendSeq(nil, below), nil
		}
	}
	return rows, nil, nil
}

// appendRecord appends the record that is event seq, if it is one, or is of the kind
// that is wanted, and has the state that is.
func appendRecord(ctx context.Context, v *index.View, rows []Record, q *Filter, seq uint64) ([]Record, error) {
	var state string
	if q.State != "" {
		var err error
		if state, err = State(v, seq); err != nil || state != string(q.State) {
			return rows, err
		}
	}
	one, err := Read(ctx, v, q, seq)
	if err != nil || !one.Kind.IsRecord() && one.Kind != q.Kind || q.State != "" && !one.Kind.HasState() {
		return rows, err
	}
	if state == "" && one.Kind.HasState() {
		if state, err = State(v, seq); err != nil {
			return rows, err
		}
	}
	one.State = record.State(state)
	return append(rows, one), nil
}

// Read is what the event at seq says, without its state.
func Read(ctx context.Context, v *index.View, q *Filter, seq uint64) (Record, error) {
	if !q.Bodies {
		if r, rest, found := cachedRecord(v, seq); found {
			return r.listed(rest), ctx.Err()
		}
	}
	entry, e, err := v.Entry(ctx, seq)
	if err != nil {
		return Record{}, err
	}
	one := recordOf(&e)
	switch {
	case q.Bodies:
		one.Body = entry[len(e.Prev):]
	case e.Kind == record.IPCRecord && v.Cache().Enabled():
		decoded := ipcRecordOf(&e, e.IPC())
		cacheRecord(v, seq, len(entry), &decoded, &one)
	}
	return one, nil
}

// recordOf is what an event says, without its state and its body.
func recordOf(e *event.Event) Record {
	one := Record{
		Seq: e.Seq, Kind: e.Kind, Time: e.Time, EventHash: e.Hash,
		RunID: textOf(e.Detail.Member("run_id")), Occurred: textOf(e.Detail.Member("timestamp")),
		Hashes: objectOf(e.Detail.Member("hashes")), Labels: objectOf(e.Detail.Member("labels")),
	}
	for name, check := range e.Checks.Members() {
		if string(check.Member("result").Text()) == string(record.Mismatch) {
			one.Mismatches = append(one.Mismatches, string(name.Text()))
		}
	}
	return one
}

// textOf is a string of its own; nil where there is none.
func textOf(v pyjson.Value) *string {
	if v.Kind() != pyjson.String {
		return nil
	}
	text := string(v.Text())
	return &text
}

// objectOf is an object as it stands, empty where there is none.
func objectOf(v pyjson.Value) []byte {
	if v.Kind() != pyjson.Object {
		return []byte("{}")
	}
	return v.Raw()
}
