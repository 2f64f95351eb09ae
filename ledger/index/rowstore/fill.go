package rowstore

import (
	"errors"
	"iter"
)

// ErrInvalidPosition means that PageRequest.After is not a position that a page of the same query
// returned.
var ErrInvalidPosition = errors.New("index: the position was not returned by this query")

// Position returns the seq at which the previous page ended, or false on the first page.
func (p PageRequest) Position() (uint64, bool, error) {
	if p.After == nil {
		return 0, false, nil
	}
	seq, err := DecodeSeq(p.After)
	if err != nil {
		return 0, false, errors.Join(ErrInvalidPosition, err)
	}
	return seq, true, nil
}

// PageNewestFirst returns a page of a row's versions, newest first, and the position of the next
// page, or nil on the last page. take converts a version to a row of the page, or returns nil to
// leave it out.
func PageNewestFirst[R any](r *Reader, d Dimension, id []byte, p PageRequest, take func(Version) (*R, error)) ([]R, []byte, error) {
	below, given, err := p.Position()
	if err != nil {
		return nil, nil, err
	}
	if !given {
		below = r.size
	} else if below >= r.size {
		return nil, nil, ErrInvalidPosition
	}
	return fill(r, r.VersionsNewestFirst(d, id, below), p, take)
}

// PageOldestFirst is like PageNewestFirst, but returns the oldest version first.
func PageOldestFirst[R any](r *Reader, d Dimension, id []byte, p PageRequest, take func(Version) (*R, error)) ([]R, []byte, error) {
	last, given, err := p.Position()
	if err != nil {
		return nil, nil, err
	}
	if given {
		if last >= r.size {
			return nil, nil, ErrInvalidPosition
		}
		last++
	}
	return fill(r, r.VersionsOldestFirst(d, id, last), p, take)
}

// fill converts versions with take until the page is full or its budget is spent. next is the
// seq of the last version read, or nil at the end.
func fill[R any](r *Reader, versions iter.Seq2[Version, error], p PageRequest, take func(Version) (*R, error)) (rows []R, next []byte, err error) {
	b, last := r.Budget(p), uint64(0)
	for one, err := range versions {
		if err != nil {
			return nil, nil, err
		}
		if last > 0 && b.IsSpent(len(rows)) {
			return rows, AppendSeq(nil, last), nil
		}
		taken, err := take(one)
		if err != nil {
			return nil, nil, err
		}
		if taken != nil {
			rows = append(rows, *taken)
		}
		last = one.Seq
	}
	return rows, nil, nil
}
