// Package event reads event bodies (spec: Event body). An entry is parsed once, and the fields for
// its kind are read on demand. Packages record and fields define the types of these fields. Package
// record writes events, and Body.Encode re-encodes an event that has been read.
//
// Reading does not validate: a member that is missing or has the wrong type is read as empty. An
// event is valid if Body.Encode returns the bytes that were read and Body.Check returns nil.
package event

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
)

// Event is one decoded entry. Its slices, and the slices in the fields read from it, belong to the
// Decoder. They are valid until the Decoder decodes the next entry.
type Event struct {
	Seq      uint64
	Time     time.Time // time of the event in UTC
	Kind     record.Kind
	Hash     [32]byte // event_hash of this event
	PrevHash [32]byte // event_hash of the previous event
	// Actor, Ledger, and TimeText are members of the body. TimeText is the time as formatted in the
	// body.
	Actor, Ledger, TimeText []byte
	// Checks, Record, Rules, and Version are the members "checks", "record", "rules", and "v" of
	// the body.
	Checks, Record, Rules, Version pyjson.Value
}

// Decoder decodes entries of a log as events. The zero Decoder is ready to use. It is not safe for
// concurrent use.
type Decoder struct{ document pyjson.Document }

// Decode returns the event that an entry contains. The entry must not change while the event is in
// use.
func (d *Decoder) Decode(entry []byte) (Event, error) {
	var e Event
	if len(entry) < len(e.PrevHash) {
		return Event{}, fmt.Errorf("an entry of %d bytes is too short to contain prev_event_hash", len(entry))
	}
	body := entry[copy(e.PrevHash[:], entry):]
	e.Hash = sha256.Sum256(entry)
	if err := d.document.Parse(body); err != nil {
		return Event{}, err
	}
	e.read(d.document.Root())
	if e.Kind == "" {
		return Event{}, errors.New("the body of the entry has no kind")
	}
	e.Time, _ = moment.Parse(e.TimeText)
	return e, nil
}

// Read converts a parsed event body to an Event. It does not set Hash, PrevHash, or Time.
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
			e.Record = value
		case "rules":
			e.Rules = value
		case "seq":
			e.Seq = Uint64OrZero(value)
		case "time":
			e.TimeText = text(value)
		case "v":
			e.Version = value
		}
	}
}

// kindOf converts the text of a kind. It does not allocate if the text is one of record.RecordKinds.
func kindOf(text []byte) record.Kind {
	for _, kind := range record.RecordKinds {
		if string(text) == string(kind) {
			return kind
		}
	}
	return record.Kind(text)
}

// MayHaveCheck returns false only if no check has the given result. It searches the source of the checks, which
// is faster than reading each of them, and nearly always enough to rule a mismatch out. The event must be in
// canonical JSON, as all valid events are.
func (e *Event) MayHaveCheck(result record.CheckResult) bool {
	return bytes.Contains(e.Checks.Raw(), []byte(result))
}

// CountChecks returns the number of checks that have the given result.
func (e *Event) CountChecks(result record.CheckResult) (n int) {
	for _, check := range e.Checks.Members() {
		if string(check.Member("result").Text()) == string(result) {
			n++
		}
	}
	return n
}

// Uint64OrZero returns the value of a non-negative integer, or 0 if v is anything else. An integer that
// does not fit in 64 bits wraps around.
func Uint64OrZero(v pyjson.Value) uint64 {
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

// text returns the value of a JSON string. It returns nil for any other kind of value.
func text(v pyjson.Value) []byte { return v.Text() }
