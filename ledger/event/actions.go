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
		RecordSeq:    Uint64OrZero(e.Record.Member("record_seq")),
		State:        text(e.Record.Member("state")),
		Reason:       text(e.Record.Member("reason")),
		ActionOrigin: e.origin(),
	}
}

// origin reads the original actor and the time of an action that was originally taken in another
// system.
func (e *Event) origin() fields.ActionOrigin {
	return fields.ActionOrigin{OriginalActor: text(e.Record.Member("original_actor")), Timestamp: text(e.Record.Member("timestamp"))}
}

// Note holds the fields of a note event (spec: Notes).
type Note = fields.Note

// Note reads the fields of a note event.
func (e *Event) Note() Note {
	return Note{
		RecordSeq:    Uint64OrZero(e.Record.Member("record_seq")),
		Topic:        text(e.Record.Member("topic")),
		Text:         text(e.Record.Member("text")),
		ActionOrigin: e.origin(),
	}
}

// PathValidation holds the fields of a path_validated event, which states whether a fingerprint of
// a path has been validated (spec: Path validation).
type PathValidation = fields.PathValidation

// PathValidation reads the fields of a path_validated event.
func (e *Event) PathValidation() PathValidation {
	return PathValidation{
		Project:            text(e.Record.Member("project")),
		PathID:             text(e.Record.Member("path_id")),
		Build:              text(e.Record.Member("build")),
		ContentFingerprint: text(e.Record.Member("content_fingerprint")),
		RecordSeq:          Uint64OrZero(e.Record.Member("record_seq")),
		Validated:          e.Record.Member("validated").Kind() == pyjson.True,
		Reason:             text(e.Record.Member("reason")),
		ActionOrigin:       e.origin(),
		Presence:           validationNames(e.Record.Member("names")),
	}
}

func validationNames(list pyjson.Value) (n fields.ValidationPresence) {
	for name := range list.Elements() {
		switch string(name.Text()) {
		case "build":
			n.HasBuild = true
		case "content_fingerprint":
			n.HasContentFingerprint = true
		}
	}
	return n
}

// Source holds the fields of a source_registered or source_revoked event.
type Source = fields.Source

// Source reads the fields of a source_registered or source_revoked event.
func (e *Event) Source() Source {
	chunks := e.Record.Member("chunk_hashes")
	r := Source{
		ID:           text(e.Record.Member("source_id")),
		Title:        text(e.Record.Member("title")),
		Reason:       text(e.Record.Member("reason")),
		HasChunkList: chunks.Kind() == pyjson.Array,
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
	r := Redaction{Reason: text(e.Record.Member("reason"))}
	r.Seqs, _ = seqs.Parse(e.Record.Member("seqs"))
	return r
}

// KeyRotation holds the fields of a key_rotated event (spec: The log).
type KeyRotation = fields.KeyRotation

// KeyRotation reads the fields of a key_rotated event.
func (e *Event) KeyRotation() KeyRotation {
	return KeyRotation{
		Step:         text(e.Record.Member("step")),
		PreviousKey:  text(e.Record.Member("previous_key")),
		VerifierKey:  text(e.Record.Member("verifier_key")),
		HandoverNote: text(e.Record.Member("handover")),
	}
}

// LedgerCreation holds the fields of a ledger_created event.
type LedgerCreation = fields.LedgerCreation

// LedgerCreation reads the fields of a ledger_created event.
func (e *Event) LedgerCreation() LedgerCreation {
	return LedgerCreation{
		MemberSecretHash: text(e.Record.Member("member_secret_hash")),
		Origin:           text(e.Record.Member("origin")),
		VerifierKey:      text(e.Record.Member("verifier_key")),
	}
}
