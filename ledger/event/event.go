// Package event is the event body (spec: Event body): an entry is parsed once, and the
// fields of each kind are read from it. Their types and the writer of them are those of
// package record, which makes events; Append writes an event again that was read.
//
// Reading does not validate: what is missing or has another type is empty. An event is right
// if it is written again as the same bytes and its fields pass their Check.
package event

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// Event is one entry. Its slices and those of what Detail is read into belong to
// the Decoder, and hold until it decodes the next entry.
type Event struct {
	Seq  uint64
	Time time.Time // UTC
	Kind record.Kind
	Hash [32]byte // event_hash
	Prev [32]byte // event_hash of the event before
	// Actor, Ledger and TimeText are members of the body; TimeText is what Time is made of.
	Actor, Ledger, TimeText []byte
	// Checks and Detail are the members checks and record of the body, Rules and Version its
	// rules and v.
	Checks, Detail, Rules, Version pyjson.Value
}

// Decoder reads entries; the zero Decoder is ready. It is not safe for
// concurrent use.
type Decoder struct{ document pyjson.Document }

// Decode reads an entry, which must not change while its event is used.
func (d *Decoder) Decode(entry []byte) (Event, error) {
	var e Event
	if len(entry) < len(e.Prev) {
		return Event{}, fmt.Errorf("an entry of %d bytes", len(entry))
	}
	body := entry[copy(e.Prev[:], entry):]
	e.Hash = sha256.Sum256(entry)
	if err := d.document.Parse(body); err != nil {
		return Event{}, err
	}
	e.read(d.document.Root())
	if e.Kind == "" {
		return Event{}, errors.New("its body has no kind")
	}
	e.Time, _ = record.ParseTime(e.TimeText)
	return e, nil
}

// Read reads a body, whose Hash, Prev and Time it leaves alone.
func Read(body pyjson.Value) (e Event) {
	e.read(body)
	return e
}

func (e *Event) read(body pyjson.Value) {
	for name, value := range body.Members() {
		switch string(name.Text()) {
		case "actor":
			e.Actor = text(value)
		case "checks":
			e.Checks = value
		case "kind":
			e.Kind = kindOf(value.Text())
		case "ledger":
			e.Ledger = text(value)
		case "record":
			e.Detail = value
		case "rules":
			e.Rules = value
		case "seq":
			e.Seq = Number(value)
		case "time":
			e.TimeText = text(value)
		case "v":
			e.Version = value
		}
	}
}

// kindOf spares the allocation for the kinds that records have.
func kindOf(text []byte) record.Kind {
	for _, kind := range record.Kinds {
		if string(text) == string(kind) {
			return kind
		}
	}
	return record.Kind(text)
}

// Number is a non-negative integer of at most 64 bits, 0 where there is none.
func Number(v pyjson.Value) uint64 {
	if v.Kind() != pyjson.Integer {
		return 0
	}
	var n uint64
	for _, digit := range v.Raw() {
		if digit < '0' || digit > '9' {
			return 0
		}
		n = n*10 + uint64(digit-'0')
	}
	return n
}

// text is a string's text, nil for null and where there is none.
func text(v pyjson.Value) []byte { return v.Text() }
