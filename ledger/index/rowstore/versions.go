package rowstore

import (
	"errors"
	"iter"
	"slices"

	engine "github.com/cockroachdb/pebble/v2"
)

// newestAt returns the newest version in an iterator's current version run whose seq is at most
// seq. The value is valid until the iterator moves.
func newestAt(it *engine.Iterator, seq uint64) (Version, error) {
	encoded, err := it.ValueAndErr()
	if err != nil {
		return Version{}, wrapRead(err)
	}
	return newestUpTo(seq, DecodeVersion(it.Key()), encoded)
}

// VersionSeeker walks over the versions of a row from newer to older ones. It is not safe for
// concurrent use with its Reader, and must be closed.
type VersionSeeker struct {
	from *Reader
	d    Dimension
	id   []byte
	it   *engine.Iterator // nil before the first seek
	// left contains the versions of the current version run that Seek has not yet passed,
	// oldest first. first is the seq of the run's oldest version. Both are set only if valid is
	// true.
	left  []Version
	first uint64
	valid bool
}

// NewVersionSeeker returns a VersionSeeker for a row. The first call to Seek decides where it begins.
func (r *Reader) NewVersionSeeker(d Dimension, id []byte) *VersionSeeker {
	return &VersionSeeker{from: r, d: d, id: id}
}

// Seek returns the newest version whose seq is at most the given seq. ok is false if there is none.
// The given seq must be less than the reader's size, and must not increase between calls. The value
// is valid until the next call.
func (s *VersionSeeker) Seek(seq uint64) (found Version, ok bool, err error) {
	for len(s.left) > 0 {
		if next := s.left[len(s.left)-1]; next.Seq <= seq {
			return next, true, nil
		}
		s.left = s.left[:len(s.left)-1]
	}
	if s.it == nil {
		if s.it, err = s.from.snapshot.NewIter(nil); err != nil {
			return Version{}, false, wrapRead(err)
		}
	}
	s.from.touched++
	if s.valid && s.first == seq+1 {
		s.valid = s.it.Next()
	} else {
		s.valid = s.it.SeekPrefixGE(s.from.seekKey(s.d, s.id, seq+1))
	}
	if !s.valid {
		return Version{}, false, wrapRead(s.it.Error())
	}
	if err := s.take(seq); err != nil {
		return Version{}, false, err
	}
	return s.left[len(s.left)-1], true, nil
}

// take collects the versions in the iterator's current version run whose seq is at most seq.
func (s *VersionSeeker) take(seq uint64) error {
	encoded, err := s.it.ValueAndErr()
	if err != nil {
		return wrapRead(err)
	}
	s.first = DecodeVersion(s.it.Key())
	run := openRun(s.first, encoded)
	s.left = append(s.left[:0], run.Version)
	for run.next() && run.Seq <= seq {
		s.left = append(s.left, run.Version)
	}
	return run.err
}

func (s *VersionSeeker) Close() error {
	if s.it == nil {
		return nil
	}
	return wrapRead(s.it.Close())
}

// VersionsNewestFirst yields the versions of a row whose seq is less than below, newest first. below
// must be at most the reader's size. A value is valid until the next step.
func (r *Reader) VersionsNewestFirst(d Dimension, id []byte, below uint64) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		w := r.NewVersionSeeker(d, id)
		more := true
		var err error
		for more && below > 0 {
			var one Version
			var ok bool
			if one, ok, err = w.Seek(below - 1); err != nil || !ok {
				break
			}
			below, more = one.Seq, yield(one, nil)
		}
		if err = errors.Join(err, w.Close()); err != nil && more {
			yield(Version{}, err)
		}
	}
}

// VersionSeqs yields the seqs of versions.
func VersionSeqs(versions iter.Seq2[Version, error]) iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		for one, err := range versions {
			if !yield(one.Seq, err) {
				return
			}
		}
	}
}

// VersionsOldestFirst yields the versions of a row whose seq is at least from and less than the
// reader's size, oldest first. A value is valid until the next step.
func (r *Reader) VersionsOldestFirst(d Dimension, id []byte, from uint64) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		if from >= r.size {
			return
		}
		more := true
		runs, all, err := r.readShort(d, id)
		switch {
		case err != nil:
		case all:
			more, err = r.eachIn(runs, from, yield)
		default:
			more, err = r.eachBackwards(d, id, from, yield)
		}
		if err != nil && more {
			yield(Version{}, err)
		}
	}
}

