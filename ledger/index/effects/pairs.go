package effects

import (
	"context"
	"iter"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// ipcPair is two ipc_ids that differ in one variable only.
type ipcPair struct {
	view           *index.View
	leading, other rowstore.Identity
	// none: one of them has no runs that count. The other fields are then meaningless.
	none bool
	// leadingFiltered and otherFiltered: only live runs count, and the side has others.
	leadingFiltered, otherFiltered bool
}

// pair returns the ipc_id of the run at condition, and its partner.
func (e *walk) pair(ctx context.Context, condition uint64) (ipcPair, error) {
	run, err := records.ReadIPCRecord(ctx, e.view, condition)
	if err != nil {
		return ipcPair{}, err
	}
	return e.pairOf(e.ids(run.IPC))
}

// ipcIDs is an ipc_id with the leading value and the one that differs in that value only.
type ipcIDs struct{ leading, other rowstore.Identity }

// ids returns the ipc_ids that a run would have with either value.
func (e *walk) ids(ipc event.IPC) (ids ipcIDs) {
	variable := variableOf(&ipc, e.query.Variable)
	*variable = e.leading
	ids.leading = rowstore.Identify([]byte(records.IPCID), records.AppendIPCID(nil, &ipc))
	*variable = e.partner
	ids.other = rowstore.Identify([]byte(records.IPCID), records.AppendIPCID(nil, &ipc))
	return ids
}

// pairOf returns a pair of ipc_ids, either of which may have no runs.
func (e *walk) pairOf(ids ipcIDs) (ipcPair, error) {
	p := ipcPair{view: e.view, leading: ids.leading, other: ids.other}
	other, err := groups.Newest(e.view, p.other)
	if err != nil || other.Conditions == 0 {
		p.none = true
		return p, err
	}
	leading, err := groups.Newest(e.view, p.leading)
	if !e.query.Any {
		p.none = leading.Live.Runs == 0 || other.Live.Runs == 0
		p.leadingFiltered, p.otherFiltered = leading.HasDeadRuns(), other.HasDeadRuns()
	}
	return p, err
}

// variableOf returns the field of a variable in a run.
func variableOf(r *event.IPC, name string) *[]byte {
	switch name {
	case records.InputHash:
		return &r.InputHash
	case records.SystemPromptHash:
		return &r.SystemPromptHash
	case records.Model:
		return &r.Model
	case temperatureName:
		return &r.Temperature
	case maxTokensName:
		return &r.MaxTokens
	}
	return &r.Seed
}

// paired is two runs that form a pair, if found.
type paired struct {
	leading, other side
	found          bool
}

func (p *paired) changed() bool { return p.leading.output != p.other.output }

// walk yields the pairs of runs from a position on, and advances the position after each. It
// also yields with found false while it searches, so that the caller can stop when its budget
// is spent.
func (p *ipcPair) walk(at *position) iter.Seq2[paired, error] {
	return func(yield func(paired, error) bool) {
		if p.none {
			return
		}
		a, stopA := iter.Pull2(p.view.Ascend(records.Postings, p.leading[:], at.leading))
		defer stopA()
		b, stopB := iter.Pull2(p.view.Ascend(records.Postings, p.other[:], at.other))
		defer stopB()
		one := paired{leading: side{from: at.leading}, other: side{from: at.other}}
		for {
			more, err := one.leading.step(p.view, a, p.leadingFiltered)
			if more && err == nil {
				more, err = one.other.step(p.view, b, p.otherFiltered)
			}
			if err != nil {
				yield(one, err)
			}
			if !more || err != nil {
				return
			}
			if one.found = one.leading.ready && one.other.ready; one.found {
				one.leading.from, one.other.from = one.leading.seq+1, one.other.seq+1
			}
			if !yield(one, nil) {
				return
			}
			at.leading, at.other = one.leading.from, one.other.from
			if one.found {
				one.leading.ready, one.other.ready = false, false
			}
		}
	}
}

// side is the walk over one of the two groups.
type side struct {
	from   uint64 // the walk continues here; earlier versions are done
	seq    uint64 // the run that waits for its partner, if ready
	output uint64
	ready  bool
}

// step reads the next version unless a run waits. more is false at the end of the group.
func (s *side) step(v *index.View, next func() (rowstore.Version, error, bool), filtered bool) (more bool, err error) {
	if s.ready {
		return true, nil
	}
	version, err, ok := next()
	if err != nil || !ok {
		return false, err
	}
	s.seq, s.from = version.Seq, version.Seq+1
	if !groups.HasFlag(version, groups.AddsCondition) { // not a run, or its ipc_id is only claimed
		return true, nil
	}
	g, err := groups.Decode(version.Seq, version.Value)
	if err != nil {
		return false, err
	}
	if filtered {
		state, err := records.State(v, version.Seq)
		if err != nil || state != string(record.Live) {
			return true, err
		}
	}
	s.from, s.output, s.ready = version.Seq, g.Output, true
	return true, nil
}
