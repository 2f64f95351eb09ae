package proofs

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// event holds the parts of an event body that are repeated in a receipt (spec: Event body). The
// byte slices are canonical JSON.
type event struct {
	ledger, kind, time string
	seq                uint64
	hashes             []byte // record.hashes, or {} if absent
	checks             []byte // checks, or {} if absent
	shape              []byte // record.shape, or nil if absent
	failureStage       []byte // record.failure_stage, or nil if absent
	incomplete         []byte // list of members that an IPC record lacks, or nil
}

// readEvent parses an event body, which must be canonical JSON (spec: Event body).
func readEvent(body []byte) (event, error) {
	var doc pyjson.Document
	if err := doc.Parse(body); err != nil {
		return event{}, fmt.Errorf("%w: parsing the event: %w", ErrMalformed, err)
	}
	root := doc.Root()
	if pointer, found := root.FindLoneSurrogate(); found {
		return event{}, fmt.Errorf("%w: the event has a lone surrogate at %q", ErrMalformed, pointer)
	}
	if !bytes.Equal(root.AppendCanonical(make([]byte, 0, len(body)), pyjson.CompactForm), body) {
		return event{}, fmt.Errorf("%w: the event is not in canonical form", ErrMalformed)
	}
	var r reader
	e := event{
		ledger: r.text(root.Member("ledger"), "event ledger"),
		kind:   r.text(root.Member("kind"), "event kind"),
		time:   r.text(root.Member("time"), "event time"),
		seq:    r.count(root.Member("seq"), "event seq"),
		hashes: r.objectOrEmpty(root.Member("record").Member("hashes"), "event record hashes"),
		checks: r.objectOrEmpty(root.Member("checks"), "event checks"),

		shape:        canonicalOrNil(root.Member("record").Member("shape")),
		failureStage: canonicalOrNil(root.Member("record").Member("failure_stage")),
		incomplete:   incomplete(root),
	}
	return e, r.err
}

// incomplete returns the list of members that an event's IPC record lacks (spec: Receipts), as
// canonical JSON. It returns nil if the record lacks none, or if the event's record is not an IPC
// record.
func incomplete(event pyjson.Value) []byte {
	if string(event.Member("kind").Text()) != "ipc_record" {
		return nil
	}
	record := event.Member("record")
	hashes := record.Member("hashes")
	var list []byte
	for _, part := range [...]struct {
		name  string
		value pyjson.Value
	}{
		{"input", hashes.Member("input_hash")}, {"system_prompt", hashes.Member("system_prompt_hash")}, {"output", hashes.Member("output_hash")},
		{"temperature", record.Member("temperature")}, {"max_tokens", record.Member("max_tokens")}, {"seed", record.Member("seed")},
	} {
		if !part.value.IsGiven() {
			list = pyjson.AppendString(append(list, ','), []byte(part.name))
		}
	}
	if list == nil {
		return nil
	}
	list[0] = '['
	return append(list, ']')
}

// canonicalOrNil returns v as canonical JSON, or nil if v is absent.
func canonicalOrNil(v pyjson.Value) []byte {
	if v.Kind() == pyjson.Absent {
		return nil
	}
	return v.AppendCanonical(nil, pyjson.CompactForm)
}

// reader reads typed values from JSON. It keeps the first error, which wraps ErrMalformed and names
// the value.
type reader struct {
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// allowOnly returns v. It records an error unless v is an object in which every member has one of the
// given names.
func (r *reader) allowOnly(v pyjson.Value, what string, names ...string) pyjson.Value {
	if v.Kind() != pyjson.Object {
		r.fail("%s is not an object", what)
	}
	for name := range v.Members() {
		if !slices.Contains(names, string(name.Text())) {
			r.fail("%s has an unknown member %.100q", what, name.Text())
		}
	}
	return v
}

func (r *reader) text(v pyjson.Value, what string) string {
	if v.Kind() != pyjson.String {
		r.fail("%s is not a string", what)
	}
	return string(v.Text())
}

// count reads an unsigned 64-bit integer.
func (r *reader) count(v pyjson.Value, what string) uint64 {
	n, err := strconv.ParseUint(string(v.Raw()), 10, 64)
	if v.Kind() != pyjson.Integer || err != nil {
		r.fail("%s is not an unsigned 64-bit integer", what)
	}
	return n
}

func (r *reader) hash(v pyjson.Value, what string) Hash {
	h, err := ParseHash(r.text(v, what))
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, err)
	}
	return h
}

// flag reads an optional member whose only valid value is true. It refuses false, because the
// ledger never writes it.
func (r *reader) flag(v pyjson.Value, what string) bool {
	if v.Kind() != pyjson.Absent && v.Kind() != pyjson.True {
		r.fail("%s must be true if present", what)
	}
	return v.Kind() == pyjson.True
}

// hashList reads a list of at most maxPath hashes, such as an inclusion proof.
func (r *reader) hashList(v pyjson.Value, what string) []Hash {
	if v.Kind() != pyjson.Array || v.Len() > maxPath {
		r.fail("%s is not an array of at most %d hashes", what, maxPath)
		return nil
	}
	hashes := make([]Hash, 0, v.Len())
	for element := range v.Elements() {
		hashes = append(hashes, r.hash(element, what))
	}
	return hashes
}

// object reads an object and returns it as canonical JSON.
func (r *reader) object(v pyjson.Value, what string) []byte {
	if v.Kind() != pyjson.Object {
		r.fail("%s is not an object", what)
	}
	return v.AppendCanonical(nil, pyjson.CompactForm)
}

// objectOrEmpty reads an object and returns it as canonical JSON. It returns {} if v is absent.
func (r *reader) objectOrEmpty(v pyjson.Value, what string) []byte {
	if v.Kind() == pyjson.Absent {
		return []byte("{}")
	}
	return r.object(v, what)
}
