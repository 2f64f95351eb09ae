// Package records lists records by value, by time, and by state. It writes the postings on which
// most other families depend, and caches IPC records.
package records

import (
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/ledger/record/fields"
)

// Dimensions of records.
const (
	// A key of occurrences consists of the number of the record's kind (or 0 for all kinds), the
	// time at which the record occurred, and the record's seq. The time and the seq are inverted,
	// so that the latest records come first.
	occurrences rowstore.Dimension = 0x21
	// PostingsDimension has one row for each pair of a name and a value, with one version for each
	// event that has the value under that name.
	PostingsDimension rowstore.Dimension = 0x80
	// recordStates maps a record's seq (8 bytes) to its state, with one version for each state
	// change.
	recordStates rowstore.Dimension = 0x90
	// occurredUntil has a single row, whose key is a zero byte. Its value is a time that is later
	// than all occurrences so far.
	occurredUntil rowstore.Dimension = 0x91
)

// Family returns the index family for looking up records by value, time of occurrence, and state:
// its dimensions, counters, and deriver.
func Family() index.Family {
	var series []counters.Series
	for _, state := range record.States {
		series = append(series, counters.SeriesOf(counters.MetricStateChanges, string(state)))
	}
	for _, part := range fields.IPCParts[1:] { // skip the first part, the input, because every IPC record has one
		series = append(series, counters.SeriesOf(counters.MetricIncompleteRecords, part))
	}
	return index.Family{
		RowBytes:      map[rowstore.Dimension]int{PostingsDimension: len(rowstore.Identity{}), recordStates: rowstore.SeqSize, occurredUntil: 1},
		InitialSeries: series,
		New:           func(f *index.Fold) index.Deriver { return &Deriver{Fold: f} },
	}
}
