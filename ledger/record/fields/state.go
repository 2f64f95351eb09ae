package fields

import "colophon/ledger/record/pyjson"

// StateChange holds the fields of a record_state_changed event.
type StateChange struct {
	RecordSeq     uint64
	State, Reason []byte
	OriginalAction
}

func (f *StateChange) appendRequest(w *pyjson.Builder) {
	f.OriginalAction.append(w)
	w.Text("reason", f.Reason)
	w.Uint("record_seq", f.RecordSeq)
	w.Text("state", f.State)
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
	c.filled("reason", f.Reason, MaxReason)
	c.required("state", f.State, MaxShortText)
	f.OriginalAction.check(&c)
	return c.err
}
