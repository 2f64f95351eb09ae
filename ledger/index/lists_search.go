package index

import (
	"errors"

	engine "github.com/cockroachdb/pebble/v2"
)

// search walks the events that have every one of some values downwards, from one
// that all have to the next, without reading what lies between. It belongs to the
// view's goroutine and must be closed. Among them can be changes of state.
type search struct{ postings []descent }

func (v *View) search(ids []identity) *search {
	s := new(search)
	for _, id := range ids {
		s.postings = append(s.postings, descent{view: v, id: id})
	}
	return s
}

// step goes down from a bound: no event from the bound that it returns up to below
// has all values, but for the one at that bound if it is found. Bound 0 with
// nothing found is the end. A step touches one key for each value at most.
func (s *search) step(below uint64) (bound uint64, found bool, err error) {
	seq := below - 1
	for i := range s.postings {
		at, ok, err := s.postings[i].seek(seq)
		if err != nil || !ok {
			return 0, false, err
		}
		seq = at
	}
	// Each was sought at or below the one before: if the first is there, all are.
	if len(s.postings) > 0 && s.postings[0].seq != seq {
		return seq + 1, false, nil
	}
	return seq, true, nil
}

func (s *search) close() error {
	var errs []error
	for i := range s.postings {
		errs = append(errs, s.postings[i].close())
	}
	return errors.Join(errs...)
}

// descent walks the events that have one value downwards.
type descent struct {
	view     *View
	id       identity
	versions *engine.Iterator // nil before the first seek
	seq      uint64           // of the version that it is on, while valid
	valid    bool
}

// seek goes down to the newest version at or below a seq, which must not be above
// that of the seek before; it is not ok if there is none.
func (d *descent) seek(seq uint64) (at uint64, ok bool, err error) {
	if d.valid && d.seq <= seq {
		return d.seq, true, nil
	}
	if d.versions == nil {
		if d.versions, err = d.view.snapshot.NewIter(nil); err != nil {
			return 0, false, wrapRead(err)
		}
	}
	d.view.touched++
	if d.valid && d.seq == seq+1 {
		d.valid = d.versions.Next()
	} else {
		d.valid = d.versions.SeekPrefixGE(d.view.row(postings, d.id[:], seq+1))
	}
	if !d.valid {
		return 0, false, wrapRead(d.versions.Error())
	}
	d.seq = versionOf(d.versions.Key())
	return d.seq, true, nil
}

func (d *descent) close() error {
	if d.versions == nil {
		return nil
	}
	return wrapRead(d.versions.Close())
}
