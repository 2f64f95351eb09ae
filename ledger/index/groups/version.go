package groups

import (
	"encoding/binary"
	"fmt"

	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Flags of a version of a group, in addition to records.FlagRecord and records.FlagRun.
const (
	// hasRuns means that the group has runs. Unless isLone is set, the encoding contains their counts.
	hasRuns = 4 << iota
	// isLone means that the version's run is live, and is the only run of the group.
	isLone
	// hasDeadRuns means that some runs are not live. In that case, the counts of all runs follow
	// the counts of the live runs.
	hasDeadRuns
	// addsOutput means that the run is the first of the group with its output.
	addsOutput
	// FlagNewCombination means that the run is the first of its combination.
	FlagNewCombination
	// hasLevelsOrRows means, in the group of an output_hash, that the output has rows in outputs. In
	// any other group it means that the group has levels.
	hasLevelsOrRows
)

// Version is one version of a group. It describes the group's runs up to and including one event
// (spec: Groups).
type Version struct {
	seq   uint64 // seq of the event
	flags byte   // a set of records.FlagRecord, records.FlagRun, addsOutput, FlagNewCombination, and hasLevelsOrRows
	// OutputSeq is the output of the event's run, identified by the first run in the ledger with that
	// output. It is 0 if the event is not a run.
	OutputSeq uint64
	// LiveTally counts the live runs, and AllTally counts the runs in any state.
	LiveTally, AllTally Tally
	// PrevCombinationSeq is the seq of the newest earlier event with FlagNewCombination, and
	// outputBefore is that of the newest with addsOutput; 0 if there is none. They link the
	// versions into two lists, newest first. The list of combinations exists only in groups of an
	// input, an input_hash, a system prompt, a model, a build, or a label.
	outputBefore, PrevCombinationSeq uint64
	// LastRunFacts holds the variables of the last live run except its input, encoded for
	// DecodeRunFacts. It is set only in groups of an input.
	LastRunFacts []byte
	// deferred holds the combinations of the group's only run whose rows have not been written. It is set
	// only in groups of an input or an input_hash that have one run.
	deferred deferredCombinations
}

// HasDeadRuns reports whether some runs are not live.
func (g *Version) HasDeadRuns() bool { return g.LiveTally.Runs != g.AllTally.Runs }

// lastOutput returns the newest event with addsOutput, up to and including the event of this
// version, or 0 if there is none.
func (g *Version) lastOutput() uint64 {
	if g.flags&addsOutput != 0 {
		return g.seq
	}
	return g.outputBefore
}

// LastNewCombinationSeq returns the seq of the newest event with FlagNewCombination, up to and
// including the event of this version, or 0 if there is none.
func (g *Version) LastNewCombinationSeq() uint64 {
	if g.flags&FlagNewCombination != 0 {
		return g.seq
	}
	return g.PrevCombinationSeq
}

// follow turns g into the version of a later event, without changing the counts.
func (g *Version) follow(seq uint64, flags byte) {
	g.outputBefore, g.PrevCombinationSeq = g.lastOutput(), g.LastNewCombinationSeq()
	g.seq, g.flags, g.OutputSeq = seq, flags|g.flags&hasLevelsOrRows, 0
}

// lone reports whether the version's run is live, and is the only run of the group.
func (g *Version) lone() bool {
	return g.flags&records.FlagRun != 0 && g.AllTally.Runs == 1 && g.LiveTally.Runs == 1 && g.AllTally.first == g.seq
}

// append appends the encoded version to dst. Seqs are encoded as distances from the version's own
// seq.
func (g *Version) append(dst []byte) []byte {
	flags := g.flags
	if g.AllTally.Runs == 0 {
		return append(dst, flags)
	}
	flags |= hasRuns
	if g.lone() {
		dst = binary.AppendUvarint(append(dst, flags|isLone), g.seq-g.OutputSeq)
		return append(g.deferred.append(dst), g.LastRunFacts...)
	}
	if g.HasDeadRuns() {
		flags |= hasDeadRuns
	}
	dst = append(dst, flags)
	if flags&records.FlagRun != 0 {
		dst = binary.AppendUvarint(dst, g.seq-g.OutputSeq)
	}
	dst = g.appendTally(dst, &g.LiveTally)
	if g.HasDeadRuns() {
		dst = g.appendTally(dst, &g.AllTally)
	}
	dst = binary.AppendUvarint(dst, distance(g.seq, g.outputBefore))
	dst = binary.AppendUvarint(dst, distance(g.seq, g.PrevCombinationSeq))
	if g.AllTally.Runs == 1 {
		dst = g.deferred.append(dst)
	}
	return append(dst, g.LastRunFacts...)
}

// distance returns seq minus before, or 0 if before is 0.
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
	// In a group with many runs, almost every run usually has its own output, so these differences
	// are small.
	for _, n := range [...]uint64{t.Runs - t.outputs, t.mostCommon, t.outputs - t.tied, t.Runs - t.flips, t.spread, g.seq - t.first, g.seq - t.LastSeq} {
		dst = binary.AppendUvarint(dst, n)
	}
	if g.flags&records.FlagRun != 0 && t.LastSeq == g.seq {
		return dst
	}
	return binary.AppendUvarint(dst, g.seq-t.LastOutputSeq)
}

