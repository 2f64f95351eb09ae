package rowstore

import (
	"iter"

	engine "github.com/cockroachdb/pebble/v2"
)

// Iterator walks stored keys in their order. Where it stands on none, error says whether
// it could not be read or has come to the end. It is for one goroutine, and must be closed.
type Iterator struct{ engine *engine.Iterator }

func iterate(from engine.Reader, lower, upper []byte) (*Iterator, error) {
	it, err := from.NewIter(&engine.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, wrapRead(err)
	}
	return &Iterator{it}, nil
}

// First goes to the first key, and reports whether there is one, as all moves do.
func (it *Iterator) First() bool { return it.engine.First() }

// Last goes to the last key.
func (it *Iterator) Last() bool { return it.engine.Last() }

// Next goes to the next key.
func (it *Iterator) Next() bool { return it.engine.Next() }

// Prev goes to the key before.
func (it *Iterator) Prev() bool { return it.engine.Prev() }

// SeekGE goes to the first key that is not less.
func (it *Iterator) SeekGE(key []byte) bool { return it.engine.SeekGE(key) }

// SeekLT goes to the last key that is less.
func (it *Iterator) SeekLT(key []byte) bool { return it.engine.SeekLT(key) }

// SeekOrLast goes to the first key that is not less, or else to the last.
func (it *Iterator) SeekOrLast(key []byte) bool { return seekOrLast(it.engine, key) }

// Valid reports whether it stands on a key.
func (it *Iterator) Valid() bool { return it.engine.Valid() }

// Key is the key that it stands on, valid until the next move.
func (it *Iterator) Key() []byte { return it.engine.Key() }

// Value is the value of the key that it stands on, valid until the next move.
func (it *Iterator) Value() ([]byte, error) {
	value, err := it.engine.ValueAndErr()
	return value, wrapRead(err)
}

// NewestUpTo is the newest version up to a seq of the version run that it stands on. The
// value is valid until the next move.
func (it *Iterator) NewestUpTo(seq uint64) (Version, error) { return newestAt(it.engine, seq) }

// Versions yields the versions of the version run that it stands on, the oldest first. A
// value is valid until the next move.
func (it *Iterator) Versions() iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		encoded, err := it.Value()
		if err != nil {
			yield(Version{}, err)
			return
		}
		s := openRun(VersionOf(it.engine.Key()), encoded)
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

// Error is why the last move failed; nil if it did not.
func (it *Iterator) Error() error { return wrapRead(it.engine.Error()) }

// Close releases it.
func (it *Iterator) Close() error { return wrapRead(it.engine.Close()) }
