package record

import (
	"strconv"
	"unicode/utf8"

	"colophon/ledger/record/pyjson"
)

// maxListedSeqs bounds the records that a RedactionRequest names one by one.
const maxListedSeqs = 1000

// NewRedaction is the verb that erases the content of records (spec: Redactions). reason is
// valid UTF-8, of 1 to 4,096 bytes; seqs is not empty.
func NewRedaction(reason string, seqs *SeqList) *Verb {
	return newVerb(ContentRedacted, &RedactionFields{Reason: []byte(reason), Seqs: seqs})
}

// ParseRedaction decodes `{"reason"}` for the record that is event seq. The error
// is an *Error.
func ParseRedaction(seq uint64, body []byte) (*Verb, error) {
	seqs := new(SeqList)
	seqs.Add(seq)
	f := &RedactionFields{Seqs: seqs}
	return parseVerb(ContentRedacted, f, body, func(o object) { f.Reason = o.requiredReason("reason") }, "reason")
}

// RedactionRequest asks to erase the content of many records, or what that would
// do (spec: Redactions).
type RedactionRequest struct {
	Reason string
	// Filter is what the records must have, by the names of query parameters; nil
	// where Seqs says which they are. One of the two is not empty.
	Filter map[string]string
	Seqs   []uint64 // in any order, each once
	DryRun bool
	// AsOf is the tree size that Filter is about. It is given where DryRun is
	// false.
	AsOf *uint64
}

// ParseRedactionRequest decodes `{"reason", "filter" | "seqs", "dry_run"?,
// "as_of"?}`. What is not said to be none is a dry run. The error is an *Error.
func ParseRedactionRequest(body []byte) (*RedactionRequest, error) {
	var document pyjson.Document
	if err := document.ParseWithin(body, DefaultLimits().Values); err != nil {
		return nil, syntaxError(err)
	}
	var d decoder
	o := d.object(document.Root(), "", "reason", "filter", "seqs", "dry_run", "as_of")
	r := &RedactionRequest{
		Reason: string(o.requiredReason("reason")),
		Filter: o.filter("filter"),
		Seqs:   o.seqs("seqs"),
		DryRun: o.flag("dry_run", true),
		AsOf:   o.seq("as_of"),
	}
	filtered, listed := o.member("filter").Given(), o.member("seqs").Given()
	switch {
	case d.failed():
	case filtered == listed:
		d.invalid("", "must have either filter or seqs, which say what records it is about")
	case !r.DryRun && r.AsOf == nil:
		d.invalid("/as_of", "is required where dry_run is false: the one that a dry run has answered")
	}
	if d.failed() {
		return nil, d.err()
	}
	return r, nil
}

// maxFilters bounds the parameters of a filter, like those of a URL.
const maxFilters = 64

// filter is an object of at least one parameter, each a string or a number in
// plain decimal.
func (o object) filter(name string) map[string]string {
	v := o.typed(name, pyjson.Object, "an object")
	if !v.Given() {
		return nil
	}
	if v.Len() > maxFilters {
		o.d.invalid(o.at(name), "has %d members, at most %d are allowed", v.Len(), maxFilters)
		return nil
	}
	values := make(map[string]string)
	for parameter, value := range v.Members() {
		pointer := string(pyjson.AppendPointer([]byte(o.at(name)), parameter.Text()))
		switch {
		case o.d.full():
			return nil
		case !utf8.Valid(parameter.Text()):
			o.d.invalid(o.at(name), "a parameter's name %s", loneSurrogate)
		case !value.Given():
		case value.Kind() == pyjson.Integer:
			values[string(parameter.Text())] = string(value.Raw())
		case value.Kind() != pyjson.String || pyjson.HasLoneSurrogate(value.Text()):
			o.d.invalid(pointer, "must be a string of valid UTF-8")
		default:
			values[string(parameter.Text())] = string(value.Text())
		}
	}
	if len(values) == 0 && !o.d.failed() {
		o.d.invalid(o.at(name), "must not be empty: it would be about all records of the ledger")
	}
	return values
}

// seqs is a list of the numbers of events.
func (o object) seqs(name string) []uint64 {
	list := o.array(name)
	if !list.Given() {
		return nil
	}
	if n := list.Len(); n == 0 || n > maxListedSeqs {
		o.d.invalid(o.at(name), "has %d elements, it must have 1 to %d", n, maxListedSeqs)
		return nil
	}
	places := make(map[uint64]int)
	seqs := make([]uint64, 0, list.Len())
	for e := range list.Elements() {
		i := len(seqs)
		seq, err := parseSeq(e)
		first, repeated := places[seq]
		switch {
		case o.d.full():
			return nil
		case err != nil:
			o.d.invalid(o.element(name, i), "must be the number of an event")
		case repeated:
			o.d.invalid(o.element(name, i), "repeats element %d; list each event once", first)
		default:
			places[seq] = i
		}
		seqs = append(seqs, seq)
	}
	return seqs
}

// seq is the number of an event, or of events; nil when not given.
func (o object) seq(name string) *uint64 {
	v := o.member(name)
	if !v.Given() {
		return nil
	}
	seq, err := parseSeq(v)
	if err != nil {
		o.d.invalid(o.at(name), "must be a number from 0 to %s in plain decimal", strconv.FormatUint(1<<64-1, 10))
		return nil
	}
	return &seq
}

// flag is true or false, and what it is when not given.
func (o object) flag(name string, absent bool) bool {
	if !o.member(name).Given() {
		return absent
	}
	return o.requiredFlag(name)
}
