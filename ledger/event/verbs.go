package event

import (
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/seqs"
)

// StateChange holds the fields of a record_state_changed event (spec: States).
type StateChange = fields.StateChange

// StateChange reads the fields of a record_state_changed event.
func (e *Event) StateChange() StateChange {
	return StateChange{
		RecordSeq:      Uint64OrZero(e.Detail.Member("record_seq")),
		State:          text(e.Detail.Member("state")),
		Reason:         text(e.Detail.Member("reason")),
		OriginalAction: e.origin(),
	}
}

// origin reads the original actor and the time of an action that was originally taken in another
// system.
func (e *Event) origin() fields.OriginalAction {
	return fields.OriginalAction{OriginalActor: text(e.Detail.Member("original_actor")), Timestamp: text(e.Detail.Member("timestamp"))}
}

// Note holds the fields of a note event (spec: Notes).
type Note = fields.Note

// Note reads the fields of a note event.
func (e *Event) Note() Note {
	return Note{
		RecordSeq:      Uint64OrZero(e.Detail.Member("record_seq")),
		Topic:          text(e.Detail.Member("topic")),
		Text:           text(e.Detail.Member("text")),
		OriginalAction: e.origin(),
	}
}

// PathValidation holds the fields of a path_validated event, which states whether a fingerprint of a
// path has been validated (spec: Path validation).
type PathValidation = fields.PathValidation

// PathValidation reads the fields of a path_validated event.
func (e *Event) PathValidation() PathValidation {
	return PathValidation{
		Project:            text(e.Detail.Member("project")),
		PathID:             text(e.Detail.Member("path_id")),
		Build:              text(e.Detail.Member("build")),
		ContentFingerprint: text(e.Detail.Member("content_fingerprint")),
		RecordSeq:          Uint64OrZero(e.Detail.Member("record_seq")),
		Validated:          e.Detail.Member("validated").Kind() == pyjson.True,
		Reason:             text(e.Detail.Member("reason")),
		OriginalAction:     e.origin(),
		Names:              validationNames(e.Detail.Member("names")),
	}
}

func validationNames(list pyjson.Value) (n fields.ValidationNames) {
	for name := range list.Elements() {
		switch string(name.Text()) {
		case "build":
			n.Build = true
		case "content_fingerprint":
			n.ContentFingerprint = true
		}
	}
	return n
}

// Source holds the fields of a source_registered or source_revoked event.
type Source = fields.Source

// Source reads the fields of a source_registered or source_revoked event.
func (e *Event) Source() Source {
	chunks := e.Detail.Member("chunk_hashes")
	r := Source{
		ID:     text(e.Detail.Member("source_id")),
		Title:  text(e.Detail.Member("title")),
		Reason: text(e.Detail.Member("reason")),
		Listed: chunks.Kind() == pyjson.Array,
	}
	for chunk := range chunks.Elements() {
		r.ChunkHashes = append(r.ChunkHashes, text(chunk))
	}
	return r
}

// Redaction holds the fields of a content_redacted event (spec: Content).
type Redaction = fields.Redaction

// Redaction reads the fields of a content_redacted event.
func (e *Event) Redaction() Redaction {
	r := Redaction{Reason: text(e.Detail.Member("reason"))}
	r.Seqs, _ = seqs.Parse(e.Detail.Member("seqs"))
	return r
}

// Rotation holds the fields of a key_rotated event (spec: The log).
type Rotation = fields.Rotation

// Rotation reads the fields of a key_rotated event.
func (e *Event) Rotation() Rotation {
	return Rotation{
		Step:        text(e.Detail.Member("step")),
		PreviousKey: text(e.Detail.Member("previous_key")),
		VerifierKey: text(e.Detail.Member("verifier_key")),
		Handover:    text(e.Detail.Member("handover")),
	}
}

// LedgerCreation holds the fields of a ledger_created event.
type LedgerCreation = fields.LedgerCreation

// LedgerCreation reads the fields of a ledger_created event.
func (e *Event) LedgerCreation() LedgerCreation {
	return LedgerCreation{
		MemberSecretHash: text(e.Detail.Member("member_secret_hash")),
		Origin:           text(e.Detail.Member("origin")),
		VerifierKey:      text(e.Detail.Member("verifier_key")),
	}
}
