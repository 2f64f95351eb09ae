package record

import (
	"crypto/sha256"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// VerbFields is what an event says that changes the state of something (spec: States; Path
// validation; Sources; Redactions).
type VerbFields interface {
	Fields
	appendAsked(w *pyjson.Builder) // what the digest covers
}

// VerbDigest is the SHA-256 of what a verb asks for, and of what, in compact canonical JSON.
func VerbDigest(f VerbFields) Hash {
	w := new(pyjson.Builder)
	w.Open()
	f.appendAsked(w)
	w.Close()
	return sha256.Sum256(w.B)
}

func appendNumber(w *pyjson.Builder, name string, n uint64) {
	w.Name(name)
	w.B = strconv.AppendUint(w.B, n, 10)
}

// StateFields is what a record_state_changed event says.
type StateFields struct {
	RecordSeq     uint64
	State, Reason []byte
}

func (f *StateFields) appendAsked(w *pyjson.Builder) {
	w.Text("reason", f.Reason)
	appendNumber(w, "record_seq", f.RecordSeq)
	w.Text("state", f.State)
}

func (f *StateFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendAsked(w)
	w.Close()
}

// ValidationFields is what a path_validated event says: which fingerprint of which path was
// validated or not (spec: Path fingerprints).
type ValidationFields struct {
	Project, PathID    []byte
	ContentFingerprint []byte // the one that was current; nil for null
	RecordSeq          uint64 // of the path's record that was current
	Validated          bool
	Reason             []byte // nil when there is none
}

func (f *ValidationFields) appendAsked(w *pyjson.Builder) {
	w.Text("path_id", f.PathID)
	w.Text("project", f.Project)
	w.Text("reason", f.Reason)
	w.Raw("validated", strconv.AppendBool(nil, f.Validated))
}

// The fingerprint and the record are what the ledger knew at the time of the request: the
// digest does not cover them.
func (f *ValidationFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendAsked(w)
	w.Nullable("content_fingerprint", f.ContentFingerprint)
	appendNumber(w, "record_seq", f.RecordSeq)
	w.Close()
}

// SourceFields is what a source_registered or source_revoked event says.
type SourceFields struct {
	ID, Title, Reason []byte // title and reason are nil when there are none
	// Listed: the registration lists the source's chunks; they may be none.
	Listed      bool
	ChunkHashes [][]byte
}

func (f *SourceFields) appendAsked(w *pyjson.Builder) {
	if f.Listed {
		w.Texts("chunk_hashes", f.ChunkHashes)
	}
	w.Text("reason", f.Reason)
	w.Text("source_id", f.ID)
	w.Text("title", f.Title)
}

func (f *SourceFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendAsked(w)
	w.Close()
}

// RedactionFields is what a content_redacted event says (spec: Content).
type RedactionFields struct {
	Reason []byte
	Seqs   *SeqList // nil where the event has no list that can be one
}

func (f *RedactionFields) appendAsked(w *pyjson.Builder) {
	w.Text("reason", f.Reason)
	if f.Seqs != nil {
		w.Name("seqs")
		w.B = f.Seqs.AppendJSON(w.B)
	}
}

func (f *RedactionFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendAsked(w)
	w.Close()
}

// RotationFields is what a key_rotated event says (spec: The log).
type RotationFields struct {
	Step, PreviousKey, VerifierKey []byte
	Handover                       []byte // nil where the step has none
}

func (f *RotationFields) appendAsked(w *pyjson.Builder) {
	w.Text("handover", f.Handover)
	w.Text("previous_key", f.PreviousKey)
	w.Text("step", f.Step)
	w.Text("verifier_key", f.VerifierKey)
}

func (f *RotationFields) append(w *pyjson.Builder, c *CommonFields) {
	w.Open()
	c.appendIdentity(w)
	f.appendAsked(w)
	w.Close()
}

// CreatedFields is what the ledger_created event says.
type CreatedFields struct{ Origin, VerifierKey []byte }

func (f *CreatedFields) append(w *pyjson.Builder, _ *CommonFields) {
	w.OpenOrdered()
	w.Text("origin", f.Origin)
	w.Text("verifier_key", f.VerifierKey)
	w.Close()
}

// RefusalFields is what a record_refused event says of whatever was refused. The key that it
// names, for RefusedKey, is held by the event FirstSeq.
type RefusalFields struct {
	Kind       Kind
	Reason     Refusal
	Mismatches uint64
	FirstSeq   uint64 // for RefusedKey only
}

func (f *RefusalFields) append(w *pyjson.Builder, c *CommonFields) {
	w.OpenOrdered()
	w.Digest("digest", c.Digest)
	if f.Reason == RefusedKey {
		appendNumber(w, "first_seq", f.FirstSeq)
		if c.Key != nil {
			w.Digest("idempotency_key", *c.Key)
		}
	}
	w.Text("kind", []byte(f.Kind))
	appendNumber(w, "mismatches", f.Mismatches)
	w.Text("reason", []byte(f.Reason))
	w.Text("run_id", c.RunID)
	w.Close()
}
