package index

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/storage"
)

// IPCRecord is an IPC record as its event says. It is the caller's to keep.
type IPCRecord struct {
	Seq   uint64
	Time  time.Time // of its event
	RunID []byte    // nil if it has none
	event.IPC
	schema []byte
}

// ipcRecordOf is the IPC record that an event is. It refers to the event's memory.
func ipcRecordOf(e *event.Event, said event.IPC) IPCRecord {
	return IPCRecord{e.Seq, e.Time, e.RunID(), said, e.Detail.Member("payload_schema").Text()}
}

// recordsOfView is what questions about records keep with a view.
type recordsOfView struct {
	// records are the last that were read: outputs of a group are mostly those of its runs.
	records  map[uint64]IPCRecord
	restated *bool  // whether any record has another state than the first; nil: not known
	encoded  []byte // scratch
}

// mostRecords is how many records a view keeps: more than most pages have.
const mostRecords = 128

// ReadIPCRecord is the IPC record at seq; storage.ErrNotFound if it is another kind of
// event, or one that the view does not see. What it refers to must not be changed.
func ReadIPCRecord(ctx context.Context, v *View, seq uint64) (IPCRecord, error) {
	kept := Kept[recordsOfView](v)
	if r, ok := kept.records[seq]; ok {
		return r, nil
	}
	r, err := readIPCRecord(ctx, v, seq)
	if err != nil {
		return IPCRecord{}, err
	}
	if kept.records == nil || len(kept.records) == mostRecords {
		kept.records = make(map[uint64]IPCRecord)
	}
	kept.records[seq] = r
	return r, nil
}

func readIPCRecord(ctx context.Context, v *View, seq uint64) (IPCRecord, error) {
	if seq >= v.Size() {
		return IPCRecord{}, fmt.Errorf("event %d: %w", seq, storage.ErrNotFound)
	}
	if r, _, found := remembered(v, seq); found {
		return r, ctx.Err() // which a read of the log minds, too
	}
	entry, e, err := v.Entry(ctx, seq)
	if err != nil {
		return IPCRecord{}, err
	}
	if e.Kind != record.IPCRecord {
		return IPCRecord{}, fmt.Errorf("event %d as %s: %w", seq, record.IPCRecord, storage.ErrNotFound)
	}
	said := ipcRecordOf(&e, e.IPC())
	kept := Kept[recordsOfView](v)
	kept.encoded = said.appendKept(kept.encoded[:0], len(entry))
	r, _, _ := decodeKept(seq, kept.encoded) // in memory of its own
	if v.Cache().Enabled() {
		listed := recordOf(&e)
		remember(v, seq, len(entry), &said, &listed)
	}
	return r, nil
}

// remembered is the IPC record at seq if it is kept, and what it has for lists, which is
// valid until the next call. It counts as one that was read.
func remembered(v *View, seq uint64) (r IPCRecord, rest kept, found bool) {
	kept := Kept[recordsOfView](v)
	kept.encoded, found = v.Cache().Find(kept.encoded[:0], seq)
	if found {
		var size int
		r, size, rest = decodeKept(seq, kept.encoded)
		v.Count(1, size)
	}
	return r, rest, found
}

// remember keeps the IPC record at seq, the length of whose entry is size.
func remember(v *View, seq uint64, size int, r *IPCRecord, listed *Record) {
	kept := Kept[recordsOfView](v)
	kept.encoded = listed.appendKept(r.appendKept(kept.encoded[:0], size), r)
	v.Cache().Keep(seq, kept.encoded)
}

// PayloadSchema is the schema that the payload was read under (1.3); nil if none.
func (r *IPCRecord) PayloadSchema() []byte { return r.schema }

// Run is a run and its state.
type Run struct {
	IPCRecord
	State record.State
}

// Drift is what came of a run against the one before it. What differs is named, without
// its values.
type Drift struct {
	Against uint64 // the run before
	drift.Attribution
}

// RunsDriftOf compares the run at seq with the one before it that has its input_hash and
// was live when the run was recorded, as drift is counted (4.5); not found if there
// was none, or if the record at seq is no run. It reads one event and two keys.
func RunsDriftOf(ctx context.Context, v *View, seq uint64) (d Drift, found bool, err error) {
	run, err := ReadIPCRecord(ctx, v, seq)
	if err != nil || !run.IsRun() {
		return Drift{}, false, err
	}
	id := rowstore.Identify([]byte(InputHash), run.InputHash)
	before, err := NewestBelow(v, id, seq)
	if err != nil || before.Live.Runs == 0 {
		return Drift{}, false, err
	}
	d.Against = before.Live.Last
	before.Facts = bytes.Clone(before.Facts)
	own, err := VersionAt(v, id, seq, IsRun)
	if err != nil {
		return Drift{}, false, err
	}
	of, and := lastRun(&before), lastRun(&own)
	d.Attribution = drift.Attribute(&of, &and)
	for i := range d.Differences {
		d.Differences[i].A, d.Differences[i].B = nil, nil
	}
	return d, true, nil
}

