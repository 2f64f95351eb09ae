package record

import (
	"slices"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/strict"
)

// State is the state of an IPC record or of a run-DAG (spec: States). A new record is live until a
// later event changes its state. Lookups by cache_key find only live records.
type State string

// The states of a record.
const (
	StateLive        State = "live" // the state of a new record
	StateFailed      State = "failed"
	StateStale       State = "stale"
	StateQuarantined State = "quarantined"
)

// States contains all states.
var States = [...]State{StateLive, StateFailed, StateStale, StateQuarantined}

// ParseStateChange decodes a request to change the state of the record at seq. The body is
// `{"state", "reason", "original_actor"?, "timestamp"?}`. If it is not valid, the error is a
// *strict.Error.
func ParseStateChange(seq uint64, body []byte) (*Action, error) {
	f := &fields.StateChange{RecordSeq: seq}
	return parseAction(KindRecordStateChanged, f, body, func(o strict.Object) { readStateChange(o, f) }, stateNames...)
}

var stateNames = append([]string{"state", "reason"}, originNames...)

func readStateChange(o strict.Object, f *fields.StateChange) {
	f.State, f.Reason, f.ActionOrigin = readState(o, "state"), readReason(o, "reason"), ReadActionOrigin(o)
}

// StateChangeRequest is a request to change the state of many records (spec: States). A dry run only
// reports what the request would change.
type StateChangeRequest struct {
	State State
	Selection

	fields fields.StateChange
}

// ParseStateChangeRequest decodes `{"state", "reason", "original_actor"?, "timestamp"?, "filter" |
// "seqs", "dry_run"?, "as_of"?}`. The result does not alias body. If the body is not valid, the
// error is a *strict.Error.
func ParseStateChangeRequest(body []byte) (*StateChangeRequest, error) {
	r := new(StateChangeRequest)
	err := parseRequest(body, "", func(o strict.Object) {
		readStateChange(o, &r.fields)
		r.State, r.Selection = State(r.fields.State), readSelection(o)
	}, append(slices.Clone(stateNames), selectionNames...)...)
	return r, err
}

// ActionFor returns the action that changes the state of the record at seq as requested.
func (r *StateChangeRequest) ActionFor(seq uint64) *Action {
	f := r.fields
	f.RecordSeq = seq
	return newAction(KindRecordStateChanged, &f)
}

func readState(o strict.Object, name string) []byte {
	text := o.RequiredText(name, maxStage)
	if text != nil && !isState(text) {
		o.ReportInvalid(name, `must be "live", "failed", "stale", or "quarantined"`)
	}
	return text
}

func isState(text []byte) bool {
	for _, s := range States {
		if string(text) == string(s) {
			return true
		}
	}
	return false
}