// eachBackwards yields the versions of a row of any length whose seq is at least from and less than the
// reader's size, oldest first. more is false if yield returned false.
func (r *Reader) eachBackwards(d Dimension, id []byte, from uint64, yield func(Version, error) bool) (more bool, err error) {
	lower := append([]byte(nil), r.seekKey(d, id, r.size)...)
	it, err := r.NewIterator(lower, UpperBound(lower[:len(lower)-VersionSize], VersionSize))
	if err != nil {
		return true, err
	}
	more, err = r.eachFrom(it.engine, d, id, from, yield)
	return more, errors.Join(err, it.Close())
}

// seekOrLast moves an iterator to the first key that is not less than key, or to the last key if
// there is none. If the seek fails, seekOrLast does not move further, because that would lose the
// error.
func seekOrLast(it *engine.Iterator, key []byte) bool {
	return it.SeekGE(key) || it.Error() == nil && it.Last()
}

// eachFrom yields the versions of a row whose seq is at least from, oldest first. The iterator must
// be limited to the keys of that row. more is false if yield returned false.
func (r *Reader) eachFrom(it *engine.Iterator, d Dimension, id []byte, from uint64, yield func(Version, error) bool) (more bool, err error) {
	// Begin in the version run that contains from, or in the oldest run if none does.
	for valid := seekOrLast(it, r.seekKey(d, id, from+1)); valid; valid = it.Prev() {
		encoded, err := it.ValueAndErr()
		if err != nil {
			return true, wrapRead(err)
		}
		if more, err = r.eachOf(storedRun{DecodeVersion(it.Key()), encoded}, from, yield); !more || err != nil {
			return more, err
		}
	}
	return true, wrapRead(it.Error())
}

// eachOf yields the versions of a version run whose seq is at least from and less than the reader's
// size. more is false if yield returned false.
func (r *Reader) eachOf(run storedRun, from uint64, yield func(Version, error) bool) (more bool, err error) {
	r.touched++
	s := openRun(run.first, run.encoded)
	for valid := s.err == nil; valid && s.Seq < r.size; valid = s.next() {
		if s.Seq >= from && !yield(s.Version, nil) {
			return false, nil
		}
	}
	return true, s.err
}

// storedRun is a version run as it is stored.
type storedRun struct {
	first   uint64 // seq of the oldest version
	encoded []byte
}

// maxShort is the number of version runs that a row may have for readShort to read it.
const maxShort = 4

// readShort returns the version runs of a row that begin below the reader's size, newest first. all is
// false if there are too many. Unlike eachBackwards, readShort reads only the tables whose filters
// contain the row, and uses one iterator for all rows: see BenchmarkVersionsOldestFirst.
func (r *Reader) readShort(d Dimension, id []byte) (runs []storedRun, all bool, err error) {
	if r.rows == nil {
		if r.rows, err = r.snapshot.NewIter(nil); err != nil {
			return nil, false, wrapRead(err)
		}
	}
	for valid := r.rows.SeekPrefixGE(r.seekKey(d, id, r.size)); valid; valid = r.rows.Next() {
		if len(runs) == maxShort {
			return nil, false, nil
		}
		encoded, err := r.rows.ValueAndErr()
		if err != nil {
			return nil, false, wrapRead(err)
		}
		runs = append(runs, storedRun{DecodeVersion(r.rows.Key()), slices.Clone(encoded)})
	}
	return runs, true, wrapRead(r.rows.Error())
}

// eachIn yields the versions in a row's version runs whose seq is at least from and less than the reader's
// size, oldest first. The runs are ordered newest first. more is false if yield returned false.
func (r *Reader) eachIn(runs []storedRun, from uint64, yield func(Version, error) bool) (more bool, err error) {
	// Begin in the version run that contains from, or in the oldest run if none does.
	start := len(runs) - 1
	for start > 0 && runs[start-1].first <= from {
		start--
	}
	for i := start; i >= 0; i-- {
		if more, err = r.eachOf(runs[i], from, yield); !more || err != nil {
			return more, err
		}
	}
	return true, nil
}
