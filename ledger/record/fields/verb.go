package fields

import (
	"crypto/sha256"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Verb is implemented by the fields of each kind of verb (spec: States; Path validation;
// Sources; Redactions; Notes).
type Verb interface {
	Fields
	appendRequest(w *pyjson.Builder) // the members that the digest covers
}

// VerbDigest returns the SHA-256 of the request of a verb, in compact canonical JSON.
func VerbDigest(f Verb) rules.Hash {
	w := new(pyjson.Builder)
	w.Open()
	f.appendRequest(w)
	w.Close()
	return sha256.Sum256(w.B)
}

// Origin records who did something in another system, and when (spec: Original actor and
// time). These are claims of the caller; the event's actor and time are the ledger's own.
type Origin struct {
	OriginalActor []byte // nil if there is none
	Timestamp     []byte // RFC 3339, as it was sent; nil if there is none
}

func (r *Origin) append(w *pyjson.Builder) {
	w.Text("original_actor", r.OriginalActor)
	w.Text("timestamp", r.Timestamp)
}

// check checks the actor. Common.Check checks the timestamp.
func (r *Origin) check(c *forms) {
	if r.OriginalActor != nil {
		c.filled("original_actor", r.OriginalActor, MaxName)
	}
}
