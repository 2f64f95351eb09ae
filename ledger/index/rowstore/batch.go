package rowstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"unsafe"

	engine "github.com/cockroachdb/pebble/v2"
)

// Batch collects writes and sorts them by key before it passes them to the engine. The engine would
// compare whole keys; Batch orders most keys by one comparison of integers.
type Batch struct {
	list  []write
	spare []write // scratch for sort
	bytes []byte  // keys and values

	engine *engine.DB // the engine to which Commit writes
}

type write struct {
	// order holds eight bytes of the key as a number. Initially, these are the bytes after the
	// keyspace. While sort compares keys with a common prefix, they are the bytes after that
	// prefix.
	order      uint64
	at         uint32 // offset of the key; the value follows it
	key, value uint32 // lengths in bytes
	kind       writeKind
}

type writeKind uint8

const (
	setKey          writeKind = iota
	deleteKey                 // removes a key that was set any number of times
	singleDeleteKey           // removes a key that was set exactly once since it was last removed
)

// writeBytes is the number of bytes of memory that a write needs in addition to its key and value,
// including scratch memory.
const writeBytes = 2 * int(unsafe.Sizeof(write{}))

// size returns the approximate memory that the writes need, in bytes.
func (w *Batch) size() int { return len(w.bytes) + len(w.list)*writeBytes }

// add adds a write. Of several writes to one key, the last one takes effect.
func (w *Batch) add(kind writeKind, key, value []byte) {
	w.list = append(withRoom(w.list, 1), write{
		order: orderOf(key, len(Keyspace{})), at: uint32(len(w.bytes)), key: uint32(len(key)), value: uint32(len(value)), kind: kind,
	})
	w.bytes = append(append(withRoom(w.bytes, len(key)+len(value)), key...), value...)
}

const orderBytes = 8

// orderOf returns, as a number, the eight bytes of a key that begin at offset place. It pads a
// shorter key with zeros.
func orderOf(key []byte, place int) uint64 {
	var order [orderBytes]byte
	copy(order[:], key[min(place, len(key)):])
	return binary.BigEndian.Uint64(order[:])
}

// withRoom returns s with room for the given number of additional elements. It doubles a full
// slice, because append would grow a large slice by only a quarter and copy it more often.
func withRoom[T any](s []T, more int) []T {
	if cap(s)-len(s) >= more {
		return s
	}
	return append(make([]T, 0, max(2*cap(s), len(s)+more)), s...)
}

// reset empties the batch. It also frees the batch's memory if that is more than 3*typical bytes.
func (w *Batch) reset(typical int) {
	if cap(w.bytes)+cap(w.list)*writeBytes > 3*typical {
		*w = Batch{engine: w.engine}
	}
	w.list, w.bytes = w.list[:0], w.bytes[:0]
}

func (w *Batch) keyOf(one *write) []byte { return w.bytes[one.at : one.at+one.key] }

// sort compares the keys of up to fewWrites writes directly. It also compares keys directly
// beyond longKey bytes, because few keys are still equal there.
const (
	fewWrites = 64
	longKey   = 64
)

// sort sorts the writes by key. Writes to the same key stay in insertion order.
func (w *Batch) sort() {
	w.spare = slices.Grow(w.spare[:0], len(w.list))[:len(w.list)]
	w.sortFrom(len(Keyspace{}), w.list, w.spare)
}

// sortFrom sorts writes whose keys are equal before offset place. The order field of each write
// must contain the eight bytes that begin at that offset.
func (w *Batch) sortFrom(place int, list, spare []write) {
	sortByOrder(list, spare)
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].order == list[from].order {
			to++
		}
		if to-from > 1 {
			w.sortEqual(place+orderBytes, list[from:to], spare[from:to])
		}
		from = to
	}
}

// sortEqual sorts writes whose order fields are equal. Their keys are therefore equal before offset
// place, apart from zero padding.
func (w *Batch) sortEqual(place int, list, spare []write) {
	if len(list) <= fewWrites || place >= longKey {
		slices.SortFunc(list, func(a, b write) int {
			return cmp.Or(bytes.Compare(w.keyOf(&a), w.keyOf(&b)), cmp.Compare(a.at, b.at))
		})
		return
	}
	for i := range list {
		list[i].order = orderOf(w.keyOf(&list[i]), place)
	}
	w.sortFrom(place, list, spare)
}

// sortByOrder sorts writes by order alone. It is a stable radix sort, from the last byte to the
// first.
func sortByOrder(list, spare []write) {
	var counts [orderBytes][256]uint32
	for i := range list {
		for digit := range counts {
			counts[digit][byte(list[i].order>>(8*digit))]++
		}
	}
	from, to := list, spare
	for digit := range counts {
		if slices.Contains(counts[digit][:], uint32(len(list))) {
			continue // all writes have the same byte here
		}
		places, next := &counts[digit], uint32(0)
		for b, count := range places {
			places[b], next = next, next+count
		}
		for i := range from {
			place := &places[byte(from[i].order>>(8*digit))]
			to[*place] = from[i]
			*place++
		}
		from, to = to, from
	}
	copy(list, from) // does nothing if the result is already in list
}

// Commit sorts the writes and applies them to the engine, without syncing.
func (w *Batch) Commit() error {
	w.sort()
	const overhead = 16 // bytes that the engine adds for each write and for each batch
	batch := w.engine.NewBatchWithSize(len(w.bytes) + overhead*(len(w.list)+1))
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
		case singleDeleteKey:
			err = batch.SingleDelete(key, nil)
		}
		if err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return errors.Join(batch.Commit(engine.NoSync), batch.Close())
}
