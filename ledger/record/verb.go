package record

import (
	"crypto/sha256"

	"colophon/ledger/record/pyjson"
)

// Verb is a decoded request to change the state of something (2.8). It owns its
// memory.
type Verb struct {
	Kind Kind
	// Digest is the SHA-256 of what is asked, and of what, in compact canonical
	// JSON; two requests are the same when kind and digest agree (2.7). An event
	// shows all of it: its record without digest, idempotency_key and, for a
	// path_validated, content_fingerprint and record_seq.
	Digest Hash

	asked []verbMember // covered by Digest
	found []verbMember // what the ledger knew at the time of the request
}

// verbMember is one member of the event's record; value is canonical JSON.
type verbMember struct {
	name  string
	value []byte
}

// ask adds a member that is canonical JSON already; nil adds nothing.
func (v *Verb) ask(name string, value []byte) {
	if value != nil {
		v.asked = append(v.asked, verbMember{name, value})
	}
}

// askText adds a string; nil adds nothing.
func (v *Verb) askText(name string, text []byte) {
	if text != nil {
		v.ask(name, pyjson.AppendString(nil, text))
	}
}

// find adds what the ledger knows beside what is asked.
func (v *Verb) find(name string, value []byte) {
	v.found = append(v.found, verbMember{name, value})
}

// parse decodes the request, an object that has no members but the known ones,
// and completes the verb. The error is an *Error.
func (v *Verb) parse(body []byte, read func(o object), known ...string) (*Verb, error) {
	var document pyjson.Document
	if err := document.ParseWithin(body, DefaultLimits().Values); err != nil {
		return nil, syntaxError(err)
	}
	var d decoder
	read(d.object(document.Root(), "", known...))
	if d.failed() {
		return nil, d.err()
	}
	v.complete()
	return v, nil
}

// complete takes the digest of what is asked, once all of it is.
func (v *Verb) complete() {
	w := new(pyjson.Builder)
	w.Open()
	appendVerbMembers(w, v.asked)
	w.Close()
	v.Digest = sha256.Sum256(w.B)
}

func appendVerbMembers(w *pyjson.Builder, members []verbMember) {
	for _, m := range members {
		w.Raw(m.name, m.value)
	}
}

// AppendBody appends the event body up to the members that the sequencer fills
// in, as that of a Record does.
func (v *Verb) AppendBody(dst []byte, e Event) []byte {
	return appendEvent(&pyjson.Builder{B: dst}, v.Kind, e, noChecks, func(w *pyjson.Builder) {
		w.Digest("digest", v.Digest)
		if e.Key != nil {
			w.Digest("idempotency_key", *e.Key)
		}
		appendVerbMembers(w, v.asked)
		appendVerbMembers(w, v.found)
	})
}

// CheckSize refuses a body that is too large for an entry; only a source with
// its chunks can be. The error is an *Error.
func (v *Verb) CheckSize(body []byte) error {
	return checkSize(body, "/chunk_hashes", "register the source in parts, each with an id of its own, or leave chunk_hashes out")
}

// AppendRefusal appends the body of the event that logs that another request or
// record holds the idempotency key: first is its event. e has a key.
func (v *Verb) AppendRefusal(dst []byte, e Event, first uint64) []byte {
	refused := refused{kind: v.Kind, digest: v.Digest, why: RefusedKey, first: first}
	return appendEvent(&pyjson.Builder{B: dst}, RecordRefused, e, noChecks, func(w *pyjson.Builder) { refused.append(w, e.Key) })
}
