package groups

import (
	"context"
	"slices"

	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// run collects what one run adds to its groups. The fold reuses it for all runs.
type run struct {
	// output is the seq of the first run in the ledger with the same output. It identifies the
	// output, and is shorter than a hash.
	output uint64
	// repeats is true if an earlier run in the ledger has the same output.
	repeats bool
	// first says, for each value of InputMode, whether this is the first run of its combination.
	first [inputModeCount]bool
	// firstWith lists the label groups and build groups in which the run is the first of its
	// combination.
	firstWith []rowstore.Identity
	facts     []byte
	// otherEvidence is true if the run's citation set differs from that of the previous live run
	// with the same input (spec: Evidence).
	otherEvidence bool
	// sameOutput, sameInput, and sameInputHash are the groups of the run's output_hash, input, and
	// input_hash as they were before this run.
	sameOutput, sameInput, sameInputHash Version
	// deferred holds, for InputModeHash and InputModeSeedless, the combinations that the run defers.
	deferred [InputModeMembers]deferredCombinations
}

// Deriver writes the index rows of groups of runs.
type Deriver struct {
	*index.Fold
	runs     rankState
	evidence evidence
	// current is the run being folded, or nil if the record is not a run.
	current *run
	// cause explains why the current run differs from the previous live run with the same input. It
	// is "" if there is no such previous run.
	cause drift.Cause

	// Scratch memory.
	others           records.ValueCollector // values of a record other than the current one
	othersIdentities records.PostingCache   // identities of the values in others
	value            []byte
}

// evidence finds the citation sets of runs.
type evidence interface {
	index.Deriver
	// NewestEvidence returns the identity of the citations in the latest citation set of a run.
	NewestEvidence(runID []byte) (cited rowstore.Identity, found bool)
}

// preparedRun holds the values that can be computed from the run's event alone.
type preparedRun struct {
	combinations [inputModeCount]rowstore.Identity
	outside      []combinedWith // combinations with each label and with the build
	facts        []byte
}

// Prepare implements index.Preparer.
func (f *Deriver) Prepare(e *index.Event) {
	if e.Kind != record.KindIPCRecord || !e.IPC.IsRun() {
		return
	}
	p := index.PreparedValue[preparedRun](e)
	for by := range inputModeCount {
		p.combinations[by] = CombinationID(&e.IPC, by)
	}
	p.outside = p.outside[:0]
	for one := range index.PreparedValue[records.ValueCollector](e).GroupPostings() { // prepared by records.Deriver
		if one.IsOutsideCombination() {
			p.outside = append(p.outside, combinedWith{one.ID, CombinationGroupID(p.combinations[InputModeHash], one.ID)})
		}
	}
	p.facts = appendFacts(p.facts[:0], &e.IPC)
}

// Derive implements index.Deriver. It does nothing, because records.Deriver calls BeginRecord,
// WriteGroup, and BeforeStateChange instead.
func (f *Deriver) Derive(context.Context, *index.Event) error { return nil }

// BeginRecord implements records.Grouper.
func (f *Deriver) BeginRecord(ctx context.Context, e *index.Event) error {
	f.current, f.cause = nil, ""
	if e.Kind != record.KindIPCRecord || !e.IPC.IsRun() {
		return nil
	}
	f.current = &f.runs.run
	return f.prepare(ctx, f.current, e)
}

// IsFirstOfCombination reports whether the current record is the first run of its combination.
func (f *Deriver) IsFirstOfCombination(by InputMode) bool {
	return f.current != nil && f.current.first[by]
}

// BeforeStateChange implements records.StateObserver.
func (f *Deriver) BeforeStateChange(ctx context.Context, c records.StateChange) error {
	if c.Target.Kind != record.KindIPCRecord {
		return nil
	}
	return f.runStateChanged(ctx, c.Event, c.Target, c.From, c.To)
}

// prepare computes what a run adds to its groups, before any of the groups is written.
func (f *Deriver) prepare(ctx context.Context, r *run, e *index.Event) (err error) {
	all, own := index.PreparedValue[records.ValueCollector](e), index.PreparedValue[preparedRun](e)
	r.sameOutput = f.newestGroup(all.PostingOf(records.OutputHashGrouping).ID)
	same := &r.sameOutput
	r.output, r.repeats = e.Seq, same.AllTally.Runs > 0
	if r.repeats {
		r.output = same.AllTally.first
	}
	if r.repeats && same.flags&hasLevelsOrRows == 0 {
		if err := f.backfillOutput(ctx, r.output); err != nil {
			return err
		}
	}
	r.facts = own.facts
	r.sameInput = f.newestGroup(all.PostingOf(records.InputGrouping).ID)
	r.sameInputHash = f.newestGroup(all.PostingOf(records.InputHashGrouping).ID)
	if r.otherEvidence, err = otherEvidence(ctx, f, e, &r.sameInput); err != nil {
		return err
	}
	r.combine(f, e.Seq, own)
	return f.Rows.Err
}

// otherEvidence reports whether a new run and the previous live run with the same input have
// different citation sets. It returns false if either run has no citation set. It reads the
// previous run only if the new run has a citation set. same is the group of the input.
func otherEvidence(ctx context.Context, f *Deriver, e *index.Event, same *Version) (bool, error) {
	own, found := f.evidence.NewestEvidence(e.RunID())
	if !found || same.LiveTally.Runs == 0 {
		return false, nil
	}
	before, err := f.ReadEvent(ctx, same.LiveTally.LastSeq)
	if err != nil {
		return false, err
	}
	other, found := f.evidence.NewestEvidence(before.RunID())
	return found && own != other, nil
}

// newestGroup returns the newest version of a group. If the group has no runs, newestGroup may
// return zero even though a version exists.
func (f *Deriver) newestGroup(id rowstore.Identity) Version {
	if !f.Filter().MayContain(id) {
		return Version{}
	}
	seq, value, found := f.Rows.NewestVersion(records.PostingsDimension, id[:])
	if !found {
		return Version{}
	}
	g, err := DecodeVersion(seq, value)
	if err != nil {
		f.Rows.Failf("%w", err)
	}
	return g
}

// groupBefore returns a group of the current record as it was before the record.
func (f *Deriver) groupBefore(p records.Posting) Version {
	if r := f.current; r != nil {
		switch p.Grouping {
		case records.OutputHashGrouping:
			return r.sameOutput
		case records.InputGrouping:
			return r.sameInput
		case records.InputHashGrouping:
			return r.sameInputHash
		}
	}
	return f.newestGroup(p.ID)
}

// WriteGroup implements records.Grouper.
func (f *Deriver) WriteGroup(e *index.Event, p records.Posting) {
	r := f.current // nil if the record is not a run
	g := f.groupBefore(p)
	f.runs.noteChange(p, &g, r != nil)
	g.follow(e.Seq, records.FlagRecord)
	if r != nil {
		f.join(&g, p, r)
		if g.AllTally.first == e.Seq && p.IsLabel() {
			noteLabel(f, e, p)
		}
	}
	f.putGroup(p, &g)
}

// putGroup writes a version of a group. If it is the version of the group's first run, putGroup
// also adds the group to the filter and to the list of its family.
func (f *Deriver) putGroup(p records.Posting, g *Version) {
	f.value = g.append(f.value[:0])
	if g.AllTally.Runs == 0 { // newestGroup never needs to find a version without runs
		f.Rows.PutSeparately(records.PostingsDimension, p.ID[:], g.seq, f.value)
		return
	}
	if g.AllTally.first != g.seq {
		f.Rows.Put(records.PostingsDimension, p.ID[:], g.seq, f.value)
		return
	}
	f.Filter().Add(p.ID)
	f.Rows.PutFirst(records.PostingsDimension, p.ID[:], g.seq, f.value)
	f.Rows.Put(families, p.Grouping[:], g.seq, p.ID[:])
}

// join adds a new run to the new version of one of its groups.
func (f *Deriver) join(g *Version, p records.Posting, r *run) {
	g.flags |= records.FlagRun
	g.OutputSeq = r.output
	same := f.joinOutput(g, p, r)
	if same.all == 0 {
		g.flags |= addsOutput
	}
	switch p.Grouping {
	case records.InputGrouping:
		f.countDrift(g, r)
		g.LastRunFacts = r.facts
		g.markCombination(r.first[InputModeSeedless])
		g.deferred = r.deferred[InputModeSeedless]
	case records.InputHashGrouping:
		g.markCombination(r.first[InputModeHash])
		g.deferred = r.deferred[InputModeHash]
	case records.SystemPromptHashGrouping, records.ModelGrouping:
		g.markCombination(r.first[InputModeHash])
	case records.OutputHashGrouping:
		if r.repeats {
			g.flags |= hasLevelsOrRows
		}
	default:
		g.markCombination(slices.Contains(r.firstWith, p.ID)) // false for the group of an ipc_id, which firstWith does not contain
	}
	dead := g.HasDeadRuns()
	g.LiveTally.add(g.seq, r.output, same.live)
	if dead {
		g.AllTally.add(g.seq, r.output, same.all)
	} else {
		g.AllTally = g.LiveTally
	}
}

// markCombination sets the flag FlagNewCombination if isFirst is true, that is, if the version's run is
// the first of its combination.
func (g *Version) markCombination(isFirst bool) {
	if isFirst {
		g.flags |= FlagNewCombination
	}
}

// countDrift compares a run with the previous live run that has the same input, if there is one,
// and counts the cause of the change (spec: Metrics derived from the log).
func (f *Deriver) countDrift(g *Version, r *run) {
	if g.LiveTally.Runs == 0 {
		return
	}
	before, after := DecodeRunFacts(g.LastRunFacts), DecodeRunFacts(r.facts)
	before.OutputHash, after.OutputHash = rowstore.AppendSeq(nil, g.LiveTally.LastOutputSeq), rowstore.AppendSeq(nil, r.output)
	f.cause = drift.CauseOf(&before, &after, r.otherEvidence)
	f.Counters.Add(counters.SeriesOf(counters.MetricDrift, string(f.cause)), 1)
}

// DriftCauseOf returns the cause of the change between the previous live run with the same input
// and the record that f is folding. It returns "" if the record is not a run or there is no such
// previous run.
func DriftCauseOf(f *Deriver) drift.Cause { return f.cause }
