package index

import (
	"context"

	"colophon/ledger/drift"
	"colophon/ledger/index/rowstore"
)

// run is what a run brings to each of its groups. The fold makes one for each
// event.
type run struct {
	// output is its output: the first run of the ledger that had it. Rows tell outputs
	// apart by that, which is shorter than a hash.
	output uint64
	// repeats: another run of the ledger has that output.
	repeats bool
	// shows: the run shows what its ipc_id stands for; showsFirst: it is the first that
	// does.
	shows, showsFirst bool
	facts             []byte
	// The groups of its output_hash and its ipc_id before it.
	sameOutput, sameID group
}

// ipcRecord folds an IPC record.
func (f *fold) ipcRecord(ctx context.Context, e *drawn) error {
	var r *run
	if e.ipc.IsRun() {
		r = &f.runs.run
		if err := f.prepare(ctx, r, e); err != nil {
			return err
		}
	}
	f.writePostings(e, r)
	if r != nil && r.showsFirst {
		f.writeConditions(e.Seq, &e.ipc)
	}
	return nil
}

// prepare finds out what a run brings, before anything of it is written.
func (f *fold) prepare(ctx context.Context, r *run, e *drawn) error {
	r.sameOutput = f.newestGroup(e.values.of(outputFamily).id)
	same := &r.sameOutput
	r.output, r.repeats = e.Seq, same.all.runs > 0
	if r.repeats {
		r.output = same.all.first
	}
	if r.repeats && same.flags&isMarked == 0 {
		if err := f.spellOutput(ctx, r.output); err != nil {
			return err
		}
	}
	r.sameID = f.newestGroup(e.values.of(ipcFamily).id)
	r.shows, r.showsFirst = e.shows, e.shows && r.sameID.conditions == 0
	r.facts = e.facts
	return f.rows.Err
}

// newestGroup is the newest version of a group; of one that has no runs it may be
// nothing.
func (f *fold) newestGroup(id rowstore.Identity) group {
	if !f.known().MayHave(id) {
		return group{}
	}
	seq, value, found := f.rows.Newest(postings, id[:])
	if !found {
		return group{}
	}
	g, err := decodeGroup(seq, value)
	if err != nil {
		f.rows.Fail("%w", err)
	}
	return g
}

// group writes the version of a group that a record makes; r is nil unless it is
// a run.
func (f *fold) group(seq uint64, p posting, r *run) {
	var g group
	switch {
	case r != nil && p.family == outputFamily:
		g = r.sameOutput
	case r != nil && p.family == ipcFamily:
		g = r.sameID
	default:
		g = f.newestGroup(p.id)
	}
	f.runs.changes(p, &g, r != nil)
	g.follow(seq, isRecord)
	if r != nil {
		f.join(&g, p, r)
	}
	f.putGroup(p, &g)
}

// putGroup writes the version of a group that had runs before or has its first.
func (f *fold) putGroup(p posting, g *group) {
	f.value = g.append(f.value[:0])
	if g.all.runs == 0 { // newestGroup does not look for it
		f.rows.Write(postings, p.id[:], g.seq, f.value)
		return
	}
	if g.all.first != g.seq {
		f.rows.Put(postings, p.id[:], g.seq, f.value)
		return
	}
	f.known().Add(p.id)
	f.rows.Start(postings, p.id[:], g.seq, f.value)
	f.rows.Put(families, p.family[:], g.seq, p.id[:])
}

// join takes a new run into a version of one of its groups.
func (f *fold) join(g *group, p posting, r *run) {
	g.flags |= isRun
	g.output = r.output
	same := f.joinOutput(g, p, r)
	if same.all == 0 {
		g.flags |= bringsOutput
	}
	switch p.family {
	case inputFamily:
		f.countDrift(g, r)
		g.facts = r.facts
		g.bring(r.showsFirst)
	case promptFamily, modelFamily:
		g.bring(r.showsFirst)
	case ipcFamily:
		g.bring(r.shows)
	case outputFamily:
		if r.repeats {
			g.flags |= isMarked
		}
	}
	parted := g.parted()
	g.live.add(g.seq, r.output, same.live)
	if parted {
		g.all.add(g.seq, r.output, same.all)
	} else {
		g.all = g.live
	}
}

// bring lists the version's run among the conditions of the group, if it is one.
func (g *group) bring(condition bool) {
	if condition {
		g.flags |= bringsCondition
		g.conditions++
	}
}

// countDrift counts a run by its cause against the live run before it in the group
// of its input_hash, if there is one (4.5).
func (f *fold) countDrift(g *group, r *run) {
	if g.live.runs == 0 {
		return
	}
	before, after := decodeFacts(g.facts), decodeFacts(r.facts)
	before.OutputHash, after.OutputHash = rowstore.AppendSeq(nil, g.live.output), rowstore.AppendSeq(nil, r.output)
	f.count(seriesOf(driftTotal, string(drift.CauseOf(&before, &after))), 1)
}
