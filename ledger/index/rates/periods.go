package rates

import (
	"errors"
	"time"

	"colophon/ledger/index"
)

// Query selects the periods for which List returns rates. A nil Since means the time of the first
// event, and a nil Until means the time just after the last event.
type Query struct {
	index.TimeRange
	StepSeconds int64 // period length in seconds, which can exceed time.Duration; 0 lets List choose one
}

const (
	MaxPeriods     = 500                // maximum number of periods in an answer
	MaxStepSeconds = 1000 * 365 * 86400 // maximum length of a period, in seconds
	fewPeriods     = 60                 // maximum number of periods if the query has no step
)

// ErrTooManyPeriods means that the query has more than MaxPeriods periods.
var ErrTooManyPeriods = errors.New("the time range has too many periods")

// steps holds the period lengths, in seconds, from which List chooses. With the longest one,
// fewPeriods periods cover all years from 0 to 9999.
var steps = [...]int64{1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 28 * 86400, 364 * 86400,
	10 * 364 * 86400, 200 * 364 * 86400}

// The earliest and the latest time that a timestamp can express.
var (
	earliest = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
)

// PeriodBoundaries returns the boundaries of consecutive periods of equal length, and that length in
// seconds. The n-th period begins at the n-th boundary and ends just before the next one. Each
// boundary is a whole number of periods away from the start of 1970, in UTC. However, timestamps
// cover only the years 0 to 9999. A boundary outside this range is replaced by the first or the
// last time in the range.
func PeriodBoundaries(v *index.View, q Query) (times []time.Time, step int64, err error) {
	since, until, err := q.ends(v)
	if err != nil {
		return nil, 0, err
	}
	step = q.StepSeconds
	seconds := until.Unix() - since.Unix()
	if until.Nanosecond() > since.Nanosecond() {
		seconds++
	}
	for i := 0; step == 0; i++ {
		if s := steps[i]; seconds <= (fewPeriods-1)*s || i == len(steps)-1 {
			step = s
		}
	}
	last := floor(since, step)
	times = []time.Time{last}
	for last.Before(until) {
		last = time.Unix(last.Unix()+step, 0).UTC()
		if times = append(times, last); len(times) > MaxPeriods+1 {
			return nil, 0, ErrTooManyPeriods
		}
	}
	if times[0].Before(earliest) {
		times[0] = earliest
	}
	if last.After(latest) {
		times[len(times)-1] = latest
	}
	return times, step, nil
}

// List counts records in consecutive periods of equal length. It also returns that length in
// seconds.
func List(v *index.View, q Query) (found []Period, step int64, err error) {
	times, step, err := PeriodBoundaries(v, q)
	if err != nil {
		return nil, 0, err
	}
	found, err = CountPeriods(v, times)
	return found, step, err
}

// ends returns the time range that the periods must cover.
func (q *Query) ends(v *index.View) (since, until time.Time, err error) {
	if q.Since != nil {
		since = *q.Since
	} else if since, err = v.RecordedAt(0); err != nil {
		return since, until, err
	}
	if q.Until != nil {
		return since, *q.Until, nil
	}
	until, err = v.RecordedAt(v.Size() - 1)
	return since, until.Add(time.Microsecond), err
}

// floor rounds a time down to a whole number of steps from the start of 1970. step is in seconds.
func floor(at time.Time, step int64) time.Time {
	seconds := at.Unix()
	rest := seconds % step
	if rest < 0 {
		rest += step
	}
	return time.Unix(seconds-rest, 0).UTC()
}
