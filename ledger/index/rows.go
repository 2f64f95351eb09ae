package index

import (
	"errors"
	"fmt"

	engine "github.com/cockroachdb/pebble/v2"
)

// rows is what a fold reads and writes through. It gathers a batch, and knows the
// newest version of the rows that were lately used, so that a counter is not read
// back for every event. It belongs to the follower's goroutine.
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
	// What the batch has written is among the young rows.
	cache  rowCache
	limits limits // of the batch
	key    []byte // scratch
	err    error
}

// begin starts a batch.
func (r *rows) begin(limits limits) {
	if r.writes, r.spare = r.spare, nil; r.writes == nil {
		r.writes = new(writes)
	}
	r.writes.reset(limits.batch)
	r.limits = limits
	r.cache.turn(limits.kept)
}

// full reports whether the batch must end: it has all its bytes, or has used so many
// rows.
func (r *rows) full() bool {
	return r.writes.size() >= r.limits.batch || r.cache.full(r.limits.kept)
}

// takeOff is the batch, the caller's until it lands. What it holds must be stored
// before the batch that begins after the next one.
func (r *rows) takeOff() *writes {
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
	name := r.name(d, row)
	v, kept := r.cache.find(name)
	if !kept {
		v = r.read(name)
	}
	return v.seq, v.value, v.found
}

// name is what the keys of a row's versions begin with. It is scratch.
func (r *rows) name(d dimension, row []byte) []byte {
	r.key = append(r.keys.key(r.key[:0], d), row...)
	return r.key
}

// read is the newest stored version of a row, which is kept; none after an error.
func (r *rows) read(name []byte) version {
	if r.err != nil {
		return version{}
	}
	if r.stored == nil {
		var err error
		if r.stored, err = r.engine.NewIter(nil); err != nil {
			r.fail("reading the index: %w", err)
			return version{}
		}
	}
	var v version
	if r.stored.SeekPrefixGE(append(name, make([]byte, versionBytes)...)) {
		value, err := r.stored.ValueAndErr()
		if err != nil {
			r.fail("reading the index: %w", err)
			return version{}
		}
		v = version{versionOf(r.stored.Key()), value, true}
	} else if err := r.stored.Error(); err != nil {
		r.fail("reading the index: %w", err)
		return version{}
	}
	return r.cache.keep(name, v)
}

// put writes the version of a row that event seq makes, in place of one that the
// same event has made.
func (r *rows) put(d dimension, row []byte, seq uint64, value []byte) {
	r.cache.keep(r.name(d, row), version{seq, value, true})
	r.write(d, row, seq, value)
}

// write is put for rows whose newest version the fold never asks for.
func (r *rows) write(d dimension, row []byte, seq uint64, value []byte) {
	r.key = appendVersion(r.name(d, row), seq)
	r.set(r.key, value)
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
