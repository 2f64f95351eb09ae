package record

import (
	"unicode/utf8"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/seqs"
	"colophon/ledger/record/strict"
)

// maxListedSeqs is the maximum number of records that a Selection can list in seqs.
const maxListedSeqs = 1000

// NewRedaction returns the action that erases the content of records (spec: Redactions). reason
// must be valid UTF-8 of 1 to 4,096 bytes, and seqs must not be empty.
func NewRedaction(reason string, seqs *seqs.List) *Action {
	return newAction(KindContentRedacted, &fields.Redaction{Reason: []byte(reason), Seqs: seqs})
}

// ParseRedaction decodes the body `{"reason"}` of a redaction of the record at seq. If the body is
// not valid, the error is a *strict.Error.
func ParseRedaction(seq uint64, body []byte) (*Action, error) {
	seqs := new(seqs.List)
	seqs.Append(seq)
	f := &fields.Redaction{Seqs: seqs}
	return parseAction(KindContentRedacted, f, body, func(o strict.Object) { f.Reason = readReason(o, "reason") }, "reason")
}

// Selection selects the records to which a bulk request applies (spec: Redactions; States).
type Selection struct {
	// Filter maps the query parameters that select the records to their values. Exactly one of
	// Filter and Seqs is set; the other is nil.
	Filter map[string]string
	Seqs   []uint64 // distinct event numbers, in any order
	DryRun bool     // whether only to report what the request would do
	// AsOf is the tree size at which Filter is evaluated. It is required if DryRun is false.
	AsOf *uint64
}

var selectionNames = []string{"filter", "seqs", "dry_run", "as_of"}

// readSelection decodes the members `{"filter" | "seqs", "dry_run"?, "as_of"?}`. The default of
// dry_run is true.
func readSelection(o strict.Object) Selection {
	s := Selection{Filter: readFilter(o, "filter"), Seqs: readSeqs(o, "seqs"), DryRun: o.Bool("dry_run", true), AsOf: o.Uint64("as_of")}
	filtered, listed := o.Member("filter").IsGiven(), o.Member("seqs").IsGiven()
	switch {
	case o.Decoder.HasProblems():
	case filtered == listed:
		o.Decoder.ReportInvalid("", `must have either "filter" or "seqs" to select records`)
	case !s.DryRun && s.AsOf == nil:
		o.Decoder.ReportInvalid("/as_of", "is required if dry_run is false; use the as_of that the dry run returned")
	}
	return s
}

// RedactionRequest is a request to erase the content of many records (spec: Redactions). If DryRun
// is set, the ledger only reports what it would erase.
type RedactionRequest struct {
	Reason string
	Selection
}

// ParseRedactionRequest decodes `{"reason", "filter" | "seqs", "dry_run"?, "as_of"?}`. If the body
// is not valid, the error is a *strict.Error.
func ParseRedactionRequest(body []byte) (r *RedactionRequest, err error) {
	err = parseRequest(body, "", func(o strict.Object) {
		r = &RedactionRequest{string(readReason(o, "reason")), readSelection(o)}
	}, append([]string{"reason"}, selectionNames...)...)
	return r, err
}

// maxFilters is the maximum number of parameters in a filter. A URL has the same limit.
const maxFilters = 64

// readFilter decodes a filter: an object with at least one parameter, whose values are strings or
// numbers in plain decimal.
func readFilter(o strict.Object, name string) map[string]string {
	v := o.MemberOfKind(name, pyjson.Object, "an object")
	if !v.IsGiven() {
		return nil
	}
	if v.Len() > maxFilters {
		o.ReportInvalid(name, "has %d members, but at most %d are allowed", v.Len(), maxFilters)
		return nil
	}
	values := make(map[string]string)
	for parameter, value := range v.Members() {
		pointer := string(pyjson.AppendPointerToken([]byte(o.MemberPointer(name)), parameter.Text()))
		switch {
		case o.Decoder.IsFull():
			return nil
		case !utf8.Valid(parameter.Text()):
			o.ReportInvalid(name, "a parameter's name %s", strict.LoneSurrogateDetail)
		case !value.IsGiven():
		case value.Kind() == pyjson.Integer:
			values[string(parameter.Text())] = string(value.Raw())
		case value.Kind() != pyjson.String || pyjson.HasLoneSurrogate(value.Text()):
			o.Decoder.ReportInvalid(pointer, "must be a string of valid UTF-8")
		default:
			values[string(parameter.Text())] = string(value.Text())
		}
	}
	if len(values) == 0 && !o.Decoder.HasProblems() {
		o.ReportInvalid(name, "must not be empty: an empty filter would select all records of the ledger")
	}
	return values
}

// readSeqs decodes a list of sequence numbers, which must be distinct.
func readSeqs(o strict.Object, name string) []uint64 {
	list := o.Array(name)
	if !list.IsGiven() {
		return nil
	}
	if n := list.Len(); n == 0 || n > maxListedSeqs {
		o.ReportInvalid(name, "has %d elements, but must have 1 to %d", n, maxListedSeqs)
		return nil
	}
	places := make(map[uint64]int)
	seqs := make([]uint64, 0, list.Len())
	for e := range list.Elements() {
		i := len(seqs)
		seq, err := strict.ParseUint64(e)
		first, repeated := places[seq]
		switch {
		case o.Decoder.IsFull():
			return nil
		case err != nil:
			o.Decoder.ReportInvalid(o.ElementPointer(name, i), "must be the seq of an event")
		case repeated:
			o.Decoder.ReportInvalid(o.ElementPointer(name, i), "repeats element %d; list each event once", first)
		default:
			places[seq] = i
		}
		seqs = append(seqs, seq)
	}
	return seqs
}
