package index

import (
	"errors"

	engine "github.com/cockroachdb/pebble/v2"
)

// outputLevels is how many outputs of a group have how many live runs, from two on.
// It belongs to the follower's goroutine.
type outputLevels map[uint64]uint64

// keptLevels bounds the groups whose levels are kept: those that runs were lately taken
// out of.
const keptLevels = 256

// moveOutput notes that an output of a group comes to have another number of live runs.
func (r *runsFold) moveOutput(id identity, from, to uint64) {
	kept, ok := r.levels[id]
	if !ok {
		return
	}
	if from > 1 {
		if kept[from]--; kept[from] == 0 {
			delete(kept, from)
		}
	}
	if to > 1 {
		kept[to]++
	}
}

// tied counts the outputs of a group beside one that have so many live runs, two or
// more, as that one had before the event. It goes through all outputs unless that was
// done lately.
func (f *fold) tied(id, beside identity, live uint64) (uint64, error) {
	if kept, ok := f.runs.levels[id]; ok {
		return kept[live], nil
	}
	found, err := f.readLevels(id, beside)
	if err != nil {
		return 0, err
	}
	n := found[live]
	if live > 2 {
		found[live-1]++ // that one, now
	}
	if f.runs.levels == nil || len(f.runs.levels) == keptLevels {
		f.runs.levels = make(map[identity]outputLevels)
	}
	f.runs.levels[id] = found
	return n, nil
}

// readLevels counts the stored outputs of a group beside one: all that have two live
// runs are in rows.
func (f *fold) readLevels(id, beside identity) (found outputLevels, err error) {
	prefix := append(f.rows.keys.key(nil, outputs), id[:]...)
	it, err := f.rows.engine.NewIter(&engine.IterOptions{LowerBound: prefix, UpperBound: behind(prefix, len(beside)+versionBytes)})
	if err != nil {
		return nil, wrapRead(err)
	}
	defer func() { err = errors.Join(err, wrapRead(it.Close())) }()
	found = make(outputLevels)
	for ok := it.First(); ok; {
		f.runs.touched++
		row := append([]byte(nil), it.Key()[:len(it.Key())-versionBytes]...)
		c, err := decodeOutputCount(it.Value())
		if err != nil {
			return nil, err
		}
		if c.live > 1 && identity(row[len(row)-len(beside):]) != beside {
			found[c.live]++
		}
		ok = it.SeekGE(behind(row, versionBytes))
	}
	return found, wrapRead(it.Error())
}
