package fields

import (
	"crypto/sha256"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Action is implemented by the fields of each event that an action creates. An action is a request
// such as a state change or a redaction (spec: States; Path validation; Sources; Redactions;
// Notes).
type Action interface {
	Fields
	appendRequest(w *pyjson.Builder) // writes the members that the digest covers
}

// RequestDigest returns the SHA-256 of the members of an action's request, encoded as compact
// canonical JSON.
func RequestDigest(f Action) rules.Hash {
	w := new(pyjson.Builder)
	w.BeginObject()
	f.appendRequest(w)
	w.EndObject()
	return sha256.Sum256(w.Buf)
}

// ActionOrigin holds the actor and the time of an action that was performed in another system
// (spec: Original actor and time). Both are claims made by the client; the event's own actor and
// time come from the ledger.
type ActionOrigin struct {
	OriginalActor []byte // nil if there is none
	Timestamp     []byte // RFC 3339 time exactly as the client sent it; nil if there is none
}

func (r *ActionOrigin) append(w *pyjson.Builder) {
	w.AddText("original_actor", r.OriginalActor)
	w.AddText("timestamp", r.Timestamp)
}

// check validates OriginalActor. CommonFields.Check validates the timestamp.
func (r *ActionOrigin) check(c *forms) {
	if r.OriginalActor != nil {
		c.filled("original_actor", r.OriginalActor, MaxNameBytes)
	}
}
