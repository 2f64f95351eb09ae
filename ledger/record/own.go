package record

import (
	"fmt"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// NewKeyRotation returns the action that changes the signing key of the ledger (spec: Key
// rotation). previous and next are verifier keys. handover is the note that both keys sign, or nil
// if the step has no such note. All texts must be valid UTF-8.
func NewKeyRotation(step, previous, next string, handover []byte) *Action {
	return newAction(KindKeyRotated, &fields.KeyRotation{Step: []byte(step), PreviousKey: []byte(previous), VerifierKey: []byte(next), HandoverNote: handover})
}

// AppendLedgerCreated appends the body of a ledger's first event. secret is nil if the ledger has
// no payload-member secret.
func AppendLedgerCreated(dst []byte, e EventContext, origin, verifierKey string, secret *members.Secret) []byte {
	return appendEvent(&pyjson.Builder{Buf: dst}, KindLedgerCreated, e, noChecks, func(w *pyjson.Builder) {
		created := fields.LedgerCreation{Origin: []byte(origin), VerifierKey: []byte(verifierKey)}
		if secret != nil {
			created.MemberSecretHash = rules.AppendHex(nil, secret.Commitment())
		}
		created.Append(w, nil)
	})
}

// RefusalReason is the reason why the ledger refused a record that it was able to decode (spec:
// Refusals; Idempotency).
type RefusalReason string

// The reasons for refusals.
const (
	RefusalMismatch    RefusalReason = "mismatch"                 // a claim did not match, and the request or the ledger rejects mismatches
	RefusalKeyConflict RefusalReason = "idempotency_key_conflict" // another event already claims the idempotency key
)

// maxRefusedBytes is the approximate maximum length, in bytes, of the failed checks listed in a
// record_refused event. The limit ensures that the event fits in an entry. The event's mismatches
// member counts all failed checks, including those not listed.
const maxRefusedBytes = 32 << 10

// AppendRefusal appends the body of the event that logs a refusal, with the record's digest and the
// failed checks. For RefusalKeyConflict, first is the seq of the event that claims the idempotency key.
func (r *Record) AppendRefusal(dst []byte, e EventContext, why RefusalReason, first uint64) []byte {
	mismatches := r.Mismatches()
	checks := func(w *pyjson.Builder) {
		w.BeginMember("checks")
		w.BeginObject()
		for _, c := range mismatches {
			if len(w.Buf) > maxRefusedBytes {
				break
			}
			w.BeginMember(c.Field)
			c.append(w)
		}
		w.EndObject()
	}
	refused := RefusalFields{Kind: r.Kind, Reason: why, MismatchCount: uint64(len(mismatches)), FirstSeq: first}
	common := fields.CommonFields{Digest: r.Digest, IdempotencyKeyDigest: e.IdempotencyKeyDigest, RunID: r.common.RunID}
	return appendEvent(&pyjson.Builder{Buf: dst}, KindRecordRefused, e, checks, func(w *pyjson.Builder) { refused.Append(w, &common) })
}

// RefusalFields holds the fields of a record_refused event.
type RefusalFields struct {
	Kind          Kind // kind of the refused record or action
	Reason        RefusalReason
	MismatchCount uint64 // number of failed checks, including those that the event does not list
	FirstSeq      uint64 // seq of the event that claims the idempotency key; set only for RefusalKeyConflict
}

// Append implements fields.Fields.
func (f *RefusalFields) Append(w *pyjson.Builder, c *fields.CommonFields) {
	w.BeginSortedObject()
	w.AddDigest("digest", c.Digest)
	if f.Reason == RefusalKeyConflict {
		w.AddUint("first_seq", f.FirstSeq)
		if c.IdempotencyKeyDigest != nil {
			w.AddDigest("idempotency_key", *c.IdempotencyKeyDigest)
		}
	}
	w.AddText("kind", []byte(f.Kind))
	w.AddUint("mismatches", f.MismatchCount)
	w.AddText("reason", []byte(f.Reason))
	w.AddText("run_id", c.RunID)
	w.EndObject()
}

// Check implements fields.Fields.
func (f *RefusalFields) Check() error {
	if f.Reason != RefusalKeyConflict && f.Reason != RefusalMismatch {
		return fmt.Errorf("the event's reason is %.100q, which is not a known reason for a refusal", f.Reason)
	}
	return nil
}
