package index

import (
	"errors"
	"iter"

	engine "github.com/cockroachdb/pebble/v2"
)

// newestAt is the newest version up to a seq of the stretch that an iterator is on. The
// value is valid until the iterator moves.
func newestAt(it *engine.Iterator, seq uint64) (row, error) {
	encoded, err := it.ValueAndErr()
	if err != nil {
		return row{}, wrapRead(err)
	}
	return newestUpTo(seq, versionOf(it.Key()), encoded)
}

// descent walks the versions of a row downwards. It belongs to the view's goroutine and
// must be closed.
type descent struct {
	view *View
	d    dimension
	id   []byte
	it   *engine.Iterator // nil before the first seek
	// left are the versions of the stretch that it is on which it has not passed, the
	// next one last; first is the oldest of them all, while there is a stretch.
	left  []row
	first uint64
	valid bool
}

func (v *View) descent(d dimension, id []byte) *descent { return &descent{view: v, d: d, id: id} }

// seek goes down to the newest version up to a seq, which is below the view's size and
// not above that of the seek before; it is not ok if there is none. The value is valid
// until the next seek.
func (w *descent) seek(seq uint64) (found row, ok bool, err error) {
	for len(w.left) > 0 {
		if next := w.left[len(w.left)-1]; next.seq <= seq {
			return next, true, nil
		}
		w.left = w.left[:len(w.left)-1]
	}
	if w.it == nil {
		if w.it, err = w.view.snapshot.NewIter(nil); err != nil {
			return row{}, false, wrapRead(err)
		}
	}
	w.view.touched++
	if w.valid && w.first == seq+1 {
		w.valid = w.it.Next()
	} else {
		w.valid = w.it.SeekPrefixGE(w.view.row(w.d, w.id, seq+1))
	}
	if !w.valid {
		return row{}, false, wrapRead(w.it.Error())
	}
	if err := w.take(seq); err != nil {
		return row{}, false, err
	}
	return w.left[len(w.left)-1], true, nil
}

// take takes the versions up to a seq of the stretch that the iterator is on.
func (w *descent) take(seq uint64) error {
	encoded, err := w.it.ValueAndErr()
	if err != nil {
		return wrapRead(err)
	}
	w.first = versionOf(w.it.Key())
	s := openStretch(w.first, encoded)
	w.left = append(w.left[:0], s.row)
	for s.next() && s.seq <= seq {
		w.left = append(w.left, s.row)
	}
	return s.err
}

func (w *descent) close() error {
	if w.it == nil {
		return nil
	}
	return wrapRead(w.it.Close())
}

// descend yields the versions of a row below a size, the newest first. below is at
// most the view's size. A value is valid until the next step.
func (v *View) descend(d dimension, id []byte, below uint64) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		w := v.descent(d, id)
		more := true
		var err error
		for more && below > 0 {
			var one row
			var ok bool
			if one, ok, err = w.seek(below - 1); err != nil || !ok {
				break
			}
			below, more = one.seq, yield(one, nil)
		}
		if err = errors.Join(err, w.close()); err != nil && more {
			yield(row{}, err)
		}
	}
}

// ascend yields the versions of a row from a seq upwards that the view sees, the
// oldest first. A value is valid until the next step.
func (v *View) ascend(d dimension, id []byte, from uint64) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		if from >= v.size {
			return
		}
		lower := append([]byte(nil), v.row(d, id, v.size)...)
		it, err := v.iterate(lower, behind(lower[:len(lower)-versionBytes], versionBytes))
		if err != nil {
			yield(row{}, err)
			return
		}
		more, err := v.eachFrom(it, d, id, from, yield)
		if err = errors.Join(err, wrapRead(it.Close())); err != nil && more {
			yield(row{}, err)
		}
	}
}

// seekOrLast puts an iterator on the first key that is not less, or else on the last. If
// the seek has failed it stays there: going on would forget why.
func seekOrLast(it *engine.Iterator, key []byte) bool {
	return it.SeekGE(key) || it.Error() == nil && it.Last()
}

// eachFrom yields the versions from a seq upwards of the row that an iterator is bound
// to, and reports whether more are wanted.
func (v *View) eachFrom(it *engine.Iterator, d dimension, id []byte, from uint64, yield func(row, error) bool) (more bool, err error) {
	// The stretch that it is in, or the oldest.
	for valid := seekOrLast(it, v.row(d, id, from+1)); valid; valid = it.Prev() {
		v.touched++
		encoded, err := it.ValueAndErr()
		if err != nil {
			return true, wrapRead(err)
		}
		s := openStretch(versionOf(it.Key()), encoded)
		for valid := s.err == nil; valid; valid = s.next() {
			if s.seq >= v.size {
				return true, nil
			}
			if s.seq >= from && !yield(s.row, nil) {
				return false, nil
			}
		}
		if s.err != nil {
			return true, s.err
		}
	}
	return true, wrapRead(it.Error())
}
