package fields

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/seqs"
)

// Redaction holds the fields of a content_redacted event (spec: Content).
type Redaction struct {
	Reason []byte
	Seqs   *seqs.List // records whose content is erased; nil if the event has no valid list
}

// Check implements Fields.
func (f *Redaction) Check() error {
	var c forms
	c.filled("reason", f.Reason, MaxReasonBytes)
	if f.Seqs == nil {
		c.fail("seqs", nil, "is not a valid list of sequence numbers")
	}
	return c.err
}

func (f *Redaction) appendRequest(w *pyjson.Builder) {
	w.AddText("reason", f.Reason)
	if f.Seqs != nil {
		w.BeginMember("seqs")
		w.Buf = f.Seqs.AppendJSON(w.Buf)
	}
}

// Append implements Fields.
func (f *Redaction) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginObject()
	c.appendIdentity(w)
	f.appendRequest(w)
	w.EndObject()
}
