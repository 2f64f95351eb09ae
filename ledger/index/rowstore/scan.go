package rowstore

import (
	"errors"
	"iter"

	engine "github.com/cockroachdb/pebble/v2"
)

// RowVersion is a row and one of its versions. It is valid until the next step of the iteration.
type RowVersion struct {
	RowKey []byte // the key without keyspace, dimension, and version
	Version
}

// NewestVersionsInRange yields the newest version of each row from first through last, in order. It
// ignores versions whose seq is not less than below, and skips rows without an earlier version.
// below must be at most the reader's size. NewestVersionsInRange reads one or two keys per row.
func (r *Reader) NewestVersionsInRange(d Dimension, first, last []byte, below uint64) iter.Seq2[RowVersion, error] {
	return func(yield func(RowVersion, error) bool) {
		keys := r.Keyspace
		// The upper bound is exclusive. It would exclude only a version from event 0, and no row
		// has such a version.
		it, err := r.NewIterator(append(keys.AppendPrefix(nil, d), first...), AppendVersion(append(keys.AppendPrefix(nil, d), last...), 0))
		if err != nil {
			yield(RowVersion{}, err)
			return
		}
		more, err := r.eachNewest(it.engine, below, yield)
		if err = errors.Join(err, it.Close()); err != nil && more {
			yield(RowVersion{}, err)
		}
	}
}

func (r *Reader) eachNewest(it *engine.Iterator, below uint64, yield func(RowVersion, error) bool) (more bool, err error) {
	const head = len(Keyspace{}) + 1
	var name []byte
	for valid := it.First(); valid; {
		r.touched++
		key := it.Key()
		name = append(name[:0], key[:len(key)-VersionSize]...)
		if DecodeVersion(key) >= below {
			if below <= 1 {
				return true, nil
			}
			valid = it.SeekGE(AppendVersion(name, below-1))
			continue
		}
		newest, err := newestAt(it, below-1)
		if err != nil {
			return true, err
		}
		if !yield(RowVersion{name[head:], newest}, nil) {
			return false, nil
		}
		// Move past the oldest version that the row can have.
		valid = it.SeekGE(append(AppendVersion(name, 0), 0))
	}
	return true, wrapRead(it.Error())
}

// KeyValue is a key without a version, and its value. It is valid until the next step of the
// iteration.
type KeyValue struct{ Key, Value []byte }

// Scan yields, in order, the keys without a version that are at least from and less than below.
func (r *Reader) Scan(from, below []byte) iter.Seq2[KeyValue, error] {
	return func(yield func(KeyValue, error) bool) {
		it, err := r.NewIterator(from, below)
		if err != nil {
			yield(KeyValue{}, err)
			return
		}
		more := true
		for valid := it.First(); valid && more; valid = more && it.Next() {
			r.touched++
			var value []byte
			if value, err = it.Value(); err != nil {
				break
			}
			more = yield(KeyValue{it.Key(), value}, nil)
		}
		if err = errors.Join(err, it.Err(), it.Close()); err != nil && more {
			yield(KeyValue{}, err)
		}
	}
}
