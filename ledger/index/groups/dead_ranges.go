package groups

import (
	"encoding/binary"
	"errors"
	"math"

	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// deadRange is a maximal range of consecutive runs of a group that are not live. Because of these
// ranges, the cost of finding the live neighbours of a run does not depend on the number of dead
// runs between them. Each range has one key in deadRuns.
type deadRange struct{ first, last uint64 }

// deadRangeKey returns the key of the dead range that begins with the given run.
func deadRangeKey(k rowstore.Keyspace, dst []byte, id rowstore.Identity, first uint64) []byte {
	return rowstore.AppendSeq(append(k.AppendPrefix(dst, deadRuns), id[:]...), first)
}

// groupRuns finds runs of a group in stored rows, so all events before the current one must have
// been stored. It must be closed. Only the follower's goroutine uses it.
type groupRuns struct {
	versions, ranges *rowstore.Iterator
	versionsOf       []byte // prefix of the keys of the group's versions
	rangesOf         []byte
	touched          *int // incremented for each key read
}

func (f *Deriver) groupRuns(id rowstore.Identity) (*groupRuns, error) {
	keys := f.Rows.Keyspace
	r := &groupRuns{
		versionsOf: append(keys.AppendPrefix(nil, records.PostingsDimension), id[:]...), rangesOf: append(keys.AppendPrefix(nil, deadRuns), id[:]...),
		touched: &f.KeysRead,
	}
	var err error
	r.versions, err = f.Rows.NewIterator(r.versionsOf, rowstore.UpperBound(r.versionsOf, rowstore.VersionSize))
	if err != nil {
		return nil, err
	}
	r.ranges, err = f.Rows.NewIterator(r.rangesOf, rowstore.UpperBound(r.rangesOf, rowstore.SeqSize))
	if err != nil {
		return nil, errors.Join(err, r.versions.Close())
	}
	return r, nil
}

func (r *groupRuns) close() error {
	return errors.Join(r.versions.Close(), r.ranges.Close())
}

// version returns the newest version of the group that was written by the event at seq or an
// earlier one, or zero if there is none.
func (r *groupRuns) version(seq uint64) (Version, error) {
	*r.touched++
	if !r.versions.SeekGE(rowstore.AppendVersion(r.versionsOf[:len(r.versionsOf):len(r.versionsOf)], seq)) {
		return Version{}, r.versions.Err()
	}
	newest, err := r.versions.NewestVersionUpTo(seq)
	if err != nil {
		return Version{}, err
	}
	return DecodeVersion(newest.Seq, newest.Value)
}

// before returns the last run before seq, in any state, or 0 if there is none.
func (r *groupRuns) before(seq uint64) (uint64, error) {
	g, err := r.version(seq - 1)
	return g.AllTally.LastSeq, err
}

// after returns the first run after seq, in any state, or 0 if there is none. Changes of state also
// write versions. To skip these quickly, after doubles its search step each time.
func (r *groupRuns) after(seq uint64) (uint64, error) {
	next, found, err := r.following(seq)
	if err != nil || !found {
		return 0, err
	}
	if IsRunVersion(next) {
		return next.Seq, nil
	}
	newest, err := r.version(math.MaxUint64)
	if err != nil || newest.AllTally.LastSeq <= seq {
		return 0, err
	}
	// The wanted run is in (low, high], and high is a run.
	low, high := next.Seq, newest.AllTally.LastSeq
	for step, found := uint64(1), false; low+1 < high; step *= 2 {
		middle := low + (high-low)/2
		if !found {
			middle = min(middle, low+step)
		}
		g, err := r.version(middle)
		if err != nil {
			return 0, err
		}
		if g.AllTally.LastSeq > seq {
			high, found = g.AllTally.LastSeq, true
		} else {
			low = middle
		}
	}
	return high, nil
}

func (r *groupRuns) following(seq uint64) (next rowstore.Version, found bool, err error) {
	key := rowstore.AppendVersion(r.versionsOf[:len(r.versionsOf):len(r.versionsOf)], seq)
	// A version run stores several versions under one key. The wanted version is in the version run
	// that contains seq, or it is the first version in the next one.
	for valid := r.versions.SeekGEOrLast(key); valid; valid = r.versions.Prev() {
		*r.touched++
		for one, err := range r.versions.Versions() {
			if err != nil || one.Seq > seq {
				return one, err == nil, err
			}
		}
	}
	return rowstore.Version{}, false, r.versions.Err()
}

// rangeAt returns the last dead range that begins at or before a run.
func (r *groupRuns) rangeAt(run uint64) (found deadRange, ok bool, err error) {
	*r.touched++
	if !r.ranges.SeekLT(rowstore.AppendSeq(r.rangesOf[:len(r.rangesOf):len(r.rangesOf)], run+1)) {
		return deadRange{}, false, r.ranges.Err()
	}
	value, err := r.ranges.Value()
	if err != nil {
		return deadRange{}, false, err
	}
	last, err := rowstore.DecodeSeq(value)
	if err != nil {
		return deadRange{}, false, errors.Join(rowstore.ErrDamaged, err)
	}
	return deadRange{binary.BigEndian.Uint64(r.ranges.Key()[len(r.rangesOf):]), last}, true, nil
}

// neighbours returns the runs just before and just after a dead range. Both are live, because dead
// ranges are maximal.
func (r *groupRuns) neighbours(around deadRange) (before, after neighbour, err error) {
	for _, side := range [...]struct {
		find func(uint64) (uint64, error)
		from uint64
		to   *neighbour
	}{{r.before, around.first, &before}, {r.after, around.last, &after}} {
		seq, err := side.find(side.from)
		if err != nil {
			return before, after, err
		}
		if seq == 0 {
			continue
		}
		g, err := r.version(seq)
		if err != nil {
			return before, after, err
		}
		*side.to = neighbour{seq, g.OutputSeq, true}
	}
	return before, after, nil
}

// extendDeadRange marks a run as dead. It merges the run with adjacent dead ranges and returns the
// merged range.
func (f *Deriver) extendDeadRange(runs *groupRuns, id rowstore.Identity, run uint64) (deadRange, error) {
	whole := deadRange{run, run}
	before, err := runs.before(run)
	if err != nil {
		return whole, err
	}
	after, err := runs.after(run)
	if err != nil {
		return whole, err
	}
	lower, found, err := runs.rangeAt(run)
	if err != nil {
		return whole, err
	}
	if found && lower.last == before {
		whole.first = lower.first
	}
	if after != 0 {
		upper, found, err := runs.rangeAt(after)
		if err != nil {
			return whole, err
		}
		if found && upper.first == after {
			whole.last = upper.last
			f.Rows.Delete(deadRangeKey(f.Rows.Keyspace, nil, id, after))
		}
	}
	f.putDeadRange(id, whole)
	return whole, nil
}

// splitDeadRange removes a run from its dead range, and returns the range as it was before.
func (f *Deriver) splitDeadRange(runs *groupRuns, id rowstore.Identity, run uint64) (deadRange, error) {
	whole, found, err := runs.rangeAt(run)
	if err != nil {
		return whole, err
	}
	if !found || whole.last < run {
		return whole, rowstore.ErrDamaged
	}
	if whole.first == run {
		f.Rows.Delete(deadRangeKey(f.Rows.Keyspace, nil, id, run))
	} else {
		before, err := runs.before(run)
		if err != nil {
			return whole, err
		}
		f.putDeadRange(id, deadRange{whole.first, before})
	}
	if run < whole.last {
		after, err := runs.after(run)
		if err != nil {
			return whole, err
		}
		f.putDeadRange(id, deadRange{after, whole.last})
	}
	return whole, nil
}

func (f *Deriver) putDeadRange(id rowstore.Identity, g deadRange) {
	f.Rows.Set(deadRangeKey(f.Rows.Keyspace, nil, id, g.first), rowstore.AppendSeq(nil, g.last))
}
