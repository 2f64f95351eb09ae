package index

import (
	"errors"
	"iter"

	engine "github.com/cockroachdb/pebble/v2"
)

// namedRow is one version of a row that was ranged over. It is valid until the next
// step.
type namedRow struct {
	id []byte // what stands before the version
	row
}

// rowsBetween yields the newest version below a size, which is at most the view's, of
// each row of a dimension from one to another, both included, in their order. It reads
// one or two keys a row.
func (v *View) rowsBetween(d dimension, first, last []byte, below uint64) iter.Seq2[namedRow, error] {
	return func(yield func(namedRow, error) bool) {
		keys := v.keys
		// No row has a version of event 0.
		it, err := v.iterate(append(keys.key(nil, d), first...), appendVersion(append(keys.key(nil, d), last...), 0))
		if err != nil {
			yield(namedRow{}, err)
			return
		}
		more, err := v.eachNewest(it, below, yield)
		if err = errors.Join(err, it.Close()); err != nil && more {
			yield(namedRow{}, wrapRead(err))
		}
	}
}

func (v *View) eachNewest(it *engine.Iterator, below uint64, yield func(namedRow, error) bool) (more bool, err error) {
	const head = len(keyspace{}) + 1
	var name []byte
	for valid := it.First(); valid; {
		v.touched++
		key := it.Key()
		name = append(name[:0], key[:len(key)-versionBytes]...)
		if versionOf(key) >= below {
			if below <= 1 {
				return true, nil
			}
			valid = it.SeekGE(appendVersion(name, below-1))
			continue
		}
		newest, err := newestAt(it, below-1)
		if err != nil {
			return true, err
		}
		if !yield(namedRow{name[head:], newest}, nil) {
			return false, nil
		}
		// Behind the oldest version that a row can have.
		valid = it.SeekGE(append(appendVersion(name, 0), 0))
	}
	return true, it.Error()
}

// pairing is a key that has no version, and its value. It is valid until the next
// step.
type pairing struct{ key, value []byte }

// scan yields the keys that have no version from one on and below another, in their
// order.
func (v *View) scan(from, below []byte) iter.Seq2[pairing, error] {
	return func(yield func(pairing, error) bool) {
		it, err := v.snapshot.NewIter(&engine.IterOptions{LowerBound: from, UpperBound: below})
		if err != nil {
			yield(pairing{}, wrapRead(err))
			return
		}
		more := true
		for valid := it.First(); valid && more; valid = more && it.Next() {
			v.touched++
			var value []byte
			if value, err = it.ValueAndErr(); err != nil {
				break
			}
			more = yield(pairing{it.Key(), value}, nil)
		}
		if err = errors.Join(err, it.Error(), it.Close()); err != nil && more {
			yield(pairing{}, wrapRead(err))
		}
	}
}
