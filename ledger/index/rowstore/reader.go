package rowstore

import (
	"bytes"
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// Reader reads rows as of one tree size: it ignores versions from later events. It is not safe
// for concurrent use, and must be closed.
type Reader struct {
	Keyspace Keyspace // part of the index that is read
	snapshot *engine.Snapshot
	schema   *Schema
	size     uint64
	points   *engine.Iterator // for point reads; nil until the first read
	rows     *engine.Iterator // for reading short rows, so that values from points stay valid; nil until the first read
	key      []byte           // scratch
	// touched counts the keys that were read from the index and from the log. bytes counts the
	// bytes of the events that were read.
	touched, bytes int
}

// Size returns the tree size of the reader.
func (r *Reader) Size() uint64 { return r.size }

// KeysRead returns the number of keys that have been read so far from the index and from the log.
func (r *Reader) KeysRead() int { return r.touched }

// EventBytesRead returns the number of bytes of events that have been read so far.
func (r *Reader) EventBytesRead() int { return r.bytes }

// AddReads adds the caller's own reads to the Reader's counts of keys and bytes of events.
func (r *Reader) AddReads(keys, bytes int) {
	r.touched += keys
	r.bytes += bytes
}

func (r *Reader) Close() error {
	var err error
	for _, it := range [...]*engine.Iterator{r.points, r.rows} {
		if it != nil {
			err = errors.Join(err, it.Close())
		}
	}
	return errors.Join(err, r.snapshot.Close())
}

// seekKey returns the key from which to seek the newest version of a row with a seq less than
// below.
func (r *Reader) seekKey(d Dimension, row []byte, below uint64) []byte {
	r.key = AppendVersion(append(r.Keyspace.AppendPrefix(r.key[:0], d), row...), below-1)
	return r.key
}

// NewestVersion returns the newest version of a row that the reader sees. The value is valid until
// the next call.
func (r *Reader) NewestVersion(d Dimension, row []byte) (seq uint64, value []byte, found bool, err error) {
	return r.NewestVersionBelow(d, row, r.size)
}

// NewestVersionBelow is like NewestVersion, but only considers versions whose seq is less than
// below.
func (r *Reader) NewestVersionBelow(d Dimension, row []byte, below uint64) (seq uint64, value []byte, found bool, err error) {
	if below == 0 {
		return 0, nil, false, nil
	}
	if err := r.point(); err != nil {
		return 0, nil, false, err
	}
	r.touched++
	if !r.points.SeekPrefixGE(r.seekKey(d, row, below)) {
		return 0, nil, false, wrapRead(r.points.Error())
	}
	newest, err := newestAt(r.points, below-1)
	return newest.Seq, newest.Value, err == nil, err
}

// point opens the iterator for point reads if it is not open yet.
func (r *Reader) point() (err error) {
	if r.points == nil {
		r.points, err = r.snapshot.NewIter(nil)
	}
	return wrapRead(err)
}

// Get returns the value of a key that has no version. The value is valid until the next read.
func (r *Reader) Get(key []byte) (value []byte, found bool, err error) {
	if err := r.point(); err != nil {
		return nil, false, err
	}
	r.touched++
	if !r.points.SeekPrefixGE(key) || !bytes.Equal(r.points.Key(), key) {
		return nil, false, wrapRead(r.points.Error())
	}
	value, err = r.points.ValueAndErr()
	return value, err == nil, wrapRead(err)
}

// HasKeyWithPrefix reports whether any key begins with prefix.
func (r *Reader) HasKeyWithPrefix(prefix []byte) (bool, error) {
	if err := r.point(); err != nil {
		return false, err
	}
	r.touched++
	found := r.points.SeekGE(prefix) && bytes.HasPrefix(r.points.Key(), prefix)
	return found, wrapRead(r.points.Error())
}

// GetStored is like Get, but does not count the key. The caller owns the value.
func (r *Reader) GetStored(key []byte) (value []byte, found bool, err error) {
	value, found, err = get(r.snapshot, key)
	return value, found, wrapRead(err)
}

// NewIterator returns an iterator over the keys from lower up to but not including upper. The
// caller must close it.
func (r *Reader) NewIterator(lower, upper []byte) (*Iterator, error) {
	return iterate(r.snapshot, lower, upper)
}

// SetSize changes the tree size of the reader.
func (r *Reader) SetSize(size uint64) { r.size = size }

func wrapRead(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading the index: %w", err)
}
