package record

import (
	"bytes"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// Verb is a decoded request to change a state, or to record a statement about a record (spec:
// States; Path validation; Sources; Redactions; Notes). It does not alias the request body.
type Verb struct {
	Kind Kind
	// Digest is the SHA-256 of the request and its target in compact canonical JSON. Two requests
	// are regarded as the same if their kinds and digests are equal (spec: Record digest;
	// Idempotency). The event contains everything that Digest covers.
	Digest Hash
	// RecordSeq is the seq of the record that a verb in a batch changes or describes.
	RecordSeq uint64

	fields fields.Verb
}

func newVerb(kind Kind, f fields.Verb) *Verb {
	return &Verb{Kind: kind, Digest: fields.VerbDigest(f), fields: f}
}

// parseVerb decodes a request body and returns the verb. It passes the object in body to read,
// which must fill in f. The object must not contain members that are not in known. The error is a
// *strict.Error.
func parseVerb(kind Kind, f fields.Verb, body []byte, read func(o strict.Object), known ...string) (*Verb, error) {
	if err := parseRequest(body, "", read, known...); err != nil {
		return nil, err
	}
	return newVerb(kind, f), nil
}

// parseRequest decodes the JSON object in text, or in the given member of text, and passes it to
// read. The object must not contain members that are not in known. read may keep values of the
// object, because they refer to a copy of text. The error is a *strict.Error.
func parseRequest(text []byte, member string, read func(o strict.Object), known ...string) error {
	var document pyjson.Document
	if err := document.ParseLimited(bytes.Clone(text), DefaultLimits().JSONValues); err != nil {
		return strict.NewSyntaxError(err)
	}
	v, pointer := document.Root(), ""
	if member != "" {
		v, pointer = v.Member(member), "/"+member
	}
	var d strict.Decoder
	read(d.Object(v, pointer, known...))
	if d.HasProblems() {
		return d.Err()
	}
	return nil
}

// lineVerbs contains the kinds of verbs that can be lines of a batch.
var lineVerbs = [...]Kind{KindRecordStateChanged, KindPathValidated, KindNote}

// parseVerbLine decodes a line of a batch that is a state change or a note.
func parseVerbLine(kind Kind, line []byte) (*Verb, error) {
	var verb fields.Verb
	var recordSeq *uint64
	var read func(strict.Object)
	names := []string{"record_seq"}
	if kind == KindNote {
		f := new(fields.Note)
		verb, recordSeq, names = f, &f.RecordSeq, append(names, noteNames...)
		read = func(o strict.Object) { readNote(o, f) }
	} else {
		f := new(fields.StateChange)
		verb, recordSeq, names = f, &f.RecordSeq, append(names, stateNames...)
		read = func(o strict.Object) { readStateChange(o, f) }
	}
	err := parseRequest(line, "record", func(o strict.Object) {
		if seq := o.Seq("record_seq"); seq != nil {
			*recordSeq = *seq
		} else if !o.Member("record_seq").IsGiven() {
			o.ReportMissing("record_seq")
		}
		read(o)
	}, names...)
	if err != nil {
		return nil, err
	}
	v := newVerb(kind, verb)
	v.RecordSeq = *recordSeq
	return v, nil
}

// AppendBody appends the event body to dst, without the members that the sequencer adds later.
// Record.AppendBody does the same for records.
func (v *Verb) AppendBody(dst []byte, e EventContext) []byte {
	return appendEvent(&pyjson.Builder{Buf: dst}, v.Kind, e, noChecks, func(w *pyjson.Builder) {
		v.fields.Append(w, &fields.CommonFields{Digest: v.Digest, KeyDigest: e.KeyDigest})
	})
}

// CheckEntrySize returns a *strict.Error if body is too large for an entry. Only the registration of a
// source with a list of chunks can be that large.
func (v *Verb) CheckSize(body []byte) error {
	return checkSize(body, "/chunk_hashes", "register the source in parts, each with its own id, or omit chunk_hashes")
}

// AppendRefusal appends the body of the event that logs the refusal of v because another event
// already claims its idempotency key. first is the seq of the event that claims e.Key.
func (v *Verb) AppendRefusal(dst []byte, e EventContext, first uint64) []byte {
	refused := RefusalFields{Kind: v.Kind, Reason: RefusalKeyConflict, FirstSeq: first}
	return appendEvent(&pyjson.Builder{Buf: dst}, KindRecordRefused, e, noChecks, func(w *pyjson.Builder) {
		refused.Append(w, &fields.CommonFields{Digest: v.Digest, KeyDigest: e.KeyDigest})
	})
}

var originNames = []string{"original_actor", "timestamp"}

// ReadOriginalAction decodes the members original_actor and timestamp, both of which may be missing.
func ReadOriginalAction(o strict.Object) fields.OriginalAction {
	return fields.OriginalAction{OriginalActor: o.Identifier("original_actor", maxName), Timestamp: readTimestamp(o, "timestamp")}
}
