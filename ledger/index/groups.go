package index

import (
	"encoding/binary"
	"fmt"

	"colophon/ledger/index/rowstore"
)

// The names that runs are grouped by (4.1), beside labelPrefix and the name of a
// label, and the families that they make.
const (
	ipcIDName        = "ipc_id"
	inputName        = "input_hash"
	systemPromptName = "system_prompt_hash"
	outputName       = "output_hash"
	modelName        = "model"
)

var (
	ipcFamily    = rowstore.Identify([]byte(ipcIDName))
	inputFamily  = rowstore.Identify([]byte(inputName))
	promptFamily = rowstore.Identify([]byte(systemPromptName))
	outputFamily = rowstore.Identify([]byte(outputName))
	modelFamily  = rowstore.Identify([]byte(modelName))
)

// familyOf is the identity of a name that runs are grouped by, zero of any other.
func familyOf(name string) rowstore.Identity {
	switch name {
	case ipcIDName:
		return ipcFamily
	case inputName:
		return inputFamily
	case systemPromptName:
		return promptFamily
	case outputName:
		return outputFamily
	case modelName:
		return modelFamily
	}
	if grouping(name) {
		return rowstore.Identify([]byte(name))
	}
	return rowstore.Identity{}
}

// flags of a version of a group, beside isRecord and isRun.
const (
	// hasRuns: there are runs up to here, and what is known of them follows.
	hasRuns = 4 << iota
	// isLone: this version's run is the only one.
	isLone
	// isParted: not all runs are live, and what is known of all follows too.
	isParted
	// bringsOutput: the run is the first of the group with its output.
	bringsOutput
	// bringsCondition: the run is the first that shows what its ipc_id stands for,
	// or, in the group of the ipc_id, any that does.
	bringsCondition
	// isMarked: in the group of an output_hash, its output has rows in outputs; in other
	// groups, there are levels.
	isMarked
)

// group is one version of a group: what is known of its runs up to and including
// one event (4.1).
type group struct {
	seq   uint64 // of the event
	flags byte   // isRecord, isRun, bringsOutput, bringsCondition and isMarked
	// output is that of the event's run, if it is one: the first run of the ledger that
	// had it.
	output uint64
	// live is about the runs that are live, all about those of any state.
	live, all tally
	// The newest events before this one that brought an output and a condition
	// into the group, 0 for none: two lists, each from its newest member on. The
	// list of conditions is kept in families that are a part of an ipc_id, and in
	// that of the ipc_id.
	outputBefore, conditionBefore uint64
	conditions                    uint64 // members of the list of conditions, this event included
	// facts are what the last live run was made of; in groups of an input_hash.
	facts []byte
}

// parted reports whether some run is not live.
func (g *group) parted() bool { return g.live.runs != g.all.runs }

// lastOutput is the newest event that brought an output, 0 for none; lastCondition
// the same for conditions.
func (g *group) lastOutput() uint64 {
	if g.flags&bringsOutput != 0 {
		return g.seq
	}
	return g.outputBefore
}

func (g *group) lastCondition() uint64 {
	if g.flags&bringsCondition != 0 {
		return g.seq
	}
	return g.conditionBefore
}

// follow makes g the version that a later event makes, which so far adds nothing.
func (g *group) follow(seq uint64, flags byte) {
	g.outputBefore, g.conditionBefore = g.lastOutput(), g.lastCondition()
	g.seq, g.flags, g.output = seq, flags|g.flags&isMarked, 0
}

// lone reports whether the run of the version is the only one, and live.
func (g *group) lone() bool {
	return g.flags&isRun != 0 && g.all.runs == 1 && g.live.runs == 1 && g.all.first == g.seq
}

// append encodes a version. Seqs are distances from that of the version.
func (g *group) append(dst []byte) []byte {
	flags := g.flags
	if g.all.runs == 0 {
		return append(dst, flags)
	}
	flags |= hasRuns
	if g.lone() {
		dst = binary.AppendUvarint(append(dst, flags|isLone), g.seq-g.output)
		return append(dst, g.facts...)
	}
	if g.parted() {
		flags |= isParted
	}
	dst = append(dst, flags)
	if flags&isRun != 0 {
		dst = binary.AppendUvarint(dst, g.seq-g.output)
	}
	dst = g.appendTally(dst, &g.live)
	if g.parted() {
		dst = g.appendTally(dst, &g.all)
	}
	dst = binary.AppendUvarint(dst, distance(g.seq, g.outputBefore))
	dst = binary.AppendUvarint(dst, distance(g.seq, g.conditionBefore))
	if g.conditions == 0 {
		dst = append(dst, 0)
	} else {
		dst = binary.AppendUvarint(dst, 1+g.all.runs-g.conditions)
	}
	return append(dst, g.facts...)
}

// distance is how far an earlier event is from another; 0 stands for none.
func distance(seq, before uint64) uint64 {
	if before == 0 {
		return 0
	}
	return seq - before
}

func (g *group) appendTally(dst []byte, t *tally) []byte {
	dst = binary.AppendUvarint(dst, t.runs)
	if t.runs == 0 {
		return dst
	}
	// Groups of many runs mostly have about as many outputs.
	for _, n := range [...]uint64{t.runs - t.outputs, t.commonest, t.outputs - t.tied, t.runs - t.flips, t.spread, g.seq - t.first, g.seq - t.last} {
		dst = binary.AppendUvarint(dst, n)
	}
	if g.flags&isRun != 0 && t.last == g.seq {
		return dst
	}
	return binary.AppendUvarint(dst, g.seq-t.output)
}

// decodeGroup decodes the version that event seq made. Its facts refer to value.
func decodeGroup(seq uint64, value []byte) (group, error) {
	g := group{seq: seq}
	d := groupDecoder{rest: value, seq: seq}
	flags := d.byte()
	g.flags = flags &^ (hasRuns | isLone | isParted)
	if flags&hasRuns == 0 {
		return g, d.err()
	}
	if flags&isRun != 0 {
		g.output = seq - d.uvarint()
	}
	if flags&isLone != 0 {
		g.live.add(seq, g.output, 0)
		g.all = g.live
		if flags&bringsCondition != 0 {
			g.conditions = 1
		}
		g.facts = d.rest
		return g, d.err()
	}
	d.tally(&g.live, &g)
	if g.all = g.live; flags&isParted != 0 {
		d.tally(&g.all, &g)
	}
	g.outputBefore, g.conditionBefore = d.before(), d.before()
	if missing := d.uvarint(); missing > 0 {
		g.conditions = 1 + g.all.runs - missing
	}
	g.facts = d.rest
	d.bad = d.bad || g.all.runs < max(1, g.live.runs, g.conditions) || !g.live.possible() || !g.all.possible()
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

func (d *groupDecoder) tally(t *tally, g *group) {
	if t.runs = d.uvarint(); t.runs == 0 {
		return
	}
	for _, n := range [...]*uint64{&t.outputs, &t.commonest, &t.tied, &t.flips, &t.spread, &t.first, &t.last} {
		*n = d.uvarint()
	}
	t.outputs = t.runs - t.outputs
	t.tied = t.outputs - t.tied
	t.flips = t.runs - t.flips
	t.first, t.last = g.seq-t.first, g.seq-t.last
	if t.output = g.output; g.flags&isRun == 0 || t.last != g.seq {
		t.output = g.seq - d.uvarint()
	}
}
