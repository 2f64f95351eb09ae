package query

import (
	"time"

	"colophon/client/wire"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/rates"
	"colophon/ledger/record/moment"
)

// Questions about a ledger as a whole: what its runs have, and how its records turned out over time
// (spec: Values; Rates).
var overviewQuestions = []Question{
	{Path: "/drift/values", Takes: Pages | Proofs, Names: []string{"of"}, Ask: asking(parseValuesOf, Values)},
	{Path: "/rates", Names: []string{"since", "until", "step"}, Ask: asking(parseRates, Rates)},
}

// listed are the names whose values the index lists.
var listed = []string{"temperature", "max_tokens", groups.LabelNames}

func parseValuesOf(p Parameters) (string, error) {
	if !p.Has("of") {
		return "", invalid("of", "is required: temperature, max_tokens or label")
	}
	return oneOf("of", p["of"], "", listed)
}

// Values lists the values that runs of any state have for a name, or the names of their labels.
func Values(v *View, of string) (*wire.Page[wire.RunValue], error) {
	found, next, err := groups.Values(v.View, of, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, func(v *View, value *groups.Value) wire.RunValue {
		return wire.RunValue{Row: v.row(value.Seq), Value: value.Text}
	})
}

// RatesQuery selects the periods of rates.
type RatesQuery struct {
	Since, Until *time.Time    // nil: that of the first, or of the last event
	Step         time.Duration // length of a period; 0 means one that fits
}

// maxSteps limits the number of periods of an answer. fewSteps is the number if the request names no
// step.
const (
	maxSteps = 500
	fewSteps = 60
)

// steps are the lengths of periods that Rates chooses from, in seconds.
var steps = [...]uint64{1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 28 * 86400, 364 * 86400}

func parseRates(p Parameters) (q RatesQuery, err error) {
	bounds, err := p.bounds()
	if err != nil {
		return q, err
	}
	q.Since, q.Until = bounds.Since, bounds.Until
	seconds, given, err := p.Count("step")
	const most = 1000 * 365 * 86400
	if err == nil && given && (seconds == 0 || seconds > most) {
		err = invalid("step", "must be a number of seconds from 1 to %d", most)
	}
	q.Step = time.Duration(seconds) * time.Second
	return q, err
}

// Rates counts records by how they turned out, in consecutive periods of one length. A period begins
// at a multiple of its length after 1970, in UTC.
func Rates(v *View, q RatesQuery) (*wire.Rates, error) {
	since, until, err := q.period(v)
	if err != nil {
		return nil, err
	}
	step := q.Step
	for i := 0; step == 0; i++ {
		if s := time.Duration(steps[i]) * time.Second; until.Sub(since) <= (fewSteps-1)*s || i == len(steps)-1 {
			step = s
		}
	}
	first := floor(since, step)
	times := []time.Time{first}
	for last := first; last.Before(until); {
		last = last.Add(step)
		if times = append(times, last); len(times) > maxSteps+1 {
			return nil, invalid("step", "the period has more than %d steps of that length; give a longer step, or a later since", maxSteps)
		}
	}
	answer := &wire.Rates{Step: uint64(step / time.Second), Rows: []wire.Rate{}}
	if len(times) > 1 {
		found, err := rates.Between(v.View, times)
		if err != nil {
			return nil, err
		}
		answer.Rows = rowsOf(v, found, rateRow)
	}
	answer.View, err = v.tree()
	return answer, err
}

// period returns the time that the periods must cover.
func (q *RatesQuery) period(v *View) (since, until time.Time, err error) {
	if q.Since != nil {
		since = *q.Since
	} else if since, err = v.RecordedAt(0); err != nil {
		return since, until, err
	}
	if q.Until != nil {
		until = *q.Until
	} else if until, err = v.RecordedAt(v.Size() - 1); err != nil {
		return since, until, err
	} else {
		until = until.Add(time.Microsecond)
	}
	return since, until, nil
}

// floor returns the last multiple of a step after 1970 that is not after a time.
func floor(at time.Time, step time.Duration) time.Time {
	seconds, of := at.Unix(), int64(step/time.Second)
	rest := seconds % of
	if rest < 0 {
		rest += of
	}
	return time.Unix(seconds-rest, 0).UTC()
}

func rateRow(_ *View, r *rates.Rate) wire.Rate {
	row := wire.Rate{Since: wire.Time(r.Since.Format(moment.Layout)), Until: wire.Time(r.Until.Format(moment.Layout)), Events: r.Below - r.From,
		Mismatches: r.Mismatches, NoOutput: r.NoOutput, Drift: make(map[wire.Cause]uint64, len(r.Drift))}
	if row.Events > 0 {
		row.FirstSeq = &r.From
	}
	for cause, n := range r.Drift {
		row.Drift[wire.Cause(cause)] = n
	}
	return row
}
