package rundags

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// OutcomeCount is the number of run-DAGs with one outcome.
type OutcomeCount struct {
	FailureStage, AuditMode, Shape string // empty if null
	Count                          uint64 // number of run-DAGs
}

// CountOutcomes counts, by outcome, the run-DAGs that were recorded in a time range. Unless
// anyState is true, it counts only live ones. The result is sorted by shape, audit_mode, and
// failure_stage. CountOutcomes reads three keys for each of at most 180 outcomes. To leave
// out run-DAGs that are not live, it also reads one or two keys for each run-DAG in the
// range that ever stopped being live.
func CountOutcomes(ctx context.Context, v *index.View, b index.TimeRange, anyState bool) ([]OutcomeCount, error) {
	from, below, err := v.SeqRange(b)
	if err != nil {
		return nil, err
	}
	return countBetween(ctx, v, from, below, anyState)
}

// CountOutcomesByPeriod counts the run-DAGs of consecutive periods in the same way as
// CountOutcomes. Each period begins at one of the times and ends before the next one. For a period
// without events, it reads no counts.
func CountOutcomesByPeriod(ctx context.Context, v *index.View, times []time.Time, anyState bool) ([][]OutcomeCount, error) {
	var periods [][]OutcomeCount
	from, _, err := v.SeqRange(index.TimeRange{Since: &times[0]})
	for _, until := range times[1:] {
		if err != nil {
			return nil, err
		}
		var below uint64
		if below, _, err = v.SeqRange(index.TimeRange{Since: &until}); err != nil {
			return nil, err
		}
		var found []OutcomeCount
		found, err = countBetween(ctx, v, from, below, anyState)
		periods, from = append(periods, found), below
	}
	return periods, err
}

// countBetween counts the run-DAGs whose seq is at least from and less than below.
func countBetween(ctx context.Context, v *index.View, from, below uint64, anyState bool) ([]OutcomeCount, error) {
	if from >= below {
		return nil, nil
	}
	counts := make(map[outcome]uint64)
	first, last := outcome{}, outcome{0xff, 0xff, 0xff}
	for r, err := range v.NewestVersionsInRange(failureCounts, first[:], last[:], below) {
		if err != nil {
			return nil, err
		}
		o, err := decodeOutcome(r.RowKey)
		if err != nil {
			return nil, err
		}
		if counts[o], err = rowstore.DecodeNumber(r.Value); err != nil {
			return nil, err
		}
		before, err := countBelow(v, o, from)
		if err != nil {
			return nil, err
		}
		counts[o] -= before
	}
	if !anyState {
		if err := subtractWithdrawn(ctx, v, counts, from, below); err != nil {
			return nil, err
		}
	}
	return sortedFailures(counts), nil
}

// countBelow returns the number of run-DAGs that have the given outcome and a seq less than below.
func countBelow(v *index.View, o outcome, below uint64) (uint64, error) {
	_, value, found, err := v.NewestVersionBelow(failureCounts, o[:], below)
	if err != nil || !found {
		return 0, err
	}
	return rowstore.DecodeNumber(value)
}

// subtractWithdrawn subtracts from counts the run-DAGs that are not live and whose seq is at
// least from and less than below.
func subtractWithdrawn(ctx context.Context, v *index.View, counts map[outcome]uint64, from, below uint64) error {
	for r, err := range v.NewestVersionsInRange(withdrawnRuns, rowstore.AppendSeq(nil, from), rowstore.AppendSeq(nil, below-1), v.Size()) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if len(r.Value) == 0 {
			return fmt.Errorf("%w: the stored state of a run-DAG is empty", rowstore.ErrDamaged)
		}
		o, err := decodeOutcome(r.Value[1:])
		if err != nil {
			return err
		}
		if r.Value[0] == 0 {
			counts[o]--
		}
	}
	return nil
}

func sortedFailures(counts map[outcome]uint64) []OutcomeCount {
	var list []OutcomeCount
	for _, o := range slices.SortedFunc(maps.Keys(counts), func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a[2], b[2]), cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0]))
	}) {
		if counts[o] > 0 {
			list = append(list, OutcomeCount{textAt(failureStages[:], o[0]), textAt(auditModes[:], o[1]), textAt(runShapes[:], o[2]), counts[o]})
		}
	}
	return list
}

// textAt returns the text at position n of list, or "" for position 0, which represents null.
func textAt(list []string, n byte) string {
	if n == 0 {
		return ""
	}
	return list[n]
}
