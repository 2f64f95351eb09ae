// Package event reads the events of a log back: an entry (specification 1.7) is
// parsed once, and each kind of event has a struct with what it says. Nothing
// here validates: what the ledger wrote is trusted, what is missing is empty.
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
	// Checks and Detail are the members checks and record of the body.
	Checks, Detail pyjson.Value
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
	for name, value := range d.document.Root().Members() {
		switch string(name.Text()) {
		case "checks":
			e.Checks = value
		case "kind":
			e.Kind = kindOf(value.Text())
		case "record":
			e.Detail = value
		case "seq":
			e.Seq = Number(value)
		case "time":
			e.Time, _ = record.ParseTime(value.Text())
		}
	}
	if e.Kind == "" {
		return Event{}, errors.New("its body has no kind")
	}
	return e, nil
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
func text(v pyjson.Value) []byte {
	if v.Kind() != pyjson.String {
		return nil
	}
	return v.Text()
}
