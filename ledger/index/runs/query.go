// Package runs answers queries about the runs of a group: lists, timelines, and drift. It reads the
// rows of records, groups, and citation sets, and writes no rows of its own.
package runs

import (
	"bytes"
	"context"
	"slices"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Run is an IPC record with an input and an output, and its state.
type Run struct {
	records.IPCRecord
	State record.State
}

// Drift is the difference between a run and the previous one. It names the variables that
// differ, without their values.
type Drift struct {
	PreviousSeq uint64 // seq of the previous run
	drift.RunChange
}

// DriftOf compares the run at seq with the latest earlier run that has the same input and was live
// when the run at seq was recorded. The drift counter does the same (spec: Drift of a run). found
// is false if there is no such earlier run, or if the record at seq is not a run. DriftOf reads one
// event and two keys. If the run has a citation set, DriftOf also reads the earlier run and that
// run's set.
func DriftOf(ctx context.Context, v *index.View, seq uint64) (d Drift, found bool, err error) {
	run, err := records.ReadIPCRecord(ctx, v, seq)
	if err != nil || !run.IsRun() {
		return Drift{}, false, err
	}
	id := rowstore.IdentityOf([]byte(records.NameInput), run.InputIdentity())
	before, err := groups.NewestVersionBelow(v, id, seq)
	if err != nil || before.LiveTally.Runs == 0 {
		return Drift{}, false, err
	}
	d.PreviousSeq = before.LiveTally.LastSeq
	before.LastRunFacts = bytes.Clone(before.LastRunFacts)
	sets, err := compareSetsAtRun(ctx, v, d.PreviousSeq, &run)
	if err != nil {
		return Drift{}, false, err
	}
	own, err := groups.VersionAt(v, id, seq, records.FlagRun)
	if err != nil {
		return Drift{}, false, err
	}
	of, and := lastRun(&before), lastRun(&own)
	d.RunChange = drift.CompareRuns(&of, &and, sets)
	for i := range d.Differences {
		d.Differences[i].ValueA, d.Differences[i].ValueB = nil, nil
	}
	return d, true, nil
}

// compareSetsAtRun compares the citation sets that two runs had when the second one was recorded.
func compareSetsAtRun(ctx context.Context, v *index.View, before uint64, run *records.IPCRecord) (drift.CitationSetPair, error) {
	if _, _, found, err := citations.LatestSetBelow(v, run.RunID, run.Seq); err != nil || !found {
		return drift.CitationSetPair{}, err
	}
	earlier, err := records.ReadIPCRecord(ctx, v, before)
	if err != nil {
		return drift.CitationSetPair{}, err
	}
	return citations.CompareLatestSets(v, earlier.RunID, run.RunID, run.Seq)
}

// lastRun returns a stand-in for the last live run of a group. Comparing two stand-ins finds the
// same differences as comparing the runs themselves.
func lastRun(g *groups.Version) event.IPC {
	run := groups.DecodeRunFacts(g.LastRunFacts)
	run.OutputHash = rowstore.AppendSeq(nil, g.LiveTally.LastOutputSeq)
	return run
}

// List returns the runs of a group, newest first. A page can have fewer rows than its limit,
// or none, if few runs are live.
func List(ctx context.Context, v *index.View, q groups.RunQuery, p index.PageRequest) (rows []Run, next []byte, err error) {
	below := v.Size()
	if p.After != nil {
		if below, err = rowstore.DecodeSeq(p.After); err != nil || below > v.Size() {
			return nil, nil, index.ErrInvalidPosition
		}
	}
	b := v.Budget(p)
	members, err := membersOf(v, &q)
	if err != nil {
		return nil, nil, err
	}
	for row, err := range v.VersionsNewestFirst(records.PostingsDimension, members.id[:], below) {
		if err == nil && b.IsSpent(len(rows)) {
			return rows, rowstore.AppendSeq(nil, below), nil
		}
		below = row.Seq
		if err == nil && groups.IsRunVersion(row) {
			rows, err = members.appendRun(ctx, rows, row.Seq)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return rows, nil, nil
}

// members reads the runs of a group.
type members struct {
	view        *index.View
	id          rowstore.Identity // identity of the group
	any         bool
	seeded      bool
	hasDeadRuns bool // some runs of the group are not live
}

func membersOf(v *index.View, q *groups.RunQuery) (members, error) {
	id := q.ID()
	g, err := groups.NewestVersion(v, id)
	return members{v, id, q.AnyState, q.SeededOnly, g.HasDeadRuns()}, err
}

// appendRun appends the run at seq if the query selects its state, and if the run has a seed
// or the query includes runs without one.
func (m *members) appendRun(ctx context.Context, rows []Run, seq uint64) ([]Run, error) {
	state := string(record.StateLive)
	if m.hasDeadRuns {
		var err error
		if state, err = records.StateOf(m.view, seq); err != nil || !m.any && state != string(record.StateLive) {
			return rows, err
		}
	}
	r, err := records.ReadIPCRecord(ctx, m.view, seq)
	if err != nil || m.seeded && r.Seed == nil {
		return rows, err
	}
	return append(rows, Run{r, record.State(state)}), nil
}

// TimelineStep is a run in a timeline, with its change from the previous run.
type TimelineStep struct {
	Run
	// PreviousSeq is the seq of the previous run. It is nil for the first run, whose RunChange is
	// empty.
	PreviousSeq *uint64
	drift.RunChange
}

// Timeline returns the runs of a group, oldest first, each compared with the previous one. A
// page can have fewer rows than its limit, or none, if few runs are live.
func Timeline(ctx context.Context, v *index.View, q groups.RunQuery, p index.PageRequest) (rows []TimelineStep, next []byte, err error) {
	from, before, err := timelinePosition(ctx, v, p.After)
	if err != nil {
		return nil, nil, err
	}
	b := v.Budget(p)
	members, err := membersOf(v, &q)
	if err != nil {
		return nil, nil, err
	}
	for row, err := range v.VersionsOldestFirst(records.PostingsDimension, members.id[:], from) {
		if err != nil {
			return nil, nil, err
		}
		if b.IsSpent(len(rows)) {
			next := rowstore.AppendSeq(nil, row.Seq)
			if before != nil {
				next = rowstore.AppendSeq(next, before.Seq)
			}
			return rows, next, nil
		}
		if !groups.IsRunVersion(row) {
			continue
		}
		runs, err := members.appendRun(ctx, nil, row.Seq)
		if err != nil {
			return nil, nil, err
		}
		for _, run := range runs {
			step, err := stepOf(v, run, before)
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, step)
			before = &run.IPCRecord
		}
	}
	return rows, nil, nil
}

func stepOf(v *index.View, run Run, before *records.IPCRecord) (TimelineStep, error) {
	if before == nil {
		return TimelineStep{Run: run}, nil
	}
	sets, err := citations.CompareLatestSets(v, before.RunID, run.RunID, v.Size())
	return TimelineStep{run, &before.Seq, drift.CompareRuns(&before.IPC, &run.IPC, sets)}, err
}

// timelinePosition decodes a page position. from is the seq at which the page begins. before is the
// last run on the previous pages, or nil if they contain no runs.
func timelinePosition(ctx context.Context, v *index.View, after []byte) (from uint64, before *records.IPCRecord, err error) {
	switch len(after) {
	case 0:
		return 0, nil, nil
	case rowstore.SeqSize, 2 * rowstore.SeqSize:
	default:
		return 0, nil, index.ErrInvalidPosition
	}
	for part := range slices.Chunk(after, rowstore.SeqSize) {
		seq, _ := rowstore.DecodeSeq(part)
		if seq >= v.Size() {
			return 0, nil, index.ErrInvalidPosition
		}
		if from == 0 {
			from = seq
			continue
		}
		run, err := records.ReadIPCRecord(ctx, v, seq)
		if err != nil {
			return 0, nil, index.ErrInvalidPosition
		}
		before = &run
	}
	return from, before, nil
}
