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
	batch  *engine.Batch
	// stored reads what was committed before the batch; made when it is first
	// needed.
	stored *engine.Iterator
	// The newest versions, by row: those used since the last turn, and those used
	// between the two turns before. What the batch has written is in one of them.
	young, old map[string]*version
	key        []byte // scratch
	err        error
}

// version is one version of a row.
type version struct {
	seq   uint64
	value []byte
	found bool // false: the row has no version at all
}

// begin starts a batch. cached bounds the rows that are kept in memory.
func (r *rows) begin(cached int) {
	r.batch = r.engine.NewBatch()
	if len(r.young) >= cached/2 || r.young == nil {
		r.young, r.old = make(map[string]*version), r.young
	}
}

// takeOff is the batch, the caller's from now on. What it holds must be stored
// before the batch that begins after the next one.
func (r *rows) takeOff() *engine.Batch {
	batch := r.batch
	r.batch = nil
	return batch
}

// end closes the batch if it was not taken, and says whether all went well.
func (r *rows) end() error {
	err := r.err
	if r.batch != nil {
		err = errors.Join(err, r.batch.Close())
	}
	if r.stored != nil {
		err = errors.Join(err, r.stored.Close())
		r.stored = nil
	}
	r.batch, r.err = nil, nil
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
	v := r.lookup(d, row)
	return v.seq, v.value, v.found
}

func (r *rows) lookup(d dimension, row []byte) *version {
	r.key = append(r.keys.key(r.key[:0], d), row...)
	name := r.key
	if v, ok := r.young[string(name)]; ok {
		return v
	}
	v, ok := r.old[string(name)]
	if !ok {
		if v = r.read(name); v == nil {
			return new(version)
		}
	}
	r.young[string(name)] = v
	return v
}

// read is the newest stored version of a row; nil after an error.
func (r *rows) read(name []byte) *version {
	if r.err != nil {
		return nil
	}
	if r.stored == nil {
		var err error
		if r.stored, err = r.engine.NewIter(nil); err != nil {
			r.fail("reading the index: %w", err)
			return nil
		}
	}
	v := new(version)
	if r.stored.SeekPrefixGE(append(name, make([]byte, versionBytes)...)) {
		value, err := r.stored.ValueAndErr()
		if err != nil {
			r.fail("reading the index: %w", err)
			return nil
		}
		v.seq, v.value, v.found = versionOf(r.stored.Key()), append(v.value, value...), true
	} else if err := r.stored.Error(); err != nil {
		r.fail("reading the index: %w", err)
		return nil
	}
	return v
}

// put writes the version of a row that event seq makes, in place of one that the
// same event has made.
func (r *rows) put(d dimension, row []byte, seq uint64, value []byte) {
	v := r.lookup(d, row)
	v.seq, v.value, v.found = seq, append(v.value[:0], value...), true
	r.write(d, row, seq, value)
}

// write is put for rows whose newest version the fold never asks for.
func (r *rows) write(d dimension, row []byte, seq uint64, value []byte) {
	r.key = appendVersion(append(r.keys.key(r.key[:0], d), row...), seq)
	r.set(r.key, value)
}

// set writes a key that has no version.
func (r *rows) set(key, value []byte) {
	if r.err == nil {
		if err := r.batch.Set(key, value, nil); err != nil {
			r.fail("writing the index: %w", err)
		}
	}
}

// delete removes a key that has no version.
func (r *rows) delete(key []byte) {
	if r.err == nil {
		if err := r.batch.Delete(key, nil); err != nil {
			r.fail("writing the index: %w", err)
		}
	}
}

// create is put for a row that has no version yet, which spares looking for one.
func (r *rows) create(d dimension, row []byte, seq uint64, value []byte) {
	r.key = append(r.keys.key(r.key[:0], d), row...)
	r.young[string(r.key)] = &version{seq, value, true}
	r.write(d, row, seq, value)
}
