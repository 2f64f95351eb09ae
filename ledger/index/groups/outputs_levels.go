package groups

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"colophon/ledger/index/rowstore"
)

// When a run with its group's most common output stops being live, the fold needs to know how many
// other outputs are just as common. The first time this happens in a group, the fold writes levels
// for the group. Level n, for n > 1, is the number of the group's outputs that have exactly n live
// runs.

// levelRow is the key of the row for one level of a group.
type levelRow [len(rowstore.Identity{}) + rowstore.SeqSize]byte

func levelRowOf(group rowstore.Identity, live uint64) (row levelRow) {
	binary.BigEndian.PutUint64(row[copy(row[:], group[:]):], live)
	return row
}

// level returns how many of a group's outputs have the given number of live runs, according to the
// group's levels.
func (f *Deriver) level(id rowstore.Identity, live uint64) uint64 {
	row := levelRowOf(id, live)
	_, value, found := f.Rows.NewestVersion(outputLevels, row[:])
	if !found {
		return 0
	}
	return rowstore.DecodeOrFail(&f.Rows, value, rowstore.DecodeNumber)
}

func (f *Deriver) putLevel(seq uint64, id rowstore.Identity, live, outputs uint64) {
	row := levelRowOf(id, live)
	f.value = rowstore.AppendNumbers(f.value[:0], outputs)
	f.Rows.Put(outputLevels, row[:], seq, f.value)
}

// moveOutput updates a group's levels, if it has any, after the number of live runs with one of the
// group's outputs changes.
func (f *Deriver) moveOutput(g *Version, id rowstore.Identity, from, to uint64) {
	if g.flags&hasLevelsOrRows == 0 {
		return
	}
	if from > 1 {
		f.putLevel(g.seq, id, from, f.level(id, from)-1)
	}
	if to > 1 {
		f.putLevel(g.seq, id, to, f.level(id, to)+1)
	}
}

// tied returns how many of a group's outputs have the given number of live runs, which must be at
// least two. It does not count the output given by except, which had that number before the event.
// If the group has no levels yet, tied counts all outputs and writes the levels.
func (f *Deriver) tied(ctx context.Context, g *Version, id rowstore.Identity, except, live uint64) (uint64, error) {
	if g.flags&hasLevelsOrRows == 0 {
		levels, err := f.countLevels(ctx, id, except)
		if err != nil {
			return 0, err
		}
		if live > 2 {
			levels[live-1]++ // the output given by except has lost one live run
		}
		for n, outputs := range levels {
			f.putLevel(g.seq, id, n, outputs)
		}
		g.flags |= hasLevelsOrRows
	}
	return f.level(id, live), f.Rows.Err
}

// countLevels maps each n > 1 to the number of the group's outputs that have exactly n live runs,
// not counting the output given by except. The map is complete, because every output with at least
// two runs has a row.
func (f *Deriver) countLevels(ctx context.Context, id rowstore.Identity, except uint64) (levels map[uint64]uint64, err error) {
	prefix := append(f.Rows.Keyspace.AppendPrefix(nil, outputs), id[:]...)
	it, err := f.Rows.NewIterator(prefix, rowstore.UpperBound(prefix, rowstore.SeqSize+rowstore.VersionSize))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	levels = make(map[uint64]uint64)
	for ok := it.First(); ok; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f.KeysRead++
		row := append([]byte(nil), it.Key()[:len(it.Key())-rowstore.VersionSize]...)
		newest, err := it.NewestVersionUpTo(math.MaxUint64)
		if err != nil {
			return nil, err
		}
		c, err := decodeOutputCount(newest.Value)
		if err != nil {
			return nil, err
		}
		if c.live > 1 && binary.BigEndian.Uint64(row[len(row)-rowstore.SeqSize:]) != except {
			levels[c.live]++
		}
		ok = it.SeekGE(rowstore.UpperBound(row, rowstore.VersionSize))
	}
	return levels, it.Err()
}
