package index

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	engine "github.com/cockroachdb/pebble/v2"
)

// A group that a run with its commonest output has left may have to know how many other
// outputs are as common. From the first time on it has levels: how many of its outputs
// have how many live runs, from two on.

// levelRow is the row of one number of live runs in a group.
type levelRow [len(identity{}) + seqBytes]byte

func levelRowOf(group identity, live uint64) (row levelRow) {
	binary.BigEndian.PutUint64(row[copy(row[:], group[:]):], live)
	return row
}

// level is how many outputs of a group that has levels have so many live runs.
func (f *fold) level(id identity, live uint64) uint64 {
	row := levelRowOf(id, live)
	_, value, found := f.rows.newest(outputLevels, row[:])
	if !found {
		return 0
	}
	return decodeRow(f, value, decodeNumber)
}

func (f *fold) putLevel(seq uint64, id identity, live, outputs uint64) {
	row := levelRowOf(id, live)
	f.value = appendNumbers(f.value[:0], outputs)
	f.rows.put(outputLevels, row[:], seq, f.value)
}

// moveOutput notes that an output of a group comes to have another number of live runs.
func (f *fold) moveOutput(g *group, id identity, from, to uint64) {
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
func (f *fold) tied(ctx context.Context, g *group, id identity, beside, live uint64) (uint64, error) {
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
	return f.level(id, live), f.rows.err
}

// countLevels counts the stored outputs of a group beside one by their live runs: all
// that have two are in rows.
func (f *fold) countLevels(ctx context.Context, id identity, beside uint64) (levels map[uint64]uint64, err error) {
	prefix := append(f.rows.keys.key(nil, outputs), id[:]...)
	it, err := f.rows.engine.NewIter(&engine.IterOptions{LowerBound: prefix, UpperBound: behind(prefix, seqBytes+versionBytes)})
	if err != nil {
		return nil, wrapRead(err)
	}
	defer func() { err = errors.Join(err, wrapRead(it.Close())) }()
	levels = make(map[uint64]uint64)
	for ok := it.First(); ok; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f.touched++
		row := append([]byte(nil), it.Key()[:len(it.Key())-versionBytes]...)
		newest, err := newestAt(it, math.MaxUint64)
		if err != nil {
			return nil, err
		}
		c, err := decodeOutputCount(newest.value)
		if err != nil {
			return nil, err
		}
		if c.live > 1 && binary.BigEndian.Uint64(row[len(row)-seqBytes:]) != beside {
			levels[c.live]++
		}
		ok = it.SeekGE(behind(row, versionBytes))
	}
	return levels, wrapRead(it.Error())
}
