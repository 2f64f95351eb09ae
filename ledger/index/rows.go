package index

import (
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// rows is what a fold reads and writes through. It gathers a batch, and knows the
// newest stretch of the rows that were lately used, so that a counter is not read back
// for every event, nor written more than once for a batch. It belongs to the follower's
// goroutine.
//
// Errors stay: after the first one reads find nothing, writes do nothing, and err
// says what it was.
type rows struct {
	engine *engine.DB
	keys   keyspace
	writes *writes // the batch; nil between two
	spare  *writes // for the next one; nil if that is in flight
	// stored reads what was committed before the batch; made when it is first
	// needed.
	stored *engine.Iterator
	// What the batch has written is among the young rows; changed are those that are
	// not among the writes yet, and waiting is what they will take there.
	cache   rowCache
	changed []place
	waiting int
	limits  limits // of the batch
	err     error

	key, value []byte // scratch
}

// begin starts a batch.
func (r *rows) begin(limits limits) {
	if r.writes, r.spare = r.spare, nil; r.writes == nil {
		r.writes = new(writes)
	}
	r.writes.reset(limits.batch)
	r.changed, r.waiting = r.changed[:0], 0
	r.limits = limits
	r.cache.turn(limits.kept)
}

// full reports whether the batch must end: it has all its bytes, or has used so many
// rows.
func (r *rows) full() bool {
	return r.writes.size()+r.waiting >= r.limits.batch || r.cache.full(r.limits.kept)
}

// empty reports whether nothing has been written since the batch began.
func (r *rows) empty() bool { return len(r.writes.list) == 0 && len(r.changed) == 0 }

// takeOff is the batch, the caller's until it lands. What it holds must be stored
// before the batch that begins after the next one.
func (r *rows) takeOff() *writes {
	for _, at := range r.changed {
		r.flush(at)
	}
	batch := r.writes
	r.writes = nil
	return batch
}

// end drops the batch if it was not taken, and says whether all went well.
func (r *rows) end() error {
	err := r.err
	if r.writes != nil {
		r.spare = r.writes
	}
	if r.stored != nil {
		err = errors.Join(err, r.stored.Close())
		r.stored = nil
	}
	r.writes, r.err = nil, nil
	return err
}

func (r *rows) fail(format string, arguments ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, arguments...)
	}
}

// newest is the newest version of a row, what the batch has written included. The
// value must not be changed, and is valid until the row is put again.
func (r *rows) newest(d dimension, row []byte) (seq uint64, value []byte, found bool) {
	return r.cache.young.newest(r.load(r.name(d, row)))
}

// name is what the keys of a row's versions begin with. It is scratch.
func (r *rows) name(d dimension, row []byte) []byte {
	r.key = append(r.keys.key(r.key[:0], d), row...)
	return r.key
}

// load is the place of a row, which is read if need be; after an error it has no
// version.
func (r *rows) load(name []byte) place {
	if at := r.cache.find(name); at != 0 {
		return at
	}
	s, stretch, err := r.read(name)
	if err != nil {
		r.fail("reading the index: %w", err)
	}
	return r.cache.keep(name, s, stretch)
}

// read is the newest stored stretch of a row.
func (r *rows) read(name []byte) (s span, stretch []byte, err error) {
	if r.err != nil {
		return span{}, nil, nil
	}
	if r.stored == nil {
		if r.stored, err = r.engine.NewIter(nil); err != nil {
			return span{}, nil, err
		}
	}
	if !r.stored.SeekPrefixGE(append(name, make([]byte, versionBytes)...)) {
		return span{}, nil, r.stored.Error()
	}
	if stretch, err = r.stored.ValueAndErr(); err != nil {
		return span{}, nil, err
	}
	s, err = spanOf(versionOf(r.stored.Key()), stretch)
	return s, stretch, err
}

// put writes the version of a row that event seq makes, in place of one that the
// same event has made.
func (r *rows) put(d dimension, row []byte, seq uint64, value []byte) {
	at := r.load(r.name(d, row))
	if !r.cache.young.takes(at, seq) {
		r.renew(at, seq, value)
		return
	}
	r.change(at, r.cache.young.add(at, seq, value))
}

// start is put for the first version of a row, and for one that shares no key with
// those before it, which are not looked for.
func (r *rows) start(d dimension, row []byte, seq uint64, value []byte) {
	r.value = appendValue(r.value[:0], value)
	r.change(r.cache.keep(r.name(d, row), spanFrom(seq), r.value), 0)
}

// renew begins a stretch of a row that is kept.
func (r *rows) renew(at place, seq uint64, value []byte) {
	r.flush(at)
	r.value = appendValue(r.value[:0], value)
	r.cache.young.replace(at, spanFrom(seq), r.value)
	r.change(at, 0)
}

// change notes that the stretch of a row differs from what was written, and by how much
// it has grown since it was first noted.
func (r *rows) change(at place, grown int) {
	e := &r.cache.young.entries[at]
	if e.changed {
		r.waiting += grown
		return
	}
	e.changed = true
	r.changed = append(r.changed, at)
	r.waiting += e.writtenBytes()
}

// flush writes the stretch of a row, if it has changed.
func (r *rows) flush(at place) {
	e := &r.cache.young.entries[at]
	if !e.changed {
		return
	}
	e.changed = false
	r.waiting -= e.writtenBytes()
	r.key = appendVersion(append(r.key[:0], r.cache.young.nameOf(e)...), e.first)
	r.set(r.key, r.cache.young.stretchOf(e))
}

// write is put for rows whose newest version the fold never asks for: no two versions
// share a key.
func (r *rows) write(d dimension, row []byte, seq uint64, value []byte) {
	r.key = appendVersion(r.name(d, row), seq)
	r.value = appendValue(r.value[:0], value)
	r.set(r.key, r.value)
}

// set writes a key that has no version.
func (r *rows) set(key, value []byte) {
	if r.err == nil {
		r.writes.add(setKey, key, value)
	}
}

// undo removes a key that has no version and was set once since it was last removed,
// which the engine need not remember for long.
func (r *rows) undo(key []byte) {
	if r.err == nil {
		r.writes.add(undoKey, key, nil)
	}
}

// delete removes a key that has no version.
func (r *rows) delete(key []byte) {
	if r.err == nil {
		r.writes.add(deleteKey, key, nil)
	}
}
