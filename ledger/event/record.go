package event

import (
	"iter"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
)

// RunID returns the run_id of a record, or nil if it has none.
func (e *Event) RunID() []byte { return text(e.Record.Member("run_id")) }

// RecordDigest returns the digest of the record or request that the event records (spec: Idempotency), or
// the zero hash if the event contains no digest.
func (e *Event) RecordDigest() record.Hash { return digest(e.Record.Member("digest")) }

// IdempotencyKey returns the digest of the event's idempotency key, or nil if it has none.
func (e *Event) IdempotencyKey() *record.Hash {
	v := e.Record.Member("idempotency_key")
	if !v.IsGiven() {
		return nil
	}
	key := digest(v)
	return &key
}

// ClaimedIdempotencyKey is like IdempotencyKey, but returns nil if the event is a refusal. A
// refusal may name a key, but does not claim it.
func (e *Event) ClaimedIdempotencyKey() *record.Hash {
	if e.Kind == record.KindRecordRefused {
		return nil
	}
	return e.IdempotencyKey()
}

// OccurredAt returns the time at which a record occurred, according to its timestamp. The second
// result is false if the record has no timestamp.
func (e *Event) OccurredAt() (time.Time, bool) {
	return moment.Parse(text(e.Record.Member("timestamp")))
}

// Labels yields the name and the value of each label of a record.
func (e *Event) Labels() iter.Seq2[[]byte, []byte] { return texts(e.Record.Member("labels")) }

// EffectiveHashes yields the name and the value of each effective hash of a record, except null
// ones (spec: Effective hashes).
func (e *Event) EffectiveHashes() iter.Seq2[[]byte, []byte] { return texts(e.Record.Member("hashes")) }

// Producer returns the ID of a record's producer, and the number that the producer assigned to the
// record. id is nil if the record has no producer.
func (e *Event) Producer() (id []byte, seq uint64) {
	producer := e.Record.Member("producer")
	return text(producer.Member("id")), Uint64OrZero(producer.Member("seq"))
}

// texts yields the name and text of each string member of an object.
func texts(object pyjson.Value) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for name, value := range object.Members() {
			if value.Kind() == pyjson.String && !yield(name.Text(), value.Text()) {
				return
			}
		}
	}
}

// Refusal holds the fields of a record_refused event.
type Refusal = record.RefusalFields

// Refusal reads the fields of a record_refused event.
func (e *Event) Refusal() Refusal {
	return Refusal{
		Kind:          kindOf(e.Record.Member("kind").Text()),
		Reason:        record.RefusalReason(e.Record.Member("reason").Text()),
		MismatchCount: Uint64OrZero(e.Record.Member("mismatches")),
		FirstSeq:      Uint64OrZero(e.Record.Member("first_seq")),
	}
}
