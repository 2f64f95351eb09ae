package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"unsafe"

	engine "github.com/cockroachdb/pebble/v2"
)

// writes gathers what a batch writes. The engine sorts a batch key by key, by its
// comparer; here most keys are told apart by a number.
type writes struct {
	list  []write
	spare []write // scratch of sort
	bytes []byte  // keys and values
}

// write is one of them.
type write struct {
	// order is the key behind the beginning of its keyspace, as far as it goes, with
	// zeros behind it.
	order      uint64
	at         uint32 // where the key stands; the value stands behind it
	key, value uint32 // lengths
	kind       writeKind
}

type writeKind uint8

const (
	setKey    writeKind = iota
	deleteKey           // whatever was set
	undoKey             // the one time that it was set since it was last removed
)

// writeBytes is what a write takes beside its key and value, scratch included.
const writeBytes = 2 * int(unsafe.Sizeof(write{}))

// size is about how many bytes there are.
func (w *writes) size() int { return len(w.bytes) + len(w.list)*writeBytes }

// add adds one; of several to one key the last counts.
func (w *writes) add(kind writeKind, key, value []byte) {
	var order [8]byte
	copy(order[:], key[len(keyspace{}):])
	w.list = append(w.list, write{
		order: binary.BigEndian.Uint64(order[:]), at: uint32(len(w.bytes)), key: uint32(len(key)), value: uint32(len(value)), kind: kind,
	})
	w.bytes = append(append(w.bytes, key...), value...)
}

// reset empties it. Memory that is far beyond the usual is not kept.
func (w *writes) reset(usual int) {
	if cap(w.bytes)+cap(w.list)*writeBytes > 3*usual {
		*w = writes{}
	}
	w.list, w.bytes = w.list[:0], w.bytes[:0]
}

func (w *writes) keyOf(one *write) []byte { return w.bytes[one.at : one.at+one.key] }

// sort sorts by key, those to one key in the order in which they were added.
func (w *writes) sort() {
	w.sortByOrder()
	for from := 0; from < len(w.list); {
		to := from + 1
		for to < len(w.list) && w.list[to].order == w.list[from].order {
			to++
		}
		if to-from > 1 {
			slices.SortFunc(w.list[from:to], func(a, b write) int {
				return cmp.Or(bytes.Compare(w.keyOf(&a), w.keyOf(&b)), cmp.Compare(a.at, b.at))
			})
		}
		from = to
	}
}

// sortByOrder sorts by the order alone, byte by byte from the last on.
func (w *writes) sortByOrder() {
	var counts [8][256]uint32
	for i := range w.list {
		for digit := range counts {
			counts[digit][byte(w.list[i].order>>(8*digit))]++
		}
	}
	for digit := range counts {
		if slices.Contains(counts[digit][:], uint32(len(w.list))) {
			continue // one byte for all
		}
		places, next := &counts[digit], uint32(0)
		for b, count := range places {
			places[b], next = next, next+count
		}
		w.spare = slices.Grow(w.spare[:0], len(w.list))[:len(w.list)]
		for i := range w.list {
			place := &places[byte(w.list[i].order>>(8*digit))]
			w.spare[*place] = w.list[i]
			*place++
		}
		w.list, w.spare = w.spare, w.list
	}
}

// commit sorts the writes and has the engine take them.
func (w *writes) commit(db *engine.DB) error {
	w.sort()
	const overhead = 16 // of the engine's, for each and for all
	batch := db.NewBatchWithSize(len(w.bytes) + overhead*(len(w.list)+1))
	for i := range w.list {
		one := &w.list[i]
		key := w.keyOf(one)
		if i+1 < len(w.list) && bytes.Equal(key, w.keyOf(&w.list[i+1])) {
			continue
		}
		var err error
		switch one.kind {
		case setKey:
			err = batch.Set(key, w.bytes[one.at+one.key:one.at+one.key+one.value], nil)
		case deleteKey:
			err = batch.Delete(key, nil)
		case undoKey:
			err = batch.SingleDelete(key, nil)
		}
		if err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return errors.Join(batch.Commit(engine.NoSync), batch.Close())
}
