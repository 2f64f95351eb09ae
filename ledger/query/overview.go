package query

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"colophon/client/wire"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/rates"
	"colophon/ledger/query/forms"
	"colophon/ledger/query/search"
	"colophon/ledger/record/moment"
)

// overviewQuestions lists the questions about a ledger as a whole: the values of its runs, the outcomes of its
// records over time, and what a text can refer to (spec: Values; Rates; Search).
var overviewQuestions = []Question{
	{Path: "/drift/values", SharedParameters: PageParameters | ProofsParameter, ParameterNames: []string{"of"}, ParseParameters: askWith(parseValuesOf, RunValues)},
	{Path: "/rates", ParameterNames: []string{"since", "until", "step"}, ParseParameters: askWith(parseRates, Rates)},
	{Path: "/search", SharedParameters: ProofsParameter, ParameterNames: []string{"q"}, AlwaysIncludesNames: true, ParseParameters: askWith(parseSearch, Search)},
}

// valueNames contains the accepted values of the parameter "of".
var valueNames = []string{"temperature", "max_tokens", groups.LabelListName}

func parseValuesOf(p Parameters) (string, error) {
	if !p.Has("of") {
		return "", invalid("of", "is required: temperature, max_tokens or label")
	}
	return oneOf("of", p["of"], "", valueNames)
}

// RunValues lists the distinct temperatures, token limits, or label names that occur in runs in any state. The
// parameter "of" selects what to list.
func RunValues(v *View, of string) (*wire.Page[wire.RunValue], error) {
	found, next, err := groups.ListValues(v.View, of, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, func(v *View, value *groups.Value) wire.RunValue {
		return wire.RunValue{RowMembers: v.row(value.Seq), Value: value.Text}
	})
}

func parseRates(p Parameters) (q rates.Query, err error) {
	if q.TimeRange, err = p.bounds(); err != nil {
		return q, err
	}
	seconds, given, err := p.ParseUint("step")
	if err == nil && given && (seconds == 0 || seconds > rates.MaxStepSeconds) {
		err = invalid("step", "must be a number of seconds from 1 to %d", rates.MaxStepSeconds)
	}
	q.StepSeconds = int64(min(seconds, rates.MaxStepSeconds)) // larger values are refused above
	return q, err
}

// Rates counts records by outcome, in consecutive periods of equal length.
func Rates(v *View, q rates.Query) (*wire.Rates, error) {
	found, step, err := rates.List(v.View, q)
	if err != nil {
		return nil, tooManyPeriods(err)
	}
	answer := &wire.Rates{Step: uint64(step), Rows: rowsOf(v, found, rateRow)}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

// tooManyPeriods turns rates.ErrTooManyPeriods into an Error that says what to change. It returns other errors unchanged.
func tooManyPeriods(err error) error {
	if errors.Is(err, rates.ErrTooManyPeriods) {
		return invalid("step", `would divide the time range into more than %d periods; use a longer "step" or a later "since"`, rates.MaxPeriods)
	}
	return err
}

func rateRow(_ *View, r *rates.Period) wire.RatePeriod {
	row := wire.RatePeriod{Since: wire.Time(r.Since.Format(moment.Layout)), Until: wire.Time(r.Until.Format(moment.Layout)), Events: r.EndSeq - r.FirstSeq,
		Mismatches: r.Mismatches, NoOutput: r.RecordsWithoutOutput, Drift: make(map[wire.DriftCause]uint64, len(r.DriftCounts))}
	if row.Events > 0 {
		row.FirstSeq = &r.FirstSeq
	}
	for cause, n := range r.DriftCounts {
		row.Drift[wire.DriftCause(cause)] = n
	}
	return row
}

// maxQuery is the maximum length of a search text, in bytes.
const maxQuery = 256

func parseSearch(p Parameters) (string, error) {
	q := strings.Join(strings.Fields(p["q"]), " ")
	switch {
	case q == "":
		return "", invalid("q", "is required: a hash or its first digits, an event number, or text to search for")
	case len(q) > maxQuery:
		return "", invalid("q", "is %d bytes long, but at most %d are allowed", len(q), maxQuery)
	}
	return q, nil
}

// Search finds what a text can refer to: an event, a hash, a field value that occurs in records, or the first words
// of a longer text.
func Search(v *View, text string) (*wire.SearchAnswer, error) {
	var hashes []string
	for _, name := range slices.Sorted(maps.Keys(forms.FormatsByName)) {
		if form := forms.FormatsByName[name]; form == forms.Hash || form == forms.ChunkHash {
			hashes = append(hashes, name)
		}
	}
	found, complete, err := search.Find(v.Context, v.View, v.NameFinder, hashes, text)
	if err != nil {
		return nil, err
	}
	answer := &wire.SearchAnswer{Complete: complete, Rows: rowsOf(v, found, func(v *View, h *search.Hit) wire.SearchHit {
		return wire.SearchHit{RowMembers: v.row(h.Seq), Type: h.Type, Value: h.Value, Name: h.DisplayName}
	})}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}
