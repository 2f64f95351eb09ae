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

// Batch gathers what a batch writes. The engine sorts a batch key by key, by its
// comparer; here most keys are told apart by a number.
type Batch struct {
	list  []write
	spare []write // scratch of sort
	bytes []byte  // keys and values

	engine *engine.DB // that takes them
}

// write is one of them.
type write struct {
	// order is what orderOf has of the key, behind the beginning of its keyspace or, while
	// it is sorted, further behind.
	order      uint64
	at         uint32 // where the key stands; the value stands behind it
	key, value uint32 // lengths
	kind       writeKind
}

type writeKind uint8

const (
	setKey          writeKind = iota
	deleteKey                 // whatever was set
	singleDeleteKey           // the one time that it was set since it was last removed
)

// writeBytes is what a write takes beside its key and value, scratch included.
const writeBytes = 2 * int(unsafe.Sizeof(write{}))

// size is about how many bytes there are.
func (w *Batch) size() int { return len(w.bytes) + len(w.list)*writeBytes }

// add adds one; of several to one key the last counts.
func (w *Batch) add(kind writeKind, key, value []byte) {
	w.list = append(withRoom(w.list, 1), write{
		order: orderOf(key, len(Keyspace{})), at: uint32(len(w.bytes)), key: uint32(len(key)), value: uint32(len(value)), kind: kind,
	})
	w.bytes = append(append(withRoom(w.bytes, len(key)+len(value)), key...), value...)
}

const orderBytes = 8

// orderOf is the next bytes of a key behind a place, with zeros behind its end.
func orderOf(key []byte, place int) uint64 {
	var order [orderBytes]byte
	copy(order[:], key[min(place, len(key)):])
	return binary.BigEndian.Uint64(order[:])
}

// withRoom is a slice with room for so many more. One that is full is doubled, where append
// would copy large ones for every quarter that they grow.
func withRoom[T any](s []T, more int) []T {
	if cap(s)-len(s) >= more {
		return s
	}
	return append(make([]T, 0, max(2*cap(s), len(s)+more)), s...)
}

// reset empties it. Memory that is far beyond the usual is not kept.
func (w *Batch) reset(typical int) {
	if cap(w.bytes)+cap(w.list)*writeBytes > 3*typical {
		*w = Batch{engine: w.engine}
	}
	w.list, w.bytes = w.list[:0], w.bytes[:0]
}

func (w *Batch) keyOf(one *write) []byte { return w.bytes[one.at : one.at+one.key] }

// fewWrites are so few that they are compared one by one, and no key is so long as
// longKey but where few share so much of it.
const (
	fewWrites = 64
	longKey   = 64
)

// sort sorts by key, those to one key in the order in which they were added.
func (w *Batch) sort() {
	w.spare = slices.Grow(w.spare[:0], len(w.list))[:len(w.list)]
	w.sortFrom(len(Keyspace{}), w.list, w.spare)
}

// sortFrom sorts writes whose keys are the same up to a place, behind which their order
// is taken.
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

// sortEqual sorts writes whose order is the same, and their keys with it, up to a place
// or to where they end.
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

// sortByOrder sorts by the order alone, byte by byte from the last on; what has the same
// order stays as it was.
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
			continue // one byte for all
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
	copy(list, from) // nothing to do where it is there
}

// Commit sorts the writes and has the engine take them.
func (w *Batch) Commit() error {
	w.sort()
	const overhead = 16 // of the engine's, for each and for all
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