// DecodeVersion decodes the version of a group that the event at seq wrote. The version's facts and
// deferred combinations alias value.
func DecodeVersion(seq uint64, value []byte) (Version, error) {
	g := Version{seq: seq}
	d := groupDecoder{rest: value, seq: seq}
	flags := d.byte()
	g.flags = flags &^ (hasRuns | isLone | hasDeadRuns)
	if flags&hasRuns == 0 {
		return g, d.err()
	}
	if flags&records.FlagRun != 0 {
		g.OutputSeq = d.upTo()
	}
	if flags&isLone != 0 {
		g.LiveTally.add(seq, g.OutputSeq, 0)
		g.AllTally = g.LiveTally
		g.deferred = d.combinations()
		g.LastRunFacts = d.rest
		return g, d.err()
	}
	d.tally(&g.LiveTally, &g)
	if g.AllTally = g.LiveTally; flags&hasDeadRuns != 0 {
		d.tally(&g.AllTally, &g)
	}
	g.outputBefore, g.PrevCombinationSeq = d.before(), d.before()
	if g.AllTally.Runs == 1 {
		g.deferred = d.combinations()
	}
	g.LastRunFacts = d.rest
	d.bad = d.bad || g.AllTally.Runs < max(1, g.LiveTally.Runs) || !g.LiveTally.isConsistent() || !g.AllTally.isConsistent()
	return g, d.err()
}

// groupDecoder decodes a value from its beginning. A number that is missing decodes as 0 and
// sets bad.
type groupDecoder struct {
	rest []byte
	seq  uint64 // seq of the version
	bad  bool   // set if the value is damaged
}

func (d *groupDecoder) err() error {
	if d.bad {
		return fmt.Errorf("%w: cannot decode the group at event %d", rowstore.ErrDamaged, d.seq)
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

// upTo decodes a seq up to that of the version.
func (d *groupDecoder) upTo() uint64 {
	n := d.uvarint()
	if n > d.seq {
		d.bad = true
		return 0
	}
	return d.seq - n
}

// before decodes the seq of an earlier event, or 0 if there is none.
func (d *groupDecoder) before() uint64 {
	if seq := d.upTo(); seq < d.seq {
		return seq
	}
	return 0
}

// combinations decodes what deferredCombinations.append encoded.
func (d *groupDecoder) combinations() deferredCombinations {
	count := d.uvarint()
	if count > uint64(len(d.rest)/len(rowstore.Identity{})) {
		d.bad = true
		return nil
	}
	bytes := int(count) * len(rowstore.Identity{})
	ids := d.rest[:bytes:bytes]
	d.rest = d.rest[bytes:]
	return ids
}

func (d *groupDecoder) tally(t *Tally, g *Version) {
	if t.Runs = d.uvarint(); t.Runs == 0 {
		return
	}
	for _, n := range [...]*uint64{&t.outputs, &t.mostCommon, &t.tied, &t.flips, &t.spread} {
		*n = d.uvarint()
	}
	t.first, t.LastSeq = d.upTo(), d.upTo()
	t.outputs = t.Runs - t.outputs
	t.tied = t.outputs - t.tied
	t.flips = t.Runs - t.flips
	if t.LastOutputSeq = g.OutputSeq; g.flags&records.FlagRun == 0 || t.LastSeq != g.seq {
		t.LastOutputSeq = d.upTo()
	}
}

// IsRunVersion reports whether a run wrote a version of a group.
func IsRunVersion(r rowstore.Version) bool { return HasFlag(r, records.FlagRun) }

// HasFlag reports whether a version of a group has the given flag.
func HasFlag(r rowstore.Version, flag byte) bool {
	return len(r.Value) > 0 && r.Value[0]&flag != 0
}
