package rowstore

import (
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// Limits holds the maximum sizes of a batch and of the row cache, in bytes.
type Limits struct{ BatchBytes, RowCacheBytes int }

// Writer reads and writes rows for a fold. It collects a batch, and caches the newest version runs
// of recently used rows, so that a counter is neither read for every event nor written more than
// once per batch. Only the follower's goroutine may use it.
//
// Errors are sticky: after the first error, reads find nothing and writes do nothing until
// EndBatch, which returns that error.
type Writer struct {
	engine   *engine.DB
	Keyspace Keyspace // part of the index that is read and written
	writes   *Batch   // the current batch; nil between batches
	spare    *Batch   // a batch for reuse; nil while that batch is being stored
	// newestStored reads rows as they were before the batch. It is nil until the first read.
	newestStored *engine.Iterator
	// The cache's current generation contains the rows of the batch. changed lists the rows that
	// have not been added to writes yet. waiting is the number of bytes that they will add to
	// writes.
	cache   rowCache
	changed []place
	waiting int
	limits  Limits // limits of the current batch
	Err     error  // the first error; nil if there was none

	key, value []byte // scratch
}

// BeginBatch begins a batch with the given limits.
func (r *Writer) BeginBatch(limits Limits) {
	if r.writes, r.spare = r.spare, nil; r.writes == nil {
		r.writes = new(Batch)
	}
	r.writes.reset(limits.BatchBytes)
	r.changed, r.waiting = r.changed[:0], 0
	r.limits = limits
	r.cache.rotate(limits.RowCacheBytes)
}

// IsFull reports whether the batch must end because it has reached its size or because the row
// cache is full.
func (r *Writer) IsFull() bool {
	return r.writes.size()+r.waiting >= r.limits.BatchBytes || r.cache.full(r.limits.RowCacheBytes)
}

// IsEmpty reports whether nothing has been written since the batch began.
func (r *Writer) IsEmpty() bool { return len(r.writes.list) == 0 && len(r.changed) == 0 }

// TakeBatch ends the batch and returns it. The caller must commit the batch and pass it to
// ReuseBatch before the second call to BeginBatch that follows. The row cache keeps the rows of the
// batch until then.
func (r *Writer) TakeBatch() *Batch {
	for _, at := range r.changed {
		r.flush(at)
	}
	batch := r.writes
	batch.engine = r.engine
	r.writes = nil
	return batch
}

// ReuseBatch takes back a committed batch, so that its memory can be reused.
func (r *Writer) ReuseBatch(batch *Batch) { r.spare = batch }

// GetStored returns the value that a key without a version had before the batch. The caller owns
// the value.
func (r *Writer) GetStored(key []byte) (value []byte, found bool, err error) {
	value, found, err = get(r.engine, key)
	return value, found, wrapRead(err)
}

// NewIterator returns an iterator over the keys from lower up to but not including upper, as they
// were before the batch. The caller must close it.
func (r *Writer) NewIterator(lower, upper []byte) (*Iterator, error) {
	return iterate(r.engine, lower, upper)
}

// ForEachKey calls do for each key of a dimension, in order. It sees the keys as they were before
// the batch.
func (r *Writer) ForEachKey(d Dimension, do func(it *Iterator) error) (err error) {
	it, err := r.NewIterator(r.Keyspace.AppendPrefix(nil, d), r.Keyspace.AppendPrefix(nil, d+1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := do(it); err != nil {
			return err
		}
	}
	return it.Err()
}

// EndBatch discards the batch unless it was taken, and returns the first error since BeginBatch.
func (r *Writer) EndBatch() error {
	err := r.Err
	if r.writes != nil {
		r.spare = r.writes
	}
	if r.newestStored != nil {
		err = errors.Join(err, r.newestStored.Close())
		r.newestStored = nil
	}
	r.writes, r.Err = nil, nil
	return err
}

// Failf sets Err unless an earlier error has set it.
func (r *Writer) Failf(format string, arguments ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf(format, arguments...)
	}
}

// NewestVersion returns the newest version of a row, including the versions in the batch. The caller
// must not change the value, which is valid until the next write to the row.
func (r *Writer) NewestVersion(d Dimension, row []byte) (seq uint64, value []byte, found bool) {
	return r.cache.current.newest(r.load(r.name(d, row)))
}

// name returns the key of a row without its version, in scratch memory.
func (r *Writer) name(d Dimension, row []byte) []byte {
	r.key = append(r.Keyspace.AppendPrefix(r.key[:0], d), row...)
	return r.key
}

// load returns the place of a row in the cache, and reads the row if it is not cached. If reading
// fails, the row appears to have no versions.
func (r *Writer) load(name []byte) place {
	if at := r.cache.find(name); at != 0 {
		return at
	}
	s, run, err := r.read(name)
	if err != nil {
		r.Failf("reading the index: %w", err)
	}
	return r.cache.put(name, s, run)
}

// read reads the newest stored version run of a row.
func (r *Writer) read(name []byte) (s span, run []byte, err error) {
	if r.Err != nil {
		return span{}, nil, nil
	}
	if r.newestStored == nil {
		if r.newestStored, err = r.engine.NewIter(nil); err != nil {
			return span{}, nil, err
		}
	}
	if !r.newestStored.SeekPrefixGE(append(name, make([]byte, VersionSize)...)) {
		return span{}, nil, r.newestStored.Error()
	}
	if run, err = r.newestStored.ValueAndErr(); err != nil {
		return span{}, nil, err
	}
	s, err = spanOf(DecodeVersion(r.newestStored.Key()), run)
	return s, run, err
}

// Put writes a version of a row. A second version from the same event replaces the first.
func (r *Writer) Put(d Dimension, row []byte, seq uint64, value []byte) {
	r.PutSince(d, row, seq, value, 0)
}

// PutFirst writes the first version of a version run, which must be later than all other versions of the
// row. Unlike Put, it does not read the row.
func (r *Writer) PutFirst(d Dimension, row []byte, seq uint64, value []byte) {
	r.value = appendValue(r.value[:0], value)
	r.change(r.cache.put(r.name(d, row), spanFrom(seq), r.value), 0)
}

// PutSince is like Put, but begins a new version run if the newest run begins before seq since.
func (r *Writer) PutSince(d Dimension, row []byte, seq uint64, value []byte, since uint64) {
	at := r.load(r.name(d, row))
	if e := r.cache.current.entry(at); e.first < since || !r.cache.current.accepts(at, seq) {
		r.startRun(at, seq, value)
		return
	}
	r.change(at, r.cache.current.add(at, seq, value))
}

// startRun begins a new version run of a cached row.
func (r *Writer) startRun(at place, seq uint64, value []byte) {
	r.flush(at)
	r.value = appendValue(r.value[:0], value)
	r.cache.current.replace(at, spanFrom(seq), r.value)
	r.change(at, 0)
}

// change marks the version run of a row as changed and updates the size of the batch.
func (r *Writer) change(at place, grown int) {
	e := r.cache.current.entry(at)
	if e.changed {
		r.waiting += grown
		return
	}
	e.changed = true
	r.changed = append(r.changed, at)
	r.waiting += e.writtenBytes()
}

// flush adds the version run of a row to the batch if the run has changed.
func (r *Writer) flush(at place) {
	e := r.cache.current.entry(at)
	if !e.changed {
		return
	}
	e.changed = false
	r.waiting -= e.writtenBytes()
	r.key = AppendVersion(append(r.key[:0], r.cache.current.nameOf(e)...), e.first)
	r.Set(r.key, r.cache.current.runOf(e))
}

// PutSeparately writes a version under its own key, without reading or caching the row. It is for rows
// that the fold never reads.
func (r *Writer) PutSeparately(d Dimension, row []byte, seq uint64, value []byte) {
	r.key = AppendVersion(r.name(d, row), seq)
	r.value = appendValue(r.value[:0], value)
	r.Set(r.key, r.value)
}

// Set sets the value of a key that has no version.
func (r *Writer) Set(key, value []byte) {
	if r.Err == nil {
		r.writes.add(setKey, key, value)
	}
}

// SingleDelete removes a key that has no version and that was set exactly once since it was last
// removed. It costs the engine less than Delete.
func (r *Writer) SingleDelete(key []byte) {
	if r.Err == nil {
		r.writes.add(singleDeleteKey, key, nil)
	}
}

// Delete removes a key that has no version.
func (r *Writer) Delete(key []byte) {
	if r.Err == nil {
		r.writes.add(deleteKey, key, nil)
	}
}
