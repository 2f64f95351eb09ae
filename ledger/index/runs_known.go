package index

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	engine "github.com/cockroachdb/pebble/v2"
)

// knownGroups tells most groups that have no run yet from those that have, and most
// conditions, without reading: a filter that has all that were added, and about one in a
// hundred that were not. Most outputs and seeds are new, and looking for what is not there
// costs most.
//
// Its memory is bounded. What finds no room any more is looked for all the same: then it
// says of everything that it may be there.
type knownGroups struct {
	spare  *atomic.Int64 // bytes that may still be taken
	layers []knownLayer  // each for four times as many as the one before, if there is room
	blind  bool          // groups were left out
}

// knownLayer is a Bloom filter in blocks: all bits of a group are in one of them.
type knownLayer struct {
	blocks []knownBlock // a power of two
	room   int          // groups that may still be added
}

type knownBlock [8]uint64

const (
	knownFirst = 1 << 9 // blocks of the first layer
	knownEach  = 40     // groups to a block
	placeBits  = 9      // of the place of a bit in a block

	knownBlockBytes = 64
)

// add adds a group. Identities are as good as random, and serve as their own hash.
func (k *knownGroups) add(id identity) {
	last := len(k.layers) - 1
	if last < 0 || k.layers[last].room == 0 {
		blocks := k.take(knownFirst << (2 * len(k.layers)))
		if blocks == 0 {
			k.blind = true
			return
		}
		k.layers = append(k.layers, knownLayer{make([]knownBlock, blocks), blocks * knownEach})
		last++
	}
	k.layers[last].room--
	block := k.layers[last].block(id)
	for places := placesOf(id); places > 1; places >>= placeBits {
		block[places>>6&7] |= 1 << (places & 63)
	}
}

// take takes room for so many blocks, or half of them or less if there is no more; 0 if
// not even for the fewest.
func (k *knownGroups) take(blocks int) int {
	for ; blocks >= knownFirst; blocks /= 2 {
		bytes := int64(blocks) * knownBlockBytes
		if k.spare.Add(-bytes) >= 0 {
			return blocks
		}
		k.spare.Add(bytes)
	}
	return 0
}

// release gives back what was taken.
func (k *knownGroups) release() {
	for _, l := range k.layers {
		k.spare.Add(int64(len(l.blocks)) * knownBlockBytes)
	}
	k.layers = nil
}

// placesOf are the places of a group's seven bits, below a 1.
func placesOf(id identity) uint64 { return binary.BigEndian.Uint64(id[8:]) | 1<<63 }

func (l *knownLayer) block(id identity) *knownBlock {
	return &l.blocks[binary.BigEndian.Uint64(id[:])&uint64(len(l.blocks)-1)]
}

// has reports whether a group was added; it may say so of one that was not.
func (k *knownGroups) has(id identity) bool {
	if k.blind {
		return true
	}
	for i := len(k.layers) - 1; i >= 0; i-- {
		if k.layers[i].has(id) {
			return true
		}
	}
	return false
}

func (l *knownLayer) has(id identity) bool {
	block := l.block(id)
	for places := placesOf(id); places > 1; places >>= placeBits {
		if block[places>>6&7]&(1<<(places&63)) == 0 {
			return false
		}
	}
	return true
}

// known are the groups that have runs, and the conditions. They are read from the index
// when they are first wanted: before anything is folded.
func (f *fold) known() *knownGroups {
	if f.runs.known == nil {
		f.runs.known = &knownGroups{spare: f.runs.spare}
		if err := errors.Join(f.loadGroups(), f.loadConditions()); err != nil {
			f.rows.fail("%w", err)
		}
	}
	return f.runs.known
}

// loadGroups adds the groups that the lists of their families have.
func (f *fold) loadGroups() error {
	return f.each(families, func(it *engine.Iterator) error {
		encoded, err := it.ValueAndErr()
		if err != nil {
			return wrapRead(err)
		}
		s := openStretch(versionOf(it.Key()), encoded)
		for more := s.err == nil; more; more = s.next() {
			id, err := memberOf(s.value)
			if err != nil {
				return err
			}
			f.runs.known.add(id)
		}
		return s.err
	})
}

// loadConditions adds the conditions, each of which is a row.
func (f *fold) loadConditions() error {
	var last identity
	return f.each(conditions, func(it *engine.Iterator) error {
		key := it.Key()
		if id := identity(key[len(key)-versionBytes-len(last) : len(key)-versionBytes]); id != last {
			f.runs.known.add(id)
			last = id
		}
		return nil
	})
}

// each goes through the keys of a dimension that are stored.
func (f *fold) each(d dimension, do func(it *engine.Iterator) error) (err error) {
	it, err := f.rows.engine.NewIter(&engine.IterOptions{LowerBound: f.rows.keys.key(nil, d), UpperBound: f.rows.keys.key(nil, d+1)})
	if err != nil {
		return wrapRead(err)
	}
	defer func() { err = errors.Join(err, wrapRead(it.Close())) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := do(it); err != nil {
			return err
		}
	}
	return wrapRead(it.Error())
}
