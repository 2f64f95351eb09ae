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

// ipcPair is two ipc_ids that differ in the variable alone.
type ipcPair struct {
	view           *index.View
	leading, other rowstore.Identity
	// none: one of them takes no part. The rest is of no meaning then.
	none bool
	// filtered: runs that are not live do not count, and the side has some.
	leadingFiltered, otherFiltered bool
}

// pair is the ipc_id that the run at condition shows first, and its partner.
func (e *walk) pair(ctx context.Context, condition uint64) (ipcPair, error) {
	run, err := records.ReadIPCRecord(ctx, e.view, condition)
	if err != nil {
		return ipcPair{}, err
	}
	return e.pairOf(e.ids(run.IPC))
}

// ipcIDs are an ipc_id with the leading value and the one that differs in it alone.
type ipcIDs struct{ leading, other rowstore.Identity }

// ids are the ipc_ids that a run would have with the leading value and with the other.
func (e *walk) ids(ipc event.IPC) (ids ipcIDs) {
	variable := variableOf(&ipc, e.query.Variable)
	*variable = e.leading
	ids.leading = rowstore.Identify([]byte(records.IPCID), records.AppendIPCID(nil, &ipc))
	*variable = e.partner
	ids.other = rowstore.Identify([]byte(records.IPCID), records.AppendIPCID(nil, &ipc))
	return ids
}

// pairOf is two ipc_ids, of which either may have no run.
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

// variableOf is the place of a variable in a run.
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

// paired is two runs that belong together; none if not found.
type paired struct {
	leading, other side
	found          bool
}

func (p *paired) changed() bool { return p.leading.output != p.other.output }

// walk yields the pairs of runs from a position on, and moves it behind each that
// was taken. It also yields where it has found none yet, so that whoever counts the
// keys can stop.
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

// side is one of two groups that are walked together.
type side struct {
	from   uint64 // what precedes it is done with
	seq    uint64 // of the run that waits for its partner, if ready
	output uint64
	ready  bool
}

// step takes the next version of a side that has no run waiting, and reports
// whether there was one.
func (s *side) step(v *index.View, next func() (rowstore.Version, error, bool), filtered bool) (more bool, err error) {
	if s.ready {
		return true, nil
	}
	version, err, ok := next()
	if err != nil || !ok {
		return false, err
	}
	s.seq, s.from = version.Seq, version.Seq+1
	if !groups.HasFlag(version, groups.AddsCondition) { // no run, or one that only claims the ipc_id
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
