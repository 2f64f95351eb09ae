package records

import (
	"context"
	"errors"

	"colophon/ledger/index"
	"colophon/ledger/record"
)

// Limits of the search for the latest live record of a run.
const (
	searchedRows  = 16
	searchedPages = 64
)

// ErrTooManyRecords means that a run has too many records to search for a live one.
var ErrTooManyRecords = errors.New("the run has too many records to search for a live record")

// LatestSeqOfRun returns the seq of the latest live record with the given kind and run_id. If any
// is true, the record can be in any state. seq is nil if there is no such record. more reports
// whether the run might have other records of that kind.
func LatestSeqOfRun(ctx context.Context, v *index.View, run string, kind record.Kind, any bool) (seq *uint64, more bool, err error) {
	filter := Filter{Kind: kind, Values: []Value{{Name: "run_id", Text: run}}}
	page := index.PageRequest{Limit: searchedRows}
	for range searchedPages {
		rows, next, err := List(ctx, v, filter, page)
		if err != nil {
			return nil, false, err
		}
		for i := range rows {
			if any || rows[i].State == record.StateLive {
				return &rows[i].Seq, more || len(rows) > 1 || next != nil, nil
			}
			more = true
		}
		if next == nil {
			return nil, more, nil
		}
		page.After = next
	}
	return nil, false, ErrTooManyRecords
}
