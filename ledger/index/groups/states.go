package groups

import (
	"context"
	"errors"

	"colophon/ledger/event"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// runStateChanged updates the groups of a run that becomes live or stops being live.
func (f *Deriver) runStateChanged(ctx context.Context, e, target *event.Event, from, to string) error {
	const live = string(record.StateLive)
	ipc := target.IPC()
	if (from == live) == (to == live) || !ipc.IsRun() {
		return nil
	}
	if err := f.RequireEmptyBatch(); err != nil {
		return err
	}
	same := f.newestGroup(rowstore.IdentityOf([]byte(records.NameOutputHash), ipc.OutputHash))
	r := runChange{seq: e.Seq, run: target.Seq, output: same.AllTally.first, becomesLive: to == live}
	f.others.CollectIPC(&f.othersIdentities, target, &ipc)
	for p := range f.others.GroupPostings() {
		if err := f.changeGroup(ctx, p, r); err != nil {
			return err
		}
	}
	return nil
}

// runChange describes a run that becomes live or stops being live.
type runChange struct {
	seq         uint64 // seq of the event that changes the state
	run         uint64
	output      uint64
	becomesLive bool // if false, the run stops being live
}

// changeGroup writes the new version of one of the run's groups.
func (f *Deriver) changeGroup(ctx context.Context, p records.Posting, r runChange) error {
	g := f.newestGroup(p.ID)
	f.runs.noteChange(p, &g, false)
	g.follow(r.seq, 0)
	before, after, err := f.liveNeighbours(p.ID, r)
	if err != nil {
		return err
	}
	same := f.changeOutput(&g, p, r)
	last := g.LiveTally.LastSeq
	if r.becomesLive {
		g.LiveTally.insert(r.run, r.output, before, after, same)
	} else if err := g.LiveTally.remove(r.output, before, after, same, func() (uint64, error) {
		if p.Grouping == records.OutputHashGrouping {
			return 0, nil
		}
		return f.tied(ctx, &g, p.ID, r.output, same)
	}); err != nil {
		return err
	}
	if p.Grouping == records.InputGrouping && g.LiveTally.LastSeq != last {
		if g.LastRunFacts, err = f.factsOf(ctx, &g.LiveTally); err != nil {
			return err
		}
	}
	f.putGroup(p, &g)
	return f.Rows.Err
}

// liveNeighbours updates the dead ranges of a group and returns the live runs just before and after
// the changed run.
func (f *Deriver) liveNeighbours(id rowstore.Identity, r runChange) (before, after neighbour, err error) {
	runs, err := f.groupRuns(id)
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, runs.close()) }()
	around := f.extendDeadRange
	if r.becomesLive {
		around = f.splitDeadRange
	}
	dead, err := around(runs, id, r.run)
	if err != nil {
		return before, after, err
	}
	return runs.neighbours(dead)
}

// changeOutput updates the count of the run's output and returns how many live runs had that output
// before the change.
func (f *Deriver) changeOutput(g *Version, p records.Posting, r runChange) (live uint64) {
	if p.Grouping == records.OutputHashGrouping {
		g.flags |= hasLevelsOrRows
		return g.LiveTally.Runs
	}
	row := outputRowOf(p.ID, r.output)
	same, found := f.countOutput(row)
	if !found {
		same = onlyOne
		f.addToFilter(row)
	}
	next := outputCount{same.live - 1, same.all}
	if r.becomesLive {
		next.live = same.live + 1
	}
	f.moveOutput(g, p.ID, same.live, next.live)
	f.putOutput(row, r.seq, next)
	return same.live
}

// factsOf returns the facts of the last run that t counts, or nil if t counts no runs.
func (f *Deriver) factsOf(ctx context.Context, t *Tally) ([]byte, error) {
	if t.Runs == 0 {
		return nil, nil
	}
	e, err := f.ReadEvent(ctx, t.LastSeq)
	if err != nil {
		return nil, err
	}
	ipc := e.IPC()
	return appendFacts(nil, &ipc), nil
}

// neighbour is the live run just before or after another run of a group.
type neighbour struct {
	seq    uint64
	output uint64
	found  bool
}

// differ returns 1 if both neighbours exist and their outputs differ, and 0 otherwise.
func differ(a, b neighbour) uint64 {
	if a.found && b.found && a.output != b.output {
		return 1
	}
	return 0
}

// insert adds a run between its neighbours. same is the number of other runs with the same output.
func (t *Tally) insert(seq, output uint64, before, after neighbour, same uint64) {
	own := neighbour{seq, output, true}
	t.flips = t.flips - differ(before, after) + differ(before, own) + differ(own, after)
	t.join(same)
	if !before.found {
		t.first = seq
	}
	if !after.found {
		t.LastSeq, t.LastOutputSeq = seq, output
	}
}

// remove removes a run between its neighbours. See Tally.leave for same and others.
func (t *Tally) remove(output uint64, before, after neighbour, same uint64, others func() (uint64, error)) error {
	own := neighbour{0, output, true}
	t.flips = t.flips + differ(before, after) - differ(before, own) - differ(own, after)
	if err := t.leave(same, others); err != nil {
		return err
	}
	switch {
	case !before.found && !after.found:
		*t = Tally{}
	case !before.found:
		t.first = after.seq
	case !after.found:
		t.LastSeq, t.LastOutputSeq = before.seq, before.output
	}
	return nil
}
