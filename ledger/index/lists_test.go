package index

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record"
)

// lister is one of the two lists of records.
type lister func(v *View, ctx context.Context, q Filter, p Page) ([]Record, []byte, error)

var listers = map[bool]lister{false: (*View).Records, true: (*View).RecordsByOccurrence}

// allRecords goes through all pages of a list.
func allRecords(t tester, v *View, list lister, q Filter, limit int) []Record {
	t.Helper()
	var all []Record
	for p := (Page{Limit: limit}); ; {
		before := v.Touched()
		rows, next, err := list(v, context.Background(), q, p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(rows), limit)
		// What follows the last key of a page's share is what one record takes,
		// and a search in time comes before.
		require.LessOrEqual(t, v.Touched()-before, p.budget()+2*MaxValues+20)
		all = append(all, rows...)
		if next == nil {
			return all
		}
		p.After = next
	}
}

// drawRecordFilter draws a filter of which a part is likely to fit.
func drawRecordFilter(t *rapid.T, events []listedEvent, byOccurrence bool) Filter {
	q := Filter{
		Kind:  rapid.SampledFrom([]record.Kind{"", "", record.IPCRecord, record.RunDAG, record.CitationSet, record.PathFingerprint}).Draw(t, "kind"),
		State: rapid.SampledFrom([]record.State{"", "", record.Live, record.Failed, record.Stale}).Draw(t, "state"),
	}
	var times []time.Time
	for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "values") {
		e := rapid.SampledFrom(events).Draw(t, "event")
		if values := e.values(); len(values) > 0 {
			q.Values = append(q.Values, rapid.SampledFrom(values).Draw(t, "value"))
		}
	}
	for _, e := range events {
		if at, ok := e.occurred(); byOccurrence && ok {
			times = append(times, at, at.Add(1))
		} else if !byOccurrence {
			times = append(times, e.Time, e.Time.Add(1))
		}
	}
	times = append(times, time.Time{}, time.UnixMicro(1<<50))
	q.Since = rapid.SampledFrom(append(times, time.Time{})).Draw(t, "since")
	q.Until = rapid.SampledFrom(append(times, time.Time{})).Draw(t, "until")
	return q
}

// Whatever is asked for, as of whatever size: the lists are those of a loop over
// all events.
func TestListsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newJournal(t, "default")
		log.sameTime = 3
		log.drawEvents(t, 40)
		c := testConfig(vfs.NewMem())
		c.batchEvents = rapid.IntRange(1, 9).Draw(t, "batch")
		s := openTest(t, c)
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, log)
		log.catchUp(f)
		for range 10 {
			size := rapid.Uint64Range(1, log.head.Size).Draw(t, "as of")
			events, byOccurrence := log.listedEvents(size), rapid.Bool().Draw(t, "by occurrence")
			states := naiveStates(events)
			q := drawRecordFilter(t, log.listedEvents(log.head.Size), byOccurrence)
			v, err := f.View(size)
			require.NoError(t, err)
			rows := allRecords(t, v, listers[byOccurrence], q, rapid.IntRange(1, 5).Draw(t, "limit"))
			var seqs []uint64
			for _, row := range rows {
				events[row.Seq].requireRow(t, states, row)
				seqs = append(seqs, row.Seq)
			}
			require.Equal(t, naiveRecords(events, q, byOccurrence), seqs)
			require.NoError(t, v.Close())
		}
	})
}
