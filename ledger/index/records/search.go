package records

import (
	"errors"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// search finds the events that have all of several values, newest first, without reading the events
// between them. It also finds state changes that wrote versions for these values. A search is not
// safe for concurrent use, and must be closed.
type search struct {
	postings []*rowstore.VersionSeeker
	at       uint64 // current seq of the first posting
}

func newSearch(v *index.View, ids []rowstore.Identity) *search {
	s := new(search)
	for _, id := range ids {
		s.postings = append(s.postings, v.NewVersionSeeker(PostingsDimension, id[:]))
	}
	return s
}

// step continues the search below the given seq. No event strictly between bound and below has all
// values. found reports whether the event at bound has all of them. If bound is 0 and found is
// false, the search has ended. A step reads at most one key for each value.
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
	// Each seek starts at the seq that the previous seek found, so these seqs never increase.
	// If the first one equals the last one, all are equal.
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
