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

// everyKind stands in place of the number of a kind.
const everyKind = 0

// kindNumber is the number that a kind of record has in keys; everyKind of others.
func kindNumber(kind record.Kind) byte {
	return byte(1 + slices.Index(record.Kinds[:], kind))
}

// occurrenceKey is the key of a record that occurred at a time; later ones come first,
// and of those at one time the newest.
func occurrenceKey(k rowstore.Keyspace, dst []byte, kind byte, at time.Time, seq uint64) []byte {
	var scratch [index.TimeBytes + rowstore.SeqBytes]byte
	return appendInverted(append(k.Key(dst, occurrences), kind), rowstore.AppendSeq(index.AppendTime(scratch[:0], at), seq))
}

// occurrencesEnd is the key behind those of all records that occurred at a time.
func occurrencesEnd(k rowstore.Keyspace, kind byte, at time.Time) []byte {
	return append(occurrenceKey(k, nil, kind, at, 0), 0)
}

func appendInverted(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, ^c)
	}
	return dst
}

// horizonRow is the one row of occurredUntil.
var horizonRow = [1]byte{}

// occurred writes when a record says that it occurred, if it does.
func (f *Deriver) occurred(e *event.Event) {
	at, ok := e.Occurred()
	if !ok {
		return
	}
	for _, kind := range [...]byte{everyKind, kindNumber(e.Kind)} {
		f.value = occurrenceKey(f.Rows.Keys, f.value[:0], kind, at, e.Seq)
		f.Rows.Set(f.value, nil)
	}
	_, until, found := f.Rows.Newest(occurredUntil, horizonRow[:])
	var scratch [index.TimeBytes]byte
	if !found || bytes.Compare(index.AppendTime(scratch[:0], at), until) >= 0 {
		// Whole seconds spare most records of a busy ledger the row.
		f.Rows.Put(occurredUntil, horizonRow[:], e.Seq, index.AppendTime(scratch[:0], time.Unix(at.Unix()+1, 0)))
	}
}
