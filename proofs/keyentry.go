package proofs

import (
	"fmt"

	"colophon/ledger/record/pyjson"
)

// Kinds of the events that define keys (spec: Key rotation events).
const (
	kindCreated = "ledger_created"
	kindRotated = "key_rotated"
)

// BeginKeyHistory returns the key history after the first entry of a log. It returns
// ErrMalformed if the entry is not a ledger_created event.
func BeginKeyHistory(entry []byte) (*KeyHistory, error) {
	record, err := recordOfKind(entry, kindCreated)
	if err != nil {
		return nil, err
	}
	var r reader
	first := r.verifier(record.Member("verifier_key"), "verifier_key")
	if r.err != nil {
		return nil, r.err
	}
	return NewKeyHistory(first), nil
}

// AddEntry adds the change of the entry at seq. It returns ErrMalformed if the entry is not a
// key_rotated event, or an error of Add.
func (h *KeyHistory) AddEntry(seq uint64, entry []byte) error {
	record, err := recordOfKind(entry, kindRotated)
	if err != nil {
		return err
	}
	return h.AddRecord(seq, record)
}

// AddRecord adds the change in the record of the key_rotated event at seq.
func (h *KeyHistory) AddRecord(seq uint64, record pyjson.Value) error {
	change, err := ParseKeyChange(record)
	if err != nil {
		return err
	}
	return h.Add(seq, change)
}

// recordOfKind returns the record of an entry's event, which must be of that kind.
func recordOfKind(entry []byte, kind string) (pyjson.Value, error) {
	_, body, err := SplitEntry(entry)
	if err != nil {
		return pyjson.Value{}, err
	}
	var document pyjson.Document
	if err := document.Parse(body); err != nil {
		return pyjson.Value{}, fmt.Errorf("%w: event: %w", ErrMalformed, err)
	}
	if got := document.Root().Member("kind").Text(); string(got) != kind {
		return pyjson.Value{}, fmt.Errorf("%w: the event is a %.100q, it must be a %s", ErrMalformed, got, kind)
	}
	return document.Root().Member("record"), nil
}
