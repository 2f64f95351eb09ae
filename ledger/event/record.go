package event

import (
	"iter"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// RunID is the run of a record; nil if it names none.
func (e *Event) RunID() []byte { return text(e.Detail.Member("run_id")) }

// Digest is that of the record or the request that an event is about (spec: Idempotency); the
// zero hash if it has none.
func (e *Event) Digest() record.Hash { return digest(e.Detail.Member("digest")) }

// Key is the digest of the idempotency key that an event has; nil if it has none.
func (e *Event) Key() *record.Hash {
	v := e.Detail.Member("idempotency_key")
	if !v.Given() {
		return nil
	}
	key := digest(v)
	return &key
}

// Occurred is the timestamp that a record came with; false if it has none.
func (e *Event) Occurred() (time.Time, bool) {
	return record.ParseTime(text(e.Detail.Member("timestamp")))
}

// Labels yields name and value of each label of a record.
func (e *Event) Labels() iter.Seq2[[]byte, []byte] { return texts(e.Detail.Member("labels")) }

// Hashes yields the effective hashes of a record, by name; those that are null
// are left out (spec: Effective hashes).
func (e *Event) Hashes() iter.Seq2[[]byte, []byte] { return texts(e.Detail.Member("hashes")) }

// Producer is who counts the record among its own, and as which (0 and upwards);
// a nil id if there is none.
func (e *Event) Producer() (id []byte, seq uint64) {
	producer := e.Detail.Member("producer")
	return text(producer.Member("id")), Number(producer.Member("seq"))
}

// texts yields the members of an object that are strings.
func texts(object pyjson.Value) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for name, value := range object.Members() {
			if value.Kind() == pyjson.String && !yield(name.Text(), value.Text()) {
				return
			}
		}
	}
}

// Refusal is what record_refused says.
type Refusal = record.RefusalFields

// Refusal reads a record_refused event.
func (e *Event) Refusal() Refusal {
	return Refusal{
		Kind:       kindOf(e.Detail.Member("kind").Text()),
		Reason:     record.Refusal(e.Detail.Member("reason").Text()),
		Mismatches: Number(e.Detail.Member("mismatches")),
		FirstSeq:   Number(e.Detail.Member("first_seq")),
	}
}
