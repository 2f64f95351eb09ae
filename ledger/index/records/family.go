package records

import (
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Dimensions of records.
const (
	// occurrences: the number of a kind or 0, the time that a record occurred at and
	// its seq, both inverted.
	occurrences rowstore.Dimension = 0x21
	// Postings: identity of a name and a value; one version for every event that
	// has that value.
	Postings rowstore.Dimension = 0x80
	// recordStates: a record's seq (8); its state, by the change that led to it.
	recordStates rowstore.Dimension = 0x90
	// occurredUntil: a byte 0; a time that no record so far has occurred at or
	// after.
	occurredUntil rowstore.Dimension = 0x91
)

// Family is what lists of records are made of: the values that records are found by,
// when they occurred, and their states.
func Family() index.Family {
	var states []counters.Series
	for _, state := range record.States {
		states = append(states, counters.SeriesOf(counters.StateChangesTotal, string(state)))
	}
	return index.Family{
		Rows:     map[rowstore.Dimension]int{Postings: len(rowstore.Identity{}), recordStates: rowstore.SeqBytes, occurredUntil: 1},
		Counters: states,
		New:      func(f *index.Fold) index.Deriver { return &Deriver{Fold: f} },
	}
}
