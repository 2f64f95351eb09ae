package records

import (
	"bytes"
	"slices"
	"time"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// everyKind takes the place of a kind's number in the keys that list records of all kinds.
const everyKind = 0

// kindNumber returns the number that stands for a kind of record in keys. It returns everyKind for
// kinds of events that are not records.
func kindNumber(kind record.Kind) byte {
	return byte(1 + slices.Index(record.RecordKinds[:], kind))
}

// occurrenceKey appends the key of a record that occurred at the given time. Later times come
// first. Among records with the same time, the newest comes first.
func occurrenceKey(k rowstore.Keyspace, dst []byte, kind byte, at time.Time, seq uint64) []byte {
	var scratch [index.TimeBytes + rowstore.SeqSize]byte
	return appendInverted(append(k.AppendPrefix(dst, occurrences), kind), rowstore.AppendSeq(index.AppendTime(scratch[:0], at), seq))
}

// occurrencesEnd returns the key just after the keys of all records that occurred at or after the
// given time.
func occurrencesEnd(k rowstore.Keyspace, kind byte, at time.Time) []byte {
	return append(occurrenceKey(k, nil, kind, at, 0), 0)
}

func appendInverted(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, ^c)
	}
	return dst
}

// horizonRow is the only row of occurredUntil.
var horizonRow = [1]byte{}

// occurred writes the time at which a record occurred, if the record has a timestamp.
func (f *Deriver) occurred(e *event.Event) {
	at, ok := e.OccurredAt()
	if !ok {
		return
	}
	for _, kind := range [...]byte{everyKind, kindNumber(e.Kind)} {
		f.value = occurrenceKey(f.Rows.Keyspace, f.value[:0], kind, at, e.Seq)
		f.Rows.Set(f.value, nil)
	}
	_, until, found := f.Rows.NewestVersion(occurredUntil, horizonRow[:])
	var scratch [index.TimeBytes]byte
	if !found || bytes.Compare(index.AppendTime(scratch[:0], at), until) >= 0 {
		// Round the time up to a whole second, so that most records of a busy ledger do not have to write a
		// new one.
		f.Rows.Put(occurredUntil, horizonRow[:], e.Seq, index.AppendTime(scratch[:0], time.Unix(at.Unix()+1, 0)))
	}
}
