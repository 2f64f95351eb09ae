package groups

import (
	"encoding/binary"
	"fmt"

	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// flags of a version of a group, beside isRecord and isRun.
const (
	// hasRuns: there are runs up to here, and what is known of them follows.
	hasRuns = 4 << iota
	// isLone: this version's run is the only one.
	isLone
	// hasDeadRuns: not all runs are live, and what is known of all follows too.
	hasDeadRuns
	// addsOutput: the run is the first of the group with its output.
	addsOutput
	// AddsCondition: the run is the first that shows what its ipc_id stands for,
	// or, in the group of the ipc_id, any that does.
	AddsCondition
	// isMarked: in the group of an output_hash, its output has rows in outputs; in other
	// groups, there are levels.
	isMarked
)

// Version is one version of a group: what is known of its runs up to and including
// one event (spec: Groups).
type Version struct {
	seq   uint64 // of the event
	flags byte   // isRecord, isRun, addsOutput, bringsCondition and isMarked
	// Output is that of the event's run, if it is one: the first run of the ledger that
	// had it.
	Output uint64
	// Live is about the runs that are live, all about those of any state.
	Live, All Tally
	// The newest events before this one that brought an output and a condition
	// into the group, 0 for none: two lists, each from its newest member on. The
	// list of conditions is kept in families that are a part of an ipc_id, and in
	// that of the ipc_id.
	outputBefore, ConditionBefore uint64
	Conditions                    uint64 // members of the list of conditions, this event included
	// Facts are what the last live run was made of; in groups of an input_hash.
	Facts []byte
}

// Parted reports whether some run is not live.
func (g *Version) HasDeadRuns() bool { return g.Live.Runs != g.All.Runs }

// lastOutput is the newest event that brought an output, 0 for none; lastCondition
// the same for conditions.
func (g *Version) lastOutput() uint64 {
	if g.flags&addsOutput != 0 {
		return g.seq
	}
	return g.outputBefore
}

func (g *Version) LastCondition() uint64 {
	if g.flags&AddsCondition != 0 {
		return g.seq
	}
	return g.ConditionBefore
}

// follow makes g the version that a later event makes, which so far adds nothing.
func (g *Version) follow(seq uint64, flags byte) {
	g.outputBefore, g.ConditionBefore = g.lastOutput(), g.LastCondition()
	g.seq, g.flags, g.Output = seq, flags|g.flags&isMarked, 0
}

// lone reports whether the run of the version is the only one, and live.
func (g *Version) lone() bool {
	return g.flags&records.IsRun != 0 && g.All.Runs == 1 && g.Live.Runs == 1 && g.All.first == g.seq
}

// append encodes a version. Seqs are distances from that of the version.
func (g *Version) append(dst []byte) []byte {
	flags := g.flags
	if g.All.Runs == 0 {
		return append(dst, flags)
	}
	flags |= hasRuns
	if g.lone() {
		dst = binary.AppendUvarint(append(dst, flags|isLone), g.seq-g.Output)
		return append(dst, g.Facts...)
	}
	if g.HasDeadRuns() {
		flags |= hasDeadRuns
	}
	dst = append(dst, flags)
	if flags&records.IsRun != 0 {
		dst = binary.AppendUvarint(dst, g.seq-g.Output)
	}
	dst = g.appendTally(dst, &g.Live)
	if g.HasDeadRuns() {
		dst = g.appendTally(dst, &g.All)
	}
	dst = binary.AppendUvarint(dst, distance(g.seq, g.outputBefore))
	dst = binary.AppendUvarint(dst, distance(g.seq, g.ConditionBefore))
	if g.Conditions == 0 {
		dst = append(dst, 0)
	} else {
		dst = binary.AppendUvarint(dst, 1+g.All.Runs-g.Conditions)
	}
	return append(dst, g.Facts...)
}

// distance is how far an earlier event is from another; 0 stands for none.
func distance(seq, before uint64) uint64 {
	if before == 0 {
		return 0
	}
	return seq - before
}

func (g *Version) appendTally(dst []byte, t *Tally) []byte {
	dst = binary.AppendUvarint(dst, t.Runs)
	if t.Runs == 0 {
		return dst
	}
	// Groups of many runs mostly have about as many outputs.
	for _, n := range [...]uint64{t.Runs - t.outputs, t.commonest, t.outputs - t.tied, t.Runs - t.flips, t.spread, g.seq - t.first, g.seq - t.Last} {
		dst = binary.AppendUvarint(dst, n)
	}
	if g.flags&records.IsRun != 0 && t.Last == g.seq {
		return dst
	}
	return binary.AppendUvarint(dst, g.seq-t.Output)
}

// Decode decodes the version that event seq made. Its facts refer to value.
func Decode(seq uint64, value []byte) (Version, error) {
	g := Version{seq: seq}
	d := groupDecoder{rest: value, seq: seq}
	flags := d.byte()
	g.flags = flags &^ (hasRuns | isLone | hasDeadRuns)
	if flags&hasRuns == 0 {
		return g, d.err()
	}
	if flags&records.IsRun != 0 {
		g.Output = seq - d.uvarint()
	}
	if flags&isLone != 0 {
		g.Live.add(seq, g.Output, 0)
		g.All = g.Live
		if flags&AddsCondition != 0 {
			g.Conditions = 1
		}
		g.Facts = d.rest
		return g, d.err()
	}
	d.tally(&g.Live, &g)
	if g.All = g.Live; flags&hasDeadRuns != 0 {
		d.tally(&g.All, &g)
	}
	g.outputBefore, g.ConditionBefore = d.before(), d.before()
	if missing := d.uvarint(); missing > 0 {
		g.Conditions = 1 + g.All.Runs - missing
	}
	g.Facts = d.rest
	d.bad = d.bad || g.All.Runs < max(1, g.Live.Runs, g.Conditions) || !g.Live.possible() || !g.All.possible()
	return g, d.err()
}

// groupDecoder reads a value from its beginning; what is missing is 0.
type groupDecoder struct {
	rest []byte
	seq  uint64 // of the version
	bad  bool   // something is missing, or cannot be
}

func (d *groupDecoder) err() error {
	if d.bad {
		return fmt.Errorf("%w: a group at event %d", rowstore.ErrDamaged, d.seq)
	}
	return nil
}

func (d *groupDecoder) byte() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *groupDecoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.rest, d.bad = nil, true
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// before is an earlier event, 0 for none.
func (d *groupDecoder) before() uint64 {
	if n := d.uvarint(); n > 0 {
		return d.seq - n
	}
	return 0
}

func (d *groupDecoder) tally(t *Tally, g *Version) {
	if t.Runs = d.uvarint(); t.Runs == 0 {
		return
	}
	for _, n := range [...]*uint64{&t.outputs, &t.commonest, &t.tied, &t.flips, &t.spread, &t.first, &t.Last} {
		*n = d.uvarint()
	}
	t.outputs = t.Runs - t.outputs
	t.tied = t.outputs - t.tied
	t.flips = t.Runs - t.flips
	t.first, t.Last = g.seq-t.first, g.seq-t.Last
	if t.Output = g.Output; g.flags&records.IsRun == 0 || t.Last != g.seq {
		t.Output = g.seq - d.uvarint()
	}
}

// IsRunVersion reports whether a version of a group was made by a run.
func IsRunVersion(r rowstore.Version) bool { return HasFlag(r, records.IsRun) }

// Brings reports whether a version of a group has a flag.
func HasFlag(r rowstore.Version, flag byte) bool {
	return len(r.Value) > 0 && r.Value[0]&flag != 0
}
