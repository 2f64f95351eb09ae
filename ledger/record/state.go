package record

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// State is the state of an IPC record or a run-DAG (spec: States). A record is live until a
// verb changes that. Only live ones are found by cache_key.
type State string

// The states.
const (
	Live        State = "live"
	Failed      State = "failed"
	Stale       State = "stale"
	Quarantined State = "quarantined"
)

// States lists all states.
var States = [...]State{Live, Failed, Stale, Quarantined}

// ParseStateChange decodes `{"state", "reason"}` for the record that is event seq. The error
// is a *strict.Error.
func ParseStateChange(seq uint64, body []byte) (*Verb, error) {
	f := &StateFields{RecordSeq: seq}
	return parseVerb(RecordStateChanged, f, body, func(o strict.Object) {
		f.State, f.Reason = readState(o, "state"), readReason(o, "reason")
	}, "state", "reason")
}

func readState(o strict.Object, name string) []byte {
	text := o.RequiredText(name, maxStage)
	if text != nil && !isState(text) {
		o.Invalid(name, "must be live, failed, stale or quarantined")
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

// StateFields are the fields of a record_state_changed event.
type StateFields struct {
	RecordSeq     uint64
	State, Reason []byte
}

func (f *StateFields) appendAsked(w *pyjson.Builder) {
	w.Text("reason", f.Reason)
	appendNumber(w, "record_seq", f.RecordSeq)
	w.Text("state", f.State)
}

func (f *StateFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendAsked(w)
	w.Close()
}

// Check implements Fields.
func (f *StateFields) Check() error {
	var c forms
	c.filled("reason", f.Reason, MaxReason)
	c.required("state", f.State, maxStage)
	return c.err
}
