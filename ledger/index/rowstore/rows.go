package rowstore

import (
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// Limits bound a batch and, in bytes, what is kept beside it.
type Limits struct{ Batch, RowCache int }

// Rows is what a fold reads and writes through. It gathers a batch, and knows the
// newest version run of the rows that were lately used, so that a counter is not read back
// for every event, nor written more than once for a batch. It belongs to the follower's
// goroutine.
//
// Errors stay: after the first one reads find nothing, writes do nothing, and err
// says what it was.
type Rows struct {
	engine *engine.DB
	Keys   Keyspace
	writes *Batch // the batch; nil between two
	spare  *Batch // for the next one; nil if that is in flight
	// newestStored reads what was committed before the batch; made when it is first
	// needed.
	newestStored *engine.Iterator
	// What the batch has written is among the current rows; changed are those that are
	// not among the writes yet, and waiting is what they will take there.
	cache   rowCache
	changed []place
	waiting int
	limits  Limits // of the batch
	Err     error

	key, value []byte // scratch
}

// Begin starts a batch.
func (r *Rows) Begin(limits Limits) {
	if r.writes, r.spare = r.spare, nil; r.writes == nil {
		r.writes = new(Batch)
	}
	r.writes.reset(limits.Batch)
	r.changed, r.waiting = r.changed[:0], 0
	r.limits = limits
	r.cache.rotate(limits.RowCache)
}

// Full reports whether the batch must end: it has all its bytes, or has used so many
// rows.
func (r *Rows) Full() bool {
	return r.writes.size()+r.waiting >= r.limits.Batch || r.cache.full(r.limits.RowCache)
}

// Empty reports whether nothing has been written since the batch began.
func (r *Rows) Empty() bool { return len(r.writes.list) == 0 && len(r.changed) == 0 }

// Take is the batch, the caller's until it lands. What it holds must be stored
// before the batch that begins after the next one.
func (r *Rows) Take() *Batch {
	for _, at := range r.changed {
		r.flush(at)
	}
	batch := r.writes
	batch.engine = r.engine
	r.writes = nil
	return batch
}

// Reuse takes back a batch that was stored.
func (r *Rows) Reuse(batch *Batch) { r.spare = batch }

// Stored is the value of a key that has no version, as it was stored before the batch; the
// caller's to keep.
func (r *Rows) Stored(key []byte) (value []byte, found bool, err error) {
	value, found, err = get(r.engine, key)
	return value, found, wrapRead(err)
}

// Iterate is an iterator over the keys from lower on and below upper that were stored
// before the batch. The caller closes it.
func (r *Rows) Iterate(lower, upper []byte) (*Iterator, error) {
	return iterate(r.engine, lower, upper)
}

// Each calls do with an iterator that stands on each key of a dimension that was stored
// before the batch, in their order.
func (r *Rows) Each(d Dimension, do func(it *Iterator) error) (err error) {
	it, err := r.Iterate(r.Keys.Key(nil, d), r.Keys.Key(nil, d+1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := do(it); err != nil {
			return err
		}
	}
	return it.Error()
}

// End drops the batch if it was not taken, and says whether all went well.
func (r *Rows) End() error {
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

func (r *Rows) Fail(format string, arguments ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf(format, arguments...)
	}
}

// Newest is the newest version of a row, what the batch has written included. The
// value must not be changed, and is valid until the row is put again.
func (r *Rows) Newest(d Dimension, row []byte) (seq uint64, value []byte, found bool) {
	return r.cache.current.newest(r.load(r.name(d, row)))
}

// name is what the keys of a row's versions begin with. It is scratch.
func (r *Rows) name(d Dimension, row []byte) []byte {
	r.key = append(r.Keys.Key(r.key[:0], d), row...)
	return r.key
}

// load is the place of a row, which is read if need be; after an error it has no
// version.
func (r *Rows) load(name []byte) place {
	if at := r.cache.find(name); at != 0 {
		return at
	}
	s, run, err := r.read(name)
	if err != nil {
		r.Fail("reading the index: %w", err)
	}
	return r.cache.keep(name, s, run)
}

// read is the newest stored version run of a row.
func (r *Rows) read(name []byte) (s span, run []byte, err error) {
	if r.Err != nil {
		return span{}, nil, nil
	}
	if r.newestStored == nil {
		if r.newestStored, err = r.engine.NewIter(nil); err != nil {
			return span{}, nil, err
		}
	}
	if !r.newestStored.SeekPrefixGE(append(name, make([]byte, VersionBytes)...)) {
		return span{}, nil, r.newestStored.Error()
	}
	if run, err = r.newestStored.ValueAndErr(); err != nil {
		return span{}, nil, err
	}
	s, err = spanOf(VersionOf(r.newestStored.Key()), run)
	return s, run, err
}

// Put writes the version of a row that event seq makes, in place of one that the
// same event has made.
func (r *Rows) Put(d Dimension, row []byte, seq uint64, value []byte) {
	at := r.load(r.name(d, row))
	if !r.cache.current.accepts(at, seq) {
		r.startRun(at, seq, value)
		return
	}
	r.change(at, r.cache.current.add(at, seq, value))
}

// Start is put for the first version of a row, and for one that shares no key with
// those before it, which are not looked for.
func (r *Rows) Start(d Dimension, row []byte, seq uint64, value []byte) {
	r.value = appendValue(r.value[:0], value)
	r.change(r.cache.keep(r.name(d, row), spanFrom(seq), r.value), 0)
}

// renew begins a version run of a row that is kept.
func (r *Rows) startRun(at place, seq uint64, value []byte) {
	r.flush(at)
	r.value = appendValue(r.value[:0], value)
	r.cache.current.replace(at, spanFrom(seq), r.value)
	r.change(at, 0)
}

// change notes that the version run of a row differs from what was written, and by how much
// it has grown since it was first noted.
func (r *Rows) change(at place, grown int) {
	e := &r.cache.current.entries[at]
	if e.changed {
		r.waiting += grown
		return
	}
	e.changed = true
	r.changed = append(r.changed, at)
	r.waiting += e.writtenBytes()
}

// flush writes the version run of a row, if it has changed.
func (r *Rows) flush(at place) {
	e := &r.cache.current.entries[at]
	if !e.changed {
		return
	}
	e.changed = false
	r.waiting -= e.writtenBytes()
	r.key = AppendVersion(append(r.key[:0], r.cache.current.nameOf(e)...), e.first)
	r.Set(r.key, r.cache.current.runOf(e))
}

// Write is put for rows whose newest version the fold never asks for: no two versions
// share a key.
func (r *Rows) Write(d Dimension, row []byte, seq uint64, value []byte) {
	r.key = AppendVersion(r.name(d, row), seq)
	r.value = appendValue(r.value[:0], value)
	r.Set(r.key, r.value)
}

// Set writes a key that has no version.
func (r *Rows) Set(key, value []byte) {
	if r.Err == nil {
		r.writes.add(setKey, key, value)
	}
}

// Undo removes a key that has no version and was set once since it was last removed,
// which the engine need not remember for long.
func (r *Rows) SingleDelete(key []byte) {
	if r.Err == nil {
		r.writes.add(singleDeleteKey, key, nil)
	}
}

// Delete removes a key that has no version.
func (r *Rows) Delete(key []byte) {
	if r.Err == nil {
		r.writes.add(deleteKey, key, nil)
	}
}
