package event

import "colophon/ledger/record/pyjson"

// StateChange is what record_state_changed says (2.8).
type StateChange struct {
	RecordSeq     uint64
	State, Reason []byte
}

// StateChange reads a record_state_changed event.
func (e *Event) StateChange() StateChange {
	return StateChange{
		RecordSeq: Number(e.Detail.Member("record_seq")),
		State:     text(e.Detail.Member("state")),
		Reason:    text(e.Detail.Member("reason")),
	}
}

// Validation is what path_validated says: which fingerprint of which path was
// validated or not (1.6).
type Validation struct {
	Project, PathID    []byte
	ContentFingerprint []byte // the one that was current; nil for null
	RecordSeq          uint64 // of the path's record that was current
	Validated          bool
	Reason             []byte
}

// Validation reads a path_validated event.
func (e *Event) Validation() Validation {
	return Validation{
		Project:            text(e.Detail.Member("project")),
		PathID:             text(e.Detail.Member("path_id")),
		ContentFingerprint: text(e.Detail.Member("content_fingerprint")),
		RecordSeq:          Number(e.Detail.Member("record_seq")),
		Validated:          e.Detail.Member("validated").Kind() == pyjson.True,
		Reason:             text(e.Detail.Member("reason")),
	}
}

// Source is what source_registered and source_revoked say.
type Source struct {
	ID, Title, Reason []byte
	// Listed: the registration lists the source's chunks; they may be none.
	Listed      bool
	ChunkHashes [][]byte
}

// Source reads a source_registered or source_revoked event.
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
