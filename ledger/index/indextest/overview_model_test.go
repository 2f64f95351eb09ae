package indextest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/rates"
	"colophon/ledger/record"
)

// ListValues lists the values of the runs below the view's size, most recently added first.
func TestValuesEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			of := rapid.SampledFrom([]string{"temperature", "max_tokens", groups.LabelListName}).Draw(t, "of")
			var want []groups.Value
			seen := make(map[string]bool)
			for _, r := range u.naive.records {
				if r.seq >= u.size || !r.isRun() {
					continue
				}
				values := slices.Sorted(maps.Keys(r.labels))
				if of != groups.LabelListName {
					values = nil
					if value, given := r.values[of]; given {
						values = []string{value}
					}
				}
				var added []groups.Value
				for _, value := range values {
					if !seen[value] {
						seen[value] = true
						added = append(added, groups.Value{Seq: r.seq, Text: value})
					}
				}
				want = append(added, want...)
			}
			got := pages(t, u.limit, func(p index.PageRequest) ([]groups.Value, []byte, error) { return groups.ListValues(u.view, of, p) })
			require.Equal(t, want, got)
		})
	})
}

// naiveRate counts the events whose seq is at least from and less than below.
func (u *runsUnderTest) naiveRate(from, below uint64) rates.Period {
	rate := rates.Period{FirstSeq: from, EndSeq: below, DriftCounts: make(map[drift.Cause]uint64)}
	for seq := from; seq < below; seq++ {
		var body struct {
			Kind   record.Kind
			Checks map[string]struct{ Result record.CheckResult }
		}
		require.NoError(u.T, json.Unmarshal(u.log.entries[seq][len(u.log.hashes[seq]):], &body))
		for _, check := range body.Checks {
			if body.Kind.IsRecord() && check.Result == record.ResultMismatch {
				rate.Mismatches++
				break
			}
		}
	}
	for _, r := range u.naive.records {
		if r.seq < from || r.seq >= below {
			continue
		}
		if !r.isRun() {
			rate.RecordsWithoutOutput++
		} else if before := u.naive.before(r, r.seq); before != nil {
			cause, _ := u.naive.cause(before, &r, r.seq)
			rate.DriftCounts[drift.Cause(cause)]++
		}
	}
	return rate
}

// CountPeriods counts, for each period, the events below the view's size.
func TestRatesEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRunsUnderTest(t, func(u *runsUnderTest) {
			at := rapid.Int64Range(-5, 20).Draw(t, "first")
			times := []time.Time{time.UnixMicro(at).UTC()}
			for range rapid.IntRange(1, 5).Draw(t, "periods") {
				at += rapid.Int64Range(1, 30).Draw(t, "length")
				times = append(times, time.UnixMicro(at).UTC())
			}
			first := func(at time.Time) uint64 { // first returns the seq of the first event at or after a time
				seq := uint64(0)
				for seq < u.size && time.UnixMicro(int64(seq/max(1, u.log.sameTime))).Before(at) {
					seq++
				}
				return seq
			}
			var want []rates.Period
			for i, until := range times[1:] {
				rate := u.naiveRate(first(times[i]), first(until))
				rate.Since, rate.Until = times[i], until
				want = append(want, rate)
			}
			got, err := rates.CountPeriods(u.view, times)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	})
}
