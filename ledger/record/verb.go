package record

import (
	"bytes"
	"crypto/sha256"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// Verb is a decoded request to change the state of something, or to record a statement about a
// record (spec: States; Path validation; Sources; Redactions; Notes). It owns its memory.
type Verb struct {
	Kind Kind
	// Digest is the SHA-256 of the request and its target in compact canonical JSON. Two
	// requests are the same if their kind and digest are equal (spec: Record digest;
	// Idempotency). The event contains everything that Digest covers.
	Digest Hash
	// RecordSeq is the record that a verb in a batch is about.
	RecordSeq uint64

	fields VerbFields
}

func newVerb(kind Kind, f VerbFields) *Verb {
	return &Verb{Kind: kind, Digest: VerbDigest(f), fields: f}
}

// parseVerb decodes a request into fields that own their memory. The request is an object with
// known members only. The error is a *strict.Error.
func parseVerb(kind Kind, f VerbFields, body []byte, read func(o strict.Object), known ...string) (*Verb, error) {
	if err := parseRequest(body, "", read, known...); err != nil {
		return nil, err
	}
	return newVerb(kind, f), nil
}

// parseRequest decodes a request, which is the whole text or one member of it. The request is
// an object with known members only. What read takes from it stays valid. The error is a
// *strict.Error.
func parseRequest(text []byte, member string, read func(o strict.Object), known ...string) error {
	var document pyjson.Document
	if err := document.ParseWithin(bytes.Clone(text), DefaultLimits().Values); err != nil {
		return strict.SyntaxError(err)
	}
	v, pointer := document.Root(), ""
	if member != "" {
		v, pointer = v.Member(member), "/"+member
	}
	var d strict.Decoder
	read(d.Object(v, pointer, known...))
	if d.Failed() {
		return d.Err()
	}
	return nil
}

// lineVerbs lists the kinds of verbs that can be lines of a batch.
var lineVerbs = [...]Kind{RecordStateChanged, PathValidated, Note}

// parseVerbLine decodes a line of a batch that is a state change or a note.
func parseVerbLine(kind Kind, line []byte) (*Verb, error) {
	var fields VerbFields
	var about *uint64
	var read func(strict.Object)
	names := []string{"record_seq"}
	if kind == Note {
		f := new(NoteFields)
		fields, about, read, names = f, &f.RecordSeq, f.read, append(names, noteNames...)
	} else {
		f := new(StateFields)
		fields, about, read, names = f, &f.RecordSeq, f.read, append(names, stateNames...)
	}
	err := parseRequest(line, "record", func(o strict.Object) {
		if seq := o.Seq("record_seq"); seq != nil {
			*about = *seq
		} else if !o.Member("record_seq").Given() {
			o.Missing("record_seq")
		}
		read(o)
	}, names...)
	if err != nil {
		return nil, err
	}
	v := newVerb(kind, fields)
	v.RecordSeq = *about
	return v, nil
}

// AppendBody appends the event body up to the members that the sequencer adds, like
// Record.AppendBody.
func (v *Verb) AppendBody(dst []byte, e Event) []byte {
	return appendEvent(&pyjson.Builder{B: dst}, v.Kind, e, noChecks, func(w *pyjson.Builder) {
		v.fields.append(w, &CommonFields{Digest: v.Digest, Key: e.Key})
	})
}

// CheckSize returns a *strict.Error if a body is too large for an entry. That is possible only
// for the registration of a source with its chunks.
func (v *Verb) CheckSize(body []byte) error {
	return checkSize(body, "/chunk_hashes", "register the source in parts, each with an id of its own, or leave chunk_hashes out")
}

// AppendRefusal appends the body of the event that logs a conflict. The event first holds the
// idempotency key, which is e.Key.
func (v *Verb) AppendRefusal(dst []byte, e Event, first uint64) []byte {
	refused := RefusalFields{Kind: v.Kind, Reason: RefusedKey, FirstSeq: first}
	return appendEvent(&pyjson.Builder{B: dst}, RecordRefused, e, noChecks, func(w *pyjson.Builder) {
		refused.append(w, &CommonFields{Digest: v.Digest, Key: e.Key})
	})
}

// VerbFields are the fields of an event for a verb (spec: States; Path validation; Sources;
// Redactions; Notes).
type VerbFields interface {
	Fields
	appendRequest(w *pyjson.Builder) // the members that the digest covers
}

// VerbDigest returns the SHA-256 of what a verb asks for, in compact canonical JSON.
func VerbDigest(f VerbFields) Hash {
	w := new(pyjson.Builder)
	w.Open()
	f.appendRequest(w)
	w.Close()
	return sha256.Sum256(w.B)
}

// Origin says who did something in another system, and when (spec: Original actor and time).
// These are claims of the caller; the event's actor and time are the ledger's own.
type Origin struct {
	OriginalActor []byte // nil if there is none
	Timestamp     []byte // RFC 3339, as it was sent; nil if there is none
}

var originNames = []string{"original_actor", "timestamp"}

// ReadOrigin reads the members original_actor and timestamp.
func ReadOrigin(o strict.Object) Origin {
	return Origin{o.Identifier("original_actor", maxName), readTimestamp(o, "timestamp")}
}

func (r *Origin) append(w *pyjson.Builder) {
	w.Text("original_actor", r.OriginalActor)
	w.Text("timestamp", r.Timestamp)
}

// check checks the actor. CommonFields.Check checks the timestamp.
func (r *Origin) check(c *forms) {
	if r.OriginalActor != nil {
		c.filled("original_actor", r.OriginalActor, maxName)
	}
}

func appendNumber(w *pyjson.Builder, name string, n uint64) {
	w.Name(name)
	w.B = strconv.AppendUint(w.B, n, 10)
}

// Bounds of texts in the events of verbs, in bytes of UTF-8.
const (
	// MaxSourceID bounds the id of a source, here and in citations.
	MaxSourceID = maxName
	// MaxReason bounds a reason.
	MaxReason = 4096

	maxReason = MaxReason
	maxTitle  = maxName
)
