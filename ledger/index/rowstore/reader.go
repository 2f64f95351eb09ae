package rowstore

import (
	"bytes"
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// Reader reads rows as of one tree size: versions of later events are not seen. It is for
// one goroutine, and must be closed.
type Reader struct {
	Keys     Keyspace
	snapshot *engine.Snapshot
	size     uint64
	points   *engine.Iterator // for point reads; made when it is first needed
	key      []byte           // scratch
	// touched counts the keys that were read, of the log too, and bytes those of events.
	touched, bytes int
}

// Size is the tree size that the rows are read at.
func (r *Reader) Size() uint64 { return r.size }

// Touched is the number of keys that were read so far, those of the log included.
func (r *Reader) Touched() int { return r.touched }

// EventBytes is the length of all events that were read so far.
func (r *Reader) EventBytes() int { return r.bytes }

// Count counts keys that were read elsewhere, and bytes of events.
func (r *Reader) Count(keys, bytes int) {
	r.touched += keys
	r.bytes += bytes
}

func (r *Reader) Close() error {
	var err error
	if r.points != nil {
		err = r.points.Close()
	}
	return errors.Join(err, r.snapshot.Close())
}

// row appends the key of a row's newest version below a size.
func (r *Reader) row(d Dimension, row []byte, below uint64) []byte {
	r.key = AppendVersion(append(r.Keys.Key(r.key[:0], d), row...), below-1)
	return r.key
}

// Newest is the newest version of a row that the view sees. The value is valid
// until the next call.
func (r *Reader) Newest(d Dimension, row []byte) (seq uint64, value []byte, found bool, err error) {
	return r.NewestBelow(d, row, r.size)
}

// NewestBelow is newest for a smaller size.
func (r *Reader) NewestBelow(d Dimension, row []byte, below uint64) (seq uint64, value []byte, found bool, err error) {
	if below == 0 {
		return 0, nil, false, nil
	}
	if err := r.point(); err != nil {
		return 0, nil, false, err
	}
	r.touched++
	if !r.points.SeekPrefixGE(r.row(d, row, below)) {
		return 0, nil, false, wrapRead(r.points.Error())
	}
	newest, err := newestAt(r.points, below-1)
	return newest.Seq, newest.Value, err == nil, err
}

// point makes points if need be.
func (r *Reader) point() (err error) {
	if r.points == nil {
		r.points, err = r.snapshot.NewIter(nil)
	}
	return wrapRead(err)
}

// Get is the value under a key that has no version, valid until the next read.
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

// Any reports whether any key begins with a prefix.
func (r *Reader) Any(prefix []byte) (bool, error) {
	if err := r.point(); err != nil {
		return false, err
	}
	r.touched++
	found := r.points.SeekGE(prefix) && bytes.HasPrefix(r.points.Key(), prefix)
	return found, wrapRead(r.points.Error())
}

// Stored is Get for a reader whose size is not known yet, and does not count as read.
func (r *Reader) Stored(key []byte) (value []byte, found bool, err error) {
	value, found, err = get(r.snapshot, key)
	return value, found, wrapRead(err)
}

// Iterate is an iterator over the keys from lower on and below upper, which the caller
// closes.
func (r *Reader) Iterate(lower, upper []byte) (*Iterator, error) {
	return iterate(r.snapshot, lower, upper)
}

// SetSize has the reader read as of another size.
func (r *Reader) SetSize(size uint64) { r.size = size }

func wrapRead(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading the index: %w", err)
}
