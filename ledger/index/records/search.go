package records

import (
	"errors"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// search walks the events that have every one of some values downwards, from one
// that all have to the next, without reading what lies between. It belongs to the
// view's goroutine and must be closed. Among them can be changes of state.
type search struct {
	postings []*rowstore.Descent
	at       uint64 // where the first of them is
}

func newSearch(v *index.View, ids []rowstore.Identity) *search {
	s := new(search)
	for _, id := range ids {
		s.postings = append(s.postings, v.Descent(Postings, id[:]))
	}
	return s
}

// step goes down from a bound: no event from the bound that it returns up to below
// has all values, but for the one at that bound if it is found. Bound 0 with
// nothing found is the end. A step touches one key for each value at most.
func (s *search) step(below uint64) (bound uint64, found bool, err error) {
	seq := below - 1
	for i, w := range s.postings {
		at, ok, err := w.Seek(seq)
		if err != nil || !ok {
			return 0, false, err
		}
		if seq = at.Seq; i == 0 {
			s.at = seq
		}
	}
	// Each was sought at or below the one before: if the first is there, all are.
	if len(s.postings) > 0 && s.at != seq {
		return seq + 1, false, nil
	}
	return seq, true, nil
}

func (s *search) close() error {
	var errs []error
	for _, w := range s.postings {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}
