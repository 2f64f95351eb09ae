package indextest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// lister is the type of records.List and records.ListByOccurrence.
type lister func(ctx context.Context, v *index.View, q records.Filter, p index.PageRequest) ([]records.Record, []byte, error)

var listers = map[bool]lister{false: records.List, true: records.ListByOccurrence}

// allRecords returns the rows of all pages of a list.
func allRecords(t tester, v *index.View, list lister, q records.Filter, limit int) []records.Record {
	t.Helper()
	var all []records.Record
	for p := (index.PageRequest{Limit: limit}); ; {
		before := v.KeysRead()
		rows, next, err := list(context.Background(), v, q, p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(rows), limit)
		// A page may exceed its budget by the cost of one record plus the cost of the initial
		// search by time.
		require.LessOrEqual(t, v.KeysRead()-before, rowstore.MaxKeysReadPerRow*p.Limit+2*records.MaxFilterValues+20)
		all = append(all, rows...)
		if next == nil {
			return all
		}
		p.After = next
	}
}

// drawRecordFilter returns a random filter that is likely to match some records.
func drawRecordFilter(t *rapid.T, events []listedEvent, byOccurrence bool) records.Filter {
	q := records.Filter{
		IncludeBodies: rapid.Bool().Draw(t, "bodies"),
		Kind:          rapid.SampledFrom([]record.Kind{"", "", record.KindIPCRecord, record.KindRunDAG, record.KindCitationSet, record.KindPathFingerprint, record.KindNote}).Draw(t, "kind"),
		State:         rapid.SampledFrom([]record.State{"", "", record.StateLive, record.StateFailed, record.StateStale}).Draw(t, "state"),
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
	for _, bound := range []struct {
		name string
		to   **time.Time
	}{{"since", &q.Since}, {"until", &q.Until}} {
		if rapid.Bool().Draw(t, "has "+bound.name) {
			*bound.to = new(rapid.SampledFrom(append(times, time.Time{})).Draw(t, bound.name))
		}
	}
	return q
}

// For any filter and at any log size, the lists agree with a naive loop over all events.
func TestListsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := newJournal(t, "default")
		log.sameTime = 3
		log.drawEvents(t, 40)
		for range rapid.IntRange(0, 3).Draw(t, "notes") {
			log.append(note(t, rapid.Uint64Range(0, log.head.Size-1).Draw(t, "noted"), few(t, "topic", "review", "step")))
		}
		c := testConfig(vfs.NewMem())
		c.MaxBatchEvents = rapid.IntRange(1, 9).Draw(t, "batch")
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
				events[row.Seq].requireRow(t, states, &q, row)
				seqs = append(seqs, row.Seq)
			}
			require.Equal(t, naiveRecords(events, q, byOccurrence), seqs)
			before := v.EventBytesRead()
			for most := range int(size) + 1 {
				exceeds, err := records.ListExceeds(v, q, most)
				require.NoError(t, err)
				require.False(t, !exceeds && !byOccurrence && len(seqs) > most, "%d are more than %d", len(seqs), most)
				require.False(t, exceeds && most == int(size), "there are no more")
			}
			require.Equal(t, before, v.EventBytesRead(), "no event is read")
			require.NoError(t, v.Close())
		}
	})
}

// A page reads at most twenty keys per requested row, whether all events match the filter or only
// one in a thousand.
func TestListsTouchFewKeys(t *testing.T) {
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	var bodies []string
	for n := range 3000 {
		rare := ""
		if n%1000 == 500 {
			rare = `,"rare":"yes"`
		}
		bodies = append(bodies, posted(t, record.KindIPCRecord, fmt.Sprintf(
			`{"timestamp":"2024-01-01T00:%02d:%02dZ","labels":{"common":"yes"%s},"payload":{"seed":%d},"output":"o","model":"m%d","temperature":0,"max_tokens":9}`,
			n/60, n%60, rare, n%7, n%3)))
	}
	for _, seq := range []uint64{5, 700, 2999} {
		bodies = append(bodies, stateChange(t, seq, record.StateFailed))
	}
	log.append(bodies...)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	common, rare, model := records.Value{Name: "label:common", Text: "yes"}, records.Value{Name: "label:rare", Text: "yes"}, records.Value{Name: "model", Text: "m1"}
	for name, test := range map[string]struct {
		filter       records.Filter
		byOccurrence bool
		rows         int // number of matching rows
	}{
		"all":              {records.Filter{}, false, 3000},
		"common":           {records.Filter{Values: []records.Value{common}}, false, 3000},
		"rare":             {records.Filter{Values: []records.Value{rare}}, false, 3},
		"two":              {records.Filter{Values: []records.Value{common, rare}}, false, 3},
		"intertwined":      {records.Filter{Values: []records.Value{common, model}}, false, 1000},
		"kind":             {records.Filter{Kind: record.KindIPCRecord, Values: []records.Value{rare}}, false, 3},
		"another":          {records.Filter{Kind: record.KindRunDAG}, false, 0},
		"failed":           {records.Filter{State: record.StateFailed}, false, 3},
		"live":             {records.Filter{State: record.StateLive, Kind: record.KindIPCRecord}, false, 2997},
		"time":             {records.Filter{TimeRange: index.TimeRange{Since: new(time.UnixMicro(1000)), Until: new(time.UnixMicro(1010))}, Values: []records.Value{common}}, false, 10},
		"occurred":         {records.Filter{}, true, 3000},
		"occurred between": {records.Filter{TimeRange: index.TimeRange{Since: new(time.Date(2024, 1, 1, 0, 10, 0, 0, time.UTC)), Until: new(time.Date(2024, 1, 1, 0, 11, 0, 0, time.UTC))}}, true, 60},
	} {
		for _, limit := range []int{1, 3, 100} {
			v, err := f.LatestView()
			require.NoError(t, err)
			rows, _, err := listers[test.byOccurrence](t.Context(), v, test.filter, index.PageRequest{Limit: limit})
			require.NoError(t, err)
			require.Len(t, rows, min(limit, test.rows), name)
			require.LessOrEqual(t, v.KeysRead(), 20*max(1, len(rows)), "%s, limit %d", name, limit)
			require.NoError(t, v.Close())
		}
	}
	// A query at an early log size reads almost no keys of later records.
	v, err := f.View(100)
	require.NoError(t, err)
	rows, _, err := records.ListByOccurrence(t.Context(), v, records.Filter{}, index.PageRequest{Limit: 3})
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.LessOrEqual(t, v.KeysRead(), 20*len(rows))
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
}

// Later events do not change the pages of a view at an earlier size, not even where a page ends.
func TestLaterRecordsDoNotEndPages(t *testing.T) {
	log := newJournal(t, "default")
	at := func(n int) string {
		return posted(t, record.KindIPCRecord, fmt.Sprintf(
			`{"payload":{"seed":%d},"output":"o","model":"m","temperature":0,"max_tokens":9,"timestamp":"2026-01-02T03:04:05Z"}`, n))
	}
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)), at(1))
	for n := range 100 {
		log.append(at(n))
	}
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	v, err := f.View(2)
	require.NoError(t, err)
	rows, _, err := records.ListByOccurrence(t.Context(), v, records.Filter{}, index.PageRequest{Limit: 1})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
}
