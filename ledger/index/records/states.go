package records

import (
	"context"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// stateName is the name under which PostingsDimension lists the records whose state has changed to
// a given state. The version of such a posting is the record's seq, not the seq of the state
// change. The posting remains when the state changes again.
const stateName = "state"

// stateOf returns the state of an IPC record or run-DAG after the events folded so far. A
// record is live until an event changes its state (spec: States; Path validation; Sources;
// Redactions).
func (f *Deriver) stateOf(seq uint64) string {
	var row [8]byte
	_, value, found := f.Rows.NewestVersion(recordStates, rowstore.AppendSeq(row[:0], seq))
	return stateText(value, found)
}

// StateOf returns the state of the IPC record or run-DAG at seq as the view sees it.
func StateOf(v *index.View, seq uint64) (string, error) {
	if restated, err := anyStateChanged(v); err != nil || !restated {
		return string(record.StateLive), err
	}
	var row [8]byte
	_, value, found, err := v.NewestVersion(recordStates, rowstore.AppendSeq(row[:0], seq))
	return stateText(value, found), err
}

// anyStateChanged reports whether the state of any record has changed. In most ledgers, no state
// has changed. The check then saves looking up an absent row for each listed record, which would
// cost as much as all other work on the record.
func anyStateChanged(v *index.View) (bool, error) {
	state := index.ViewState[viewState](v)
	if state.statesChanged == nil {
		found, err := v.HasKeyWithPrefix(v.Keyspace.AppendPrefix(nil, recordStates))
		if err != nil {
			return false, err
		}
		state.statesChanged = &found
	}
	return *state.statesChanged, nil
}

func stateText(value []byte, found bool) string {
	if !found {
		return string(record.StateLive)
	}
	return counters.LabelOrOther(value, record.States[:])
}

// stateChanged folds a state change. It ignores a target that has no state, and a state that this
// build does not know.
func (f *Deriver) stateChanged(ctx context.Context, e *event.Event) error {
	change := e.StateChange()
	to := counters.LabelOrOther(change.State, record.States[:])
	target, err := f.target(ctx, e.Seq, change.RecordSeq)
	if err != nil || target == nil || to == counters.OtherLabel {
		return err
	}
	from := f.stateOf(target.Seq)
	if from != to {
		for _, r := range f.observers {
			if err := r.BeforeStateChange(ctx, StateChange{e, target, from, to}); err != nil {
				return err
			}
		}
		row := rowstore.AppendSeq(nil, target.Seq)
		f.Rows.Put(recordStates, row, e.Seq, []byte(to))
		id := rowstore.IdentityOf([]byte(stateName), []byte(to))
		f.Rows.PutSeparately(PostingsDimension, id[:], target.Seq, []byte{FlagRecord})
	}
	f.Counters.Add(counters.SeriesOf(counters.MetricStateChanges, to), 1)
	return nil
}

// target returns the record whose state the event at seq changes. named is the seq that the event
// gives for the record. target returns nil if there is no such record before the event or if the
// record has no state.
func (f *Deriver) target(ctx context.Context, seq, named uint64) (*event.Event, error) {
	if named >= seq {
		return nil, nil
	}
	entry, err := f.Log.Entry(ctx, named)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", named, err)
	}
	var decoder event.Decoder // not the fold's decoder, because the state change event is still using it
	target, err := decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", named, err)
	}
	if !target.Kind.HasState() {
		return nil, nil
	}
	target.Seq = named
	return &target, nil
}
