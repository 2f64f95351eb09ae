// Package rates counts records over time: records with wrong claims, records without an output, and
// runs by cause of drift (spec: Rates).
package rates

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// tallies maps the identity of a series to the number of its events so far, with one version for
// each of these events.
const tallies rowstore.Dimension = 0x88

// Names of series. Each cause of drift is also the name of a series.
const (
	mismatches = "mismatch"
	noOutput   = "no_output"
)

func seriesOf(name string) rowstore.Identity {
	return rowstore.IdentityOf([]byte("rate"), []byte(name))
}

// Family returns the index family for rates: its dimension and its deriver.
func Family() index.Family {
	return index.Family{
		RowBytes: map[rowstore.Dimension]int{tallies: len(rowstore.Identity{})},
		New: func(f *index.Fold) index.Deriver {
			d := &deriver{Fold: f, groups: index.DeriverOf[*groups.Deriver](f), mismatches: seriesOf(mismatches), noOutput: seriesOf(noOutput),
				causes: make(map[drift.Cause]rowstore.Identity)}
			for _, cause := range drift.Causes {
				d.causes[cause] = seriesOf(string(cause))
			}
			return d
		},
	}
}

type deriver struct {
	*index.Fold
	groups               *groups.Deriver
	mismatches, noOutput rowstore.Identity
	causes               map[drift.Cause]rowstore.Identity
	value                []byte // scratch
}

// Derive implements Deriver.
func (d *deriver) Derive(_ context.Context, e *index.Event) error {
	if !e.Kind.IsRecord() {
		return nil
	}
	if e.MayHaveCheck(record.ResultMismatch) && e.CountChecks(record.ResultMismatch) > 0 {
		d.count(d.mismatches, e.Seq)
	}
	if e.Kind != record.KindIPCRecord {
		return nil
	}
	if !e.IPC.IsRun() {
		d.count(d.noOutput, e.Seq)
	} else if cause := groups.DriftCauseOf(d.groups); cause != "" {
		d.count(d.causes[cause], e.Seq)
	}
	return nil
}

// count adds the event at seq to a series.
func (d *deriver) count(series rowstore.Identity, seq uint64) {
	n := uint64(0)
	if _, value, found := d.Rows.NewestVersion(tallies, series[:]); found {
		var err error
		if n, err = decode(value); err != nil {
			d.Rows.Failf("%w", err)
		}
	}
	d.value = binary.AppendUvarint(d.value[:0], n+1)
	d.Rows.Put(tallies, series[:], seq, d.value)
}

func decode(value []byte) (uint64, error) {
	n, size := binary.Uvarint(value)
	if size <= 0 || size != len(value) {
		return 0, fmt.Errorf("%w: cannot decode a tally from %x", rowstore.ErrDamaged, value)
	}
	return n, nil
}

// Period counts the records that were recorded from Since (inclusive) to Until (exclusive).
type Period struct {
	Since, Until time.Time
	// FirstSeq is the seq of the first event of the period, and EndSeq is one more than the seq of
	// the last.
	FirstSeq, EndSeq     uint64
	Mismatches           uint64                 // number of records with at least one check whose result is a mismatch
	RecordsWithoutOutput uint64                 // number of IPC records without an output
	DriftCounts          map[drift.Cause]uint64 // number of runs by cause; a cause without runs is absent
}

// CountPeriods counts the records of consecutive periods. The n-th period begins at the n-th time and ends
// just before the next one. For each period that has events, CountPeriods reads two keys, plus one for
// each series.
func CountPeriods(v *index.View, times []time.Time) ([]Period, error) {
	var rates []Period
	before, err := tallyAt(v, times[0])
	if err != nil {
		return nil, err
	}
	for i, until := range times[1:] {
		rate := Period{Since: times[i], Until: until, FirstSeq: before.seq, DriftCounts: make(map[drift.Cause]uint64)}
		if rate.EndSeq, err = seqAt(v, until); err != nil {
			return nil, err
		}
		if rate.EndSeq > rate.FirstSeq {
			after, err := tallyBelow(v, rate.EndSeq)
			if err != nil {
				return nil, err
			}
			rate.Mismatches, rate.RecordsWithoutOutput = after.of[mismatches]-before.of[mismatches], after.of[noOutput]-before.of[noOutput]
			for _, cause := range drift.Causes {
				if n := after.of[string(cause)] - before.of[string(cause)]; n > 0 {
					rate.DriftCounts[cause] = n
				}
			}
			before = after
		}
		rates = append(rates, rate)
	}
	return rates, nil
}

// tally holds the count of each series up to, but not including, the event at seq.
type tally struct {
	seq uint64
	of  map[string]uint64
}

func tallyAt(v *index.View, at time.Time) (tally, error) {
	seq, err := seqAt(v, at)
	if err != nil {
		return tally{}, err
	}
	return tallyBelow(v, seq)
}

// seqAt returns the seq of the first event that was recorded at or after the given time, or the
// view's size if there is none.
func seqAt(v *index.View, at time.Time) (uint64, error) {
	from, _, err := v.SeqRange(index.TimeRange{Since: &at})
	return from, err
}

func tallyBelow(v *index.View, seq uint64) (tally, error) {
	t := tally{seq, make(map[string]uint64)}
	for _, name := range append([]string{mismatches, noOutput}, causeNames...) {
		id := seriesOf(name)
		_, value, found, err := v.NewestVersionBelow(tallies, id[:], seq)
		if err != nil {
			return t, err
		}
		if !found {
			continue
		}
		if t.of[name], err = decode(value); err != nil {
			return t, err
		}
	}
	return t, nil
}

var causeNames = func() (names []string) {
	for _, cause := range drift.Causes {
		names = append(names, string(cause))
	}
	return names
}()
