package fields

import (
	"crypto/sha256"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Verb is implemented by the fields of each event that a verb creates. A verb is a request such as
// a state change or a redaction (spec: States; Path validation; Sources; Redactions; Notes).
type Verb interface {
	Fields
	appendRequest(w *pyjson.Builder) // writes the members that the digest covers
}

// VerbDigest encodes the members of a verb's request as compact canonical JSON and returns the
// SHA-256 hash.
func VerbDigest(f Verb) rules.Hash {
	w := new(pyjson.Builder)
	w.BeginObject()
	f.appendRequest(w)
	w.EndObject()
	return sha256.Sum256(w.Buf)
}

// OriginalAction says who performed an action in another system, and when (spec: Original actor and time).
// Both are claims made by the client; the event's own actor and time come from the ledger.
type OriginalAction struct {
	OriginalActor []byte // nil if there is none
	Timestamp     []byte // RFC 3339 time exactly as the client sent it; nil if there is none
}

func (r *OriginalAction) append(w *pyjson.Builder) {
	w.Text("original_actor", r.OriginalActor)
	w.Text("timestamp", r.Timestamp)
}

// check validates OriginalActor. CommonFields.Check validates the timestamp.
func (r *OriginalAction) check(c *forms) {
	if r.OriginalActor != nil {
		c.filled("original_actor", r.OriginalActor, MaxName)
	}
}
