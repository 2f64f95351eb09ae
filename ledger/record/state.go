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
	Live        State = "live"
	Failed      State = "failed"
	Stale       State = "stale"
	Quarantined State = "quarantined"
)

// States contains all states.
var States = [...]State{Live, Failed, Stale, Quarantined}

// ParseStateChange decodes a request to change the state of the record at seq. The body is
// `{"state", "reason", "original_actor"?, "timestamp"?}`. If it is not valid, the error is a
// *strict.Error.
func ParseStateChange(seq uint64, body []byte) (*Verb, error) {
	f := &fields.StateChange{RecordSeq: seq}
	return parseVerb(RecordStateChanged, f, body, func(o strict.Object) { readStateChange(o, f) }, stateNames...)
}

var stateNames = append([]string{"state", "reason"}, originNames...)

func readStateChange(o strict.Object, f *fields.StateChange) {
	f.State, f.Reason, f.OriginalAction = readState(o, "state"), readReason(o, "reason"), ReadOriginalAction(o)
}

// StateRequest is a request to change the state of many records (spec: States). A dry run only
// reports what the request would change.
type StateRequest struct {
	State State
	Selection

	fields fields.StateChange
}

// ParseStateRequest decodes `{"state", "reason", "original_actor"?, "timestamp"?, "filter" |
// "seqs", "dry_run"?, "as_of"?}`. The result does not alias body. If the body is not valid, the
// error is a *strict.Error.
func ParseStateRequest(body []byte) (*StateRequest, error) {
	r := new(StateRequest)
	err := parseRequest(body, "", func(o strict.Object) {
		readStateChange(o, &r.fields)
		r.State, r.Selection = State(r.fields.State), readSelection(o)
	}, append(slices.Clone(stateNames), selectionNames...)...)
	return r, err
}

// VerbFor returns the verb that changes the state of the record at seq as requested.
func (r *StateRequest) VerbFor(seq uint64) *Verb {
	f := r.fields
	f.RecordSeq = seq
	return newVerb(RecordStateChanged, &f)
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
