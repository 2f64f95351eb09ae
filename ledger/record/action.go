package record

import (
	"bytes"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// Action is a decoded request to change a state, or to record a statement about a record (spec:
// States; Path validation; Sources; Redactions; Notes). It does not alias the request body.
type Action struct {
	Kind Kind
	// Digest is the SHA-256 of the request and its target in compact canonical JSON. Two requests
	// are regarded as the same if their kinds and digests are equal (spec: Record digest;
	// Idempotency). The event contains everything that Digest covers.
	Digest Hash
	// RecordSeq is the seq of the record that an action in a batch changes or describes.
	RecordSeq uint64

	fields fields.Action
}

func newAction(kind Kind, f fields.Action) *Action {
	return &Action{Kind: kind, Digest: fields.RequestDigest(f), fields: f}
}

// parseAction decodes a request body and returns the action. It passes the object in body to read,
// which must fill in f. The object must not contain members that are not in known. The error is a
// *strict.Error.
func parseAction(kind Kind, f fields.Action, body []byte, read func(o strict.Object), known ...string) (*Action, error) {
	if err := parseRequest(body, "", read, known...); err != nil {
		return nil, err
	}
	return newAction(kind, f), nil
}

// parseRequest decodes the JSON object in text, or in the given member of text, and passes it to
// read. The object must not contain members that are not in known. read may keep values of the
// object, because they refer to a copy of text. The error is a *strict.Error.
func parseRequest(text []byte, member string, read func(o strict.Object), known ...string) error {
	var document pyjson.Document
	if err := document.ParseLimited(bytes.Clone(text), DefaultLimits().MaxJSONValues); err != nil {
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

// lineActionKinds contains the kinds of actions that can be lines of a batch.
var lineActionKinds = [...]Kind{KindRecordStateChanged, KindPathValidated, KindNote}

// parseActionLine decodes a line of a batch that is a state change or a note.
func parseActionLine(kind Kind, line []byte) (*Action, error) {
	var action fields.Action
	var recordSeq *uint64
	var read func(strict.Object)
	names := []string{"record_seq"}
	if kind == KindNote {
		f := new(fields.Note)
		action, recordSeq, names = f, &f.RecordSeq, append(names, noteNames...)
		read = func(o strict.Object) { readNote(o, f) }
	} else {
		f := new(fields.StateChange)
		action, recordSeq, names = f, &f.RecordSeq, append(names, stateNames...)
		read = func(o strict.Object) { readStateChange(o, f) }
	}
	err := parseRequest(line, "record", func(o strict.Object) {
		if seq := o.Uint64("record_seq"); seq != nil {
			*recordSeq = *seq
		} else if !o.Member("record_seq").IsGiven() {
			o.ReportMissing("record_seq")
		}
		read(o)
	}, names...)
	if err != nil {
		return nil, err
	}
	v := newAction(kind, action)
	v.RecordSeq = *recordSeq
	return v, nil
}

// AppendBodyPrefix appends the event body to dst, without the last members, which the sequencer
// adds. Record.AppendBodyPrefix does the same for records.
func (a *Action) AppendBodyPrefix(dst []byte, e EventContext) []byte {
	return appendEvent(&pyjson.Builder{Buf: dst}, a.Kind, e, noChecks, func(w *pyjson.Builder) {
		a.fields.Append(w, &fields.CommonFields{Digest: a.Digest, IdempotencyKeyDigest: e.IdempotencyKeyDigest})
	})
}

// CheckEntrySize returns a *strict.Error if body is too large for an entry. Only the registration
// of a source with a list of chunks can be that large.
func (a *Action) CheckEntrySize(body []byte) error {
	return checkSize(body, "/chunk_hashes", "register the source in parts, each with its own id, or omit chunk_hashes")
}

// AppendRefusal appends the body of the event that logs the refusal of the action because another
// event already claims its idempotency key. first is the seq of that other event.
func (a *Action) AppendRefusal(dst []byte, e EventContext, first uint64) []byte {
	refused := RefusalFields{Kind: a.Kind, Reason: RefusalKeyConflict, FirstSeq: first}
	return appendEvent(&pyjson.Builder{Buf: dst}, KindRecordRefused, e, noChecks, func(w *pyjson.Builder) {
		refused.Append(w, &fields.CommonFields{Digest: a.Digest, IdempotencyKeyDigest: e.IdempotencyKeyDigest})
	})
}

var originNames = []string{"original_actor", "timestamp"}

// ReadActionOrigin decodes the members original_actor and timestamp, both of which may be missing.
func ReadActionOrigin(o strict.Object) fields.ActionOrigin {
	return fields.ActionOrigin{OriginalActor: o.Identifier("original_actor", maxName), Timestamp: readTimestamp(o, "timestamp")}
}
