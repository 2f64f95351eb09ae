package groups

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"colophon/ledger/index/rowstore"
)

// A group that a run with its commonest output has left may have to know how many other
// outputs are as common. From the first time on it has levels: how many of its outputs
// have how many live runs, from two on.

// levelRow is the row of one number of live runs in a group.
type levelRow [len(rowstore.Identity{}) + rowstore.SeqBytes]byte

func levelRowOf(group rowstore.Identity, live uint64) (row levelRow) {
	binary.BigEndian.PutUint64(row[copy(row[:], group[:]):], live)
	return row
}

// level is how many outputs of a group that has levels have so many live runs.
func (f *Deriver) level(id rowstore.Identity, live uint64) uint64 {
	row := levelRowOf(id, live)
	_, value, found := f.Rows.Newest(outputLevels, row[:])
	if !found {
		return 0
	}
	return rowstore.Decode(&f.Rows, value, rowstore.DecodeNumber)
}

func (f *Deriver) putLevel(seq uint64, id rowstore.Identity, live, outputs uint64) {
	row := levelRowOf(id, live)
	f.value = rowstore.AppendNumbers(f.value[:0], outputs)
	f.Rows.Put(outputLevels, row[:], seq, f.value)
}

// moveOutput notes that an output of a group comes to have another number of live runs.
func (f *Deriver) moveOutput(g *Version, id rowstore.Identity, from, to uint64) {
	if g.flags&isMarked == 0 {
		return
	}
	if from > 1 {
		f.putLevel(g.seq, id, from, f.level(id, from)-1)
	}
	if to > 1 {
		f.putLevel(g.seq, id, to, f.level(id, to)+1)
	}
}

// tied counts the outputs of a group beside one that have so many live runs, two or
// more, as that one had before the event. It gives the group levels if it has none, for
// which it goes through all outputs: this once.
func (f *Deriver) tied(ctx context.Context, g *Version, id rowstore.Identity, beside, live uint64) (uint64, error) {
	if g.flags&isMarked == 0 {
		levels, err := f.countLevels(ctx, id, beside)
		if err != nil {
			return 0, err
		}
		if live > 2 {
			levels[live-1]++ // that one, now
		}
		for n, outputs := range levels {
			f.putLevel(g.seq, id, n, outputs)
		}
		g.flags |= isMarked
	}
	return f.level(id, live), f.Rows.Err
}

// countLevels counts the stored outputs of a group beside one by their live runs: all
// that have two are in rows.
func (f *Deriver) countLevels(ctx context.Context, id rowstore.Identity, beside uint64) (levels map[uint64]uint64, err error) {
	prefix := append(f.Rows.Keys.Key(nil, outputs), id[:]...)
	it, err := f.Rows.Iterate(prefix, rowstore.UpperBound(prefix, rowstore.SeqBytes+rowstore.VersionBytes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	levels = make(map[uint64]uint64)
	for ok := it.First(); ok; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f.Touched++
		row := append([]byte(nil), it.Key()[:len(it.Key())-rowstore.VersionBytes]...)
		newest, err := it.NewestUpTo(math.MaxUint64)
		if err != nil {
			return nil, err
		}
		c, err := decodeOutputCount(newest.Value)
		if err != nil {
			return nil, err
		}
		if c.live > 1 && binary.BigEndian.Uint64(row[len(row)-rowstore.SeqBytes:]) != beside {
			levels[c.live]++
		}
		ok = it.SeekGE(rowstore.UpperBound(row, rowstore.VersionBytes))
	}
	return levels, it.Error()
}
