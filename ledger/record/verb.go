package record

import (
	"bytes"

	"colophon/ledger/record/pyjson"
)

// Verb is a decoded request to change the state of something (spec: States; Path validation;
// Sources; Redactions). It owns its memory.
type Verb struct {
	Kind Kind
	// Digest is the SHA-256 of what is asked, and of what, in compact canonical
	// JSON; two requests are the same when kind and digest agree (spec: Record digest;
	// Idempotency). An event shows all of it: its record without digest, idempotency_key and, for a
	// path_validated, content_fingerprint and record_seq.
	Digest Hash

	fields VerbFields
}

func newVerb(kind Kind, f VerbFields) *Verb {
	return &Verb{Kind: kind, Digest: VerbDigest(f), fields: f}
}

// parseVerb decodes the request, an object that has no members but the known ones, into
// fields that own their memory. The error is an *Error.
func parseVerb(kind Kind, f VerbFields, body []byte, read func(o object), known ...string) (*Verb, error) {
	var document pyjson.Document
	if err := document.ParseWithin(bytes.Clone(body), DefaultLimits().Values); err != nil {
		return nil, syntaxError(err)
	}
	var d decoder
	read(d.object(document.Root(), "", known...))
	if d.failed() {
		return nil, d.err()
	}
	return newVerb(kind, f), nil
}

// AppendBody appends the event body up to the members that the sequencer fills
// in, as that of a Record does.
func (v *Verb) AppendBody(dst []byte, e Event) []byte {
	return appendEvent(&pyjson.Builder{B: dst}, v.Kind, e, noChecks, func(w *pyjson.Builder) {
		v.fields.append(w, &CommonFields{Digest: v.Digest, Key: e.Key})
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
	refused := RefusalFields{Kind: v.Kind, Reason: RefusedKey, FirstSeq: first}
	return appendEvent(&pyjson.Builder{B: dst}, RecordRefused, e, noChecks, func(w *pyjson.Builder) {
		refused.append(w, &CommonFields{Digest: v.Digest, Key: e.Key})
	})
}
