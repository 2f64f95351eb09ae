package rowstore

import (
	"iter"

	engine "github.com/cockroachdb/pebble/v2"
)

// Iterator walks over stored keys in order. When Valid returns false, Err says whether reading
// failed or the walk has ended. An Iterator is not safe for concurrent use, and must be closed.
type Iterator struct{ engine *engine.Iterator }

func iterate(from engine.Reader, lower, upper []byte) (*Iterator, error) {
	it, err := from.NewIter(&engine.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, wrapRead(err)
	}
	return &Iterator{it}, nil
}

// First moves to the first key. Like every method that moves the iterator, it reports whether there
// is such a key.
func (it *Iterator) First() bool { return it.engine.First() }

// Last moves to the last key.
func (it *Iterator) Last() bool { return it.engine.Last() }

// Next moves to the next key.
func (it *Iterator) Next() bool { return it.engine.Next() }

// Prev moves to the previous key.
func (it *Iterator) Prev() bool { return it.engine.Prev() }

// SeekGE moves to the first key that is not less than key.
func (it *Iterator) SeekGE(key []byte) bool { return it.engine.SeekGE(key) }

// SeekLT moves to the last key that is less than key.
func (it *Iterator) SeekLT(key []byte) bool { return it.engine.SeekLT(key) }

// SeekGEOrLast moves to the first key that is not less than key, or to the last key if there is
// none.
func (it *Iterator) SeekGEOrLast(key []byte) bool { return seekOrLast(it.engine, key) }

// Valid reports whether the iterator is at a key.
func (it *Iterator) Valid() bool { return it.engine.Valid() }

// Key returns the current key. It is valid until the next move.
func (it *Iterator) Key() []byte { return it.engine.Key() }

// Value returns the current key's value. It is valid until the next move.
func (it *Iterator) Value() ([]byte, error) {
	value, err := it.engine.ValueAndErr()
	return value, wrapRead(err)
}

// NewestVersionUpTo returns the newest of the versions stored under the current key whose seq is at
// most seq. Its value is valid until the next move.
func (it *Iterator) NewestVersionUpTo(seq uint64) (Version, error) { return newestAt(it.engine, seq) }

// Versions yields the versions stored under the current key, oldest first. Their values are valid
// until the next move.
func (it *Iterator) Versions() iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		encoded, err := it.Value()
		if err != nil {
			yield(Version{}, err)
			return
		}
		s := openRun(DecodeVersion(it.engine.Key()), encoded)
		for valid := s.err == nil; valid; valid = s.next() {
			if !yield(s.Version, nil) {
				return
			}
		}
		if s.err != nil {
			yield(Version{}, s.err)
		}
	}
}

// Err returns the error from the last move.
func (it *Iterator) Err() error { return wrapRead(it.engine.Error()) }

func (it *Iterator) Close() error { return wrapRead(it.engine.Close()) }
