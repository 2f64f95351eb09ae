package query

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/query/forms"
	"colophon/ledger/record"
)

// The parameters that select records.
var (
	filterNames  = []string{"state", "kind", "clock", "since", "until", "producer_seq"}
	filterValues = slices.AppendSeq([]string{"label:<name>", "stage:<name>"}, maps.Keys(forms.FormatsByName))
)

// RecordFilter selects records according to the parameters of a request.
type RecordFilter struct {
	records.Filter
	ByOccurrence bool // since, until, and the order refer to when the records occurred, not to when they were recorded

	parameters Parameters            // the request's parameters, if prefixes is not empty
	prefixes   []hashPrefixParameter // hashes given only by their first digits; completed by ResolveHashPrefixes
}

// List returns a page of the records that the filter selects, newest first.
func (f *RecordFilter) List(ctx context.Context, view *index.View, page index.PageRequest) (found []records.Record, next []byte, err error) {
	if f.ByOccurrence {
		return records.ListByOccurrence(ctx, view, f.Filter, page)
	}
	return records.List(ctx, view, f.Filter, page)
}

// SelectsAll reports whether the filter selects every record.
func (f *RecordFilter) SelectsAll() bool {
	return f.Kind == "" && f.State == "" && len(f.Values) == 0 && f.TimeRange == (index.TimeRange{})
}

// ParseRecordFilter parses the parameters that select records. If a parameter has only the first
// digits of a hash, call ResolveHashPrefixes before using the filter. The error is an *Error.
// unknown is true if the error is about an unknown parameter.
func ParseRecordFilter(p Parameters) (f RecordFilter, unknown bool, err error) {
	r := &Request{Question: &Question{ParameterNames: filterNames, ValueParameters: filterValues}}
	p = maps.Clone(p)
	r.takePrefixes(p)
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if !slices.Contains(filterNames, name) && !r.isValue(name) {
			return f, true, r.unknown(name, r.ownNames(), slices.Collect(maps.Keys(p)))
		}
		if err := r.checkValue(name, p[name]); err != nil {
			return f, false, err
		}
	}
	f, err = parseFilter(p)
	f.parameters, f.prefixes = p, r.prefixes
	return f, false, err
}

var listedKinds = append(slices.Clone(record.RecordKinds[:]), record.KindContentRedacted, record.KindNote)

// parseFilter parses parameters that have already been checked.
func parseFilter(p Parameters) (f RecordFilter, err error) {
	if f.Kind, err = oneOf("kind", p["kind"], "", listedKinds); err != nil {
		return f, err
	}
	if f.State, err = oneOf("state", p["state"], "any", record.States[:]); err != nil {
		return f, err
	}
	if f.ByOccurrence, err = p.ParseChoice("clock", "recorded", "occurred"); err != nil {
		return f, err
	}
	if f.TimeRange, err = p.bounds(); err != nil {
		return f, err
	}
	for _, name := range []string{records.NameRecordSeq, records.NameTopic} {
		if _, given := p[name]; !given {
			continue
		}
		if f.Kind != "" && f.Kind != record.KindNote {
			return f, invalid(name, `selects only notes; omit the parameter "kind"`)
		}
		f.Kind = record.KindNote
	}
	f.Values, err = parseValues(p)
	return f, err
}

// parseValues parses the parameters that are values of records. It combines producer and producer_seq into one value,
// as the index does.
func parseValues(p Parameters) (values []records.Value, err error) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if forms.ForName(name) != nil {
			values = append(values, records.Value{Name: name, Text: p[name]})
		}
	}
	number, given, err := p.ParseUint("producer_seq")
	if err != nil {
		return nil, err
	}
	if given {
		i := slices.IndexFunc(values, func(v records.Value) bool { return v.Name == "producer" })
		if i < 0 {
			return nil, invalid("producer_seq", `requires the parameter "producer", because each producer numbers its own records`)
		}
		values[i] = records.ProducerSeqValue(values[i].Text, number)
	}
	if len(values) > records.MaxFilterValues {
		return nil, invalid(values[records.MaxFilterValues].Name, "exceeds the limit: a request can filter by at most %d values", records.MaxFilterValues)
	}
	slices.SortFunc(values, func(a, b records.Value) int { return cmp.Compare(a.Name, b.Name) })
	return values, nil
}
