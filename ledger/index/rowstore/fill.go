package rowstore

import (
	"errors"
	"iter"
)

// ErrPosition: a page does not begin where one before it of the same query ended.
var ErrPosition = errors.New("index: not a position of this query")

// Position is the seq that the page before ended with, false on the first page.
func (p Page) Position() (uint64, bool, error) {
	if p.After == nil {
		return 0, false, nil
	}
	seq, err := DecodeSeq(p.After)
	if err != nil {
		return 0, false, errors.Join(ErrPosition, err)
	}
	return seq, true, nil
}

// FillBackwards is a page of what take makes of the versions of a row, the newest
// first. Versions of which it makes nil are left out.
func FillBackwards[R any](r *Reader, d Dimension, id []byte, p Page, take func(Version) (*R, error)) ([]R, []byte, error) {
	below, given, err := p.Position()
	if err != nil {
		return nil, nil, err
	}
	if !given {
		below = r.size
	} else if below >= r.size {
		return nil, nil, ErrPosition
	}
	return fill(r, r.Descend(d, id, below), p, take)
}

// FillForwards is fillBackwards with the oldest first.
func FillForwards[R any](r *Reader, d Dimension, id []byte, p Page, take func(Version) (*R, error)) ([]R, []byte, error) {
	last, given, err := p.Position()
	if err != nil {
		return nil, nil, err
	}
	if given {
		if last >= r.size {
			return nil, nil, ErrPosition
		}
		last++
	}
	return fill(r, r.Ascend(d, id, last), p, take)
}

// fill takes versions until the page is full or has touched its share of keys. The
// position to go on from is that of the last version taken, nil at the end.
func fill[R any](r *Reader, versions iter.Seq2[Version, error], p Page, take func(Version) (*R, error)) (rows []R, next []byte, err error) {
	b, last := r.Budget(p), uint64(0)
	for one, err := range versions {
		if err != nil {
			return nil, nil, err
		}
		if last > 0 && b.Spent(len(rows)) {
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