// lastRun is a run that compares as the last live one of a group of an input_hash.
func lastRun(g *Version) event.IPC {
	run := DecodeFacts(g.Facts)
	run.OutputHash = rowstore.AppendSeq(nil, g.Live.Output)
	return run
}

// IsRunVersion reports whether a version of a group was made by a run.
func IsRunVersion(r rowstore.Version) bool { return Brings(r, IsRun) }

// Brings reports whether a version of a group has a flag.
func Brings(r rowstore.Version, flag byte) bool {
	return len(r.Value) > 0 && r.Value[0]&flag != 0
}

// RunQuery chooses runs: those of one group.
type RunQuery struct {
	Value
	Any bool // runs of any state, not only live ones
}

// id is the identity of the group.
func (q *RunQuery) id() rowstore.Identity { return rowstore.Identify([]byte(q.Name), []byte(q.Text)) }

// RunsList lists the runs of a group, newest first. A page may have fewer rows than
// there are where few are live, even none.
func RunsList(ctx context.Context, v *View, q RunQuery, p Page) (rows []Run, next []byte, err error) {
	below := v.Size()
	if p.After != nil {
		if below, err = rowstore.DecodeSeq(p.After); err != nil || below > v.Size() {
			return nil, nil, ErrPosition
		}
	}
	b := v.Budget(p)
	members, err := membersOf(v, &q)
	if err != nil {
		return nil, nil, err
	}
	for row, err := range v.Descend(Postings, members.id[:], below) {
		if err == nil && b.Spent(len(rows)) {
			return rows, rowstore.AppendSeq(nil, below), nil
		}
		below = row.Seq
		if err == nil && IsRunVersion(row) {
			rows, err = members.appendRun(ctx, rows, row.Seq)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return rows, nil, nil
}

// members are the runs of a group.
type members struct {
	view   *View
	id     rowstore.Identity // of the group
	any    bool
	parted bool // not all of them are live
}

func membersOf(v *View, q *RunQuery) (members, error) {
	id := q.id()
	g, err := Newest(v, id)
	return members{v, id, q.Any, g.Parted()}, err
}

// appendRun appends the run at seq if it is live, or in any case.
func (m *members) appendRun(ctx context.Context, rows []Run, seq uint64) ([]Run, error) {
	state := string(record.Live)
	if m.parted {
		var err error
		if state, err = StateOf(m.view, seq); err != nil || !m.any && state != string(record.Live) {
			return rows, err
		}
	}
	r, err := ReadIPCRecord(ctx, m.view, seq)
	return append(rows, Run{r, record.State(state)}), err
}

// Step is a run of a timeline.
type Step struct {
	Run
	// Against is the run before; nil for the first, which Attribution says nothing of.
	Against *uint64
	drift.Attribution
}

// RunsTimeline lists the runs of a group in the order of the log, each against the one
// before it. A page may have fewer rows than there are where few are live, even
// none.
func RunsTimeline(ctx context.Context, v *View, q RunQuery, p Page) (rows []Step, next []byte, err error) {
	from, before, err := timelinePosition(ctx, v, p.After)
	if err != nil {
		return nil, nil, err
	}
	b := v.Budget(p)
	members, err := membersOf(v, &q)
	if err != nil {
		return nil, nil, err
	}
	for row, err := range v.Ascend(Postings, members.id[:], from) {
		if err != nil {
			return nil, nil, err
		}
		if b.Spent(len(rows)) {
			next := rowstore.AppendSeq(nil, row.Seq)
			if before != nil {
				next = rowstore.AppendSeq(next, before.Seq)
			}
			return rows, next, nil
		}
		if !IsRunVersion(row) {
			continue
		}
		runs, err := members.appendRun(ctx, nil, row.Seq)
		if err != nil {
			return nil, nil, err
		}
		for _, run := range runs {
			rows = append(rows, stepOf(run, before))
			before = &run.IPCRecord
		}
	}
	return rows, nil, nil
}

func stepOf(run Run, before *IPCRecord) Step {
	if before == nil {
		return Step{Run: run}
	}
	return Step{run, &before.Seq, drift.Attribute(&before.IPC, &run.IPC)}
}

// timelinePosition is where a page begins, and the run before it; nil if there is
// none.
func timelinePosition(ctx context.Context, v *View, after []byte) (from uint64, before *IPCRecord, err error) {
	switch len(after) {
	case 0:
		return 0, nil, nil
	case rowstore.SeqBytes, 2 * rowstore.SeqBytes:
	default:
		return 0, nil, ErrPosition
	}
	for part := range slices.Chunk(after, rowstore.SeqBytes) {
		seq, _ := rowstore.DecodeSeq(part)
		if seq >= v.Size() {
			return 0, nil, ErrPosition
		}
		if from == 0 {
			from = seq
			continue
		}
		run, err := ReadIPCRecord(ctx, v, seq)
		if err != nil {
			return 0, nil, ErrPosition
		}
		before = &run
	}
	return from, before, nil
}
