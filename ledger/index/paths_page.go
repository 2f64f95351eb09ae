package index

import (
	"errors"
	"iter"
)

// ErrPosition: a page does not begin where one before it of the same query ended.
var ErrPosition = errors.New("index: not a position of this query")

// position is the seq that the page before ended with, false on the first page.
func (p Page) position() (uint64, bool, error) {
	if p.After == nil {
		return 0, false, nil
	}
	seq, err := decodeSeq(p.After)
	if err != nil {
		return 0, false, errors.Join(ErrPosition, err)
	}
	return seq, true, nil
}

// fillBackwards is a page of what take makes of the versions of a row, the newest
// first. Versions of which it makes nil are left out.
func fillBackwards[R any](v *View, d dimension, id []byte, p Page, take func(row) (*R, error)) ([]R, []byte, error) {
	below, given, err := p.position()
	if err != nil {
		return nil, nil, err
	}
	if !given {
		below = v.size
	} else if below >= v.size {
		return nil, nil, ErrPosition
	}
	return fill(v, v.descend(d, id, below), p, take)
}

// fillForwards is fillBackwards with the oldest first.
func fillForwards[R any](v *View, d dimension, id []byte, p Page, take func(row) (*R, error)) ([]R, []byte, error) {
	last, given, err := p.position()
	if err != nil {
		return nil, nil, err
	}
	if given {
		if last >= v.size {
			return nil, nil, ErrPosition
		}
		last++
	}
	return fill(v, v.ascend(d, id, last), p, take)
}

// fill takes versions until the page is full or has touched its share of keys. The
// position to go on from is that of the last version taken, nil at the end.
func fill[R any](v *View, versions iter.Seq2[row, error], p Page, take func(row) (*R, error)) (rows []R, next []byte, err error) {
	b, last := v.budget(p), uint64(0)
	for r, err := range versions {
		if err != nil {
			return nil, nil, err
		}
		if last > 0 && b.spent(len(rows)) {
			return rows, appendSeq(nil, last), nil
		}
		one, err := take(r)
		if err != nil {
			return nil, nil, err
		}
		if one != nil {
			rows = append(rows, *one)
		}
		last = r.seq
	}
	return rows, nil, nil
}
