package fields

import "colophon/ledger/record/pyjson"

// StateChange holds the fields of a record_state_changed event.
type StateChange struct {
	RecordSeq     uint64 // seq of the record whose state changes
	State, Reason []byte // the new state, and why it changes
	ActionOrigin
}

func (f *StateChange) appendRequest(w *pyjson.Builder) {
	f.ActionOrigin.append(w)
	w.AddText("reason", f.Reason)
	w.AddUint("record_seq", f.RecordSeq)
	w.AddText("state", f.State)
}

// Append implements Fields.
func (f *StateChange) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginObject()
	c.appendIdentity(w)
	f.appendRequest(w)
	w.EndObject()
}

// Check implements Fields.
func (f *StateChange) Check() error {
	var c forms
	c.filled("reason", f.Reason, MaxReasonBytes)
	c.required("state", f.State, MaxShortTextBytes)
	f.ActionOrigin.check(&c)
	return c.err
}
