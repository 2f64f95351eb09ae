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

// newestRows yields the newest version below a size of each row of a dimension from
// one to another, both included, in their order. It counts the keys that it reads: one
// or two a row.
func newestRows(reader engine.Reader, keys keyspace, d dimension, first, last []byte, below uint64, touched *int) iter.Seq2[namedRow, error] {
	return func(yield func(namedRow, error) bool) {
		// No row has a version of event 0.
		it, err := reader.NewIter(&engine.IterOptions{
			LowerBound: append(keys.key(nil, d), first...),
			UpperBound: appendVersion(append(keys.key(nil, d), last...), 0),
		})
		if err != nil {
			yield(namedRow{}, wrapRead(err))
			return
		}
		more, err := eachNewest(it, below, touched, yield)
		if err = errors.Join(err, it.Close()); err != nil && more {
			yield(namedRow{}, wrapRead(err))
		}
	}
}

func eachNewest(it *engine.Iterator, below uint64, touched *int, yield func(namedRow, error) bool) (more bool, err error) {
	const head = len(keyspace{}) + 1
	var name []byte
	for valid := it.First(); valid; {
		*touched++
		key := it.Key()
		name = append(name[:0], key[:len(key)-versionBytes]...)
		seq := versionOf(key)
		if seq >= below {
			if below <= 1 {
				return true, nil
			}
			valid = it.SeekGE(appendVersion(name, below-1))
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return true, err
		}
		if !yield(namedRow{name[head:], row{seq, value}}, nil) {
			return false, nil
		}
		// Behind the last version that a row can have.
		valid = it.SeekGE(append(appendVersion(name, 0), 0))
	}
	return true, it.Error()
}

// rowsBetween is newestRows of the view, for a size that is at most its own.
func (v *View) rowsBetween(d dimension, first, last []byte, below uint64) iter.Seq2[namedRow, error] {
	return newestRows(v.snapshot, v.follower.fold.rows.keys, d, first, last, below, &v.touched)
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
