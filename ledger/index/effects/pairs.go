package effects

import (
	"context"
	"iter"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// matched is a pair of combinations that differ in one variable only.
type matched struct {
	view           *index.View
	leading, other rowstore.Identity
	any            bool // runs of any state, not only live ones
	none           bool // the other combination has no runs
}

// pair returns the combination of the run at condition, and its partner.
func (e *walk) pair(ctx context.Context, condition uint64) (matched, error) {
	run, err := records.ReadIPCRecord(ctx, e.view, condition)
	if err != nil {
		return matched{}, err
	}
	if e.query.Seeded && run.Seed == nil {
		return matched{none: true}, nil
	}
	return e.pairOf(e.ids(run.IPC))
}

// combinations is a pair of combinations: one with the leading value, and one that differs
// from it in that value only.
type combinations struct{ leading, other rowstore.Identity }

// ids returns the combinations that a run would have with each of the two values.
func (e *walk) ids(ipc event.IPC) (ids combinations) {
	if e.ofLabel() {
		both := groups.Combination(&ipc, groups.ByInputHash)
		return combinations{groups.LabelCombination(both, e.id), groups.LabelCombination(both, e.otherID)}
	}
	by := inputIn(e.query.Variable)
	e.setValue(&ipc, e.leading)
	ids.leading = groups.Combination(&ipc, by)
	e.setValue(&ipc, e.partner)
	ids.other = groups.Combination(&ipc, by)
	return ids
}

// ofLabel reports whether the variable is a label.
func (e *walk) ofLabel() bool { return strings.HasPrefix(e.query.Variable, records.LabelPrefix) }

// pairOf returns a pair of combinations. Either can have no runs.
func (e *walk) pairOf(ids combinations) (matched, error) {
	_, _, found, err := e.view.Newest(groups.Combinations, ids.other[:])
	return matched{e.view, ids.leading, ids.other, e.query.Any, !found}, err
}

// inputIn says how combinations compare the input if another variable differs. If the payload
// contains the seed, input_hash covers the seed.
func inputIn(variable string) groups.By {
	switch {
	case variable == seedName || variable == records.Input:
		return groups.ByInput
	case isMember(variable):
		return groups.ByMembers
	}
	return groups.ByInputHash
}

// isMember reports whether a variable is the JSON pointer of a payload member.
func isMember(variable string) bool { return strings.HasPrefix(variable, "/") }

// valueOf returns the value of the variable in a run.
func (e *walk) valueOf(r *event.IPC) []byte {
	switch {
	case e.query.Variable == records.Input:
		return r.Input()
	case isMember(e.query.Variable):
		return r.Members.Find(e.name)
	}
	return *fieldOf(r, e.query.Variable)
}

// setValue sets the variable of a run, which must have it.
func (e *walk) setValue(r *event.IPC, value []byte) {
	switch {
	case e.query.Variable == records.Input:
		r.SeedlessInputHash = nil
	case isMember(e.query.Variable):
		r.Members = r.Members.Replace(e.name, value)
		return
	}
	*fieldOf(r, e.query.Variable) = value
}

// fieldOf returns a pointer to the variable in a run. If the variable is the input, the run
// must not have a seedless hash.
func fieldOf(r *event.IPC, variable string) *[]byte {
	switch variable {
	case records.Input, records.InputHash:
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

// paired is two runs that form a pair, if found is true.
type paired struct {
	leading, other side
	found          bool
}

func (p *paired) changed() bool { return p.leading.output != p.other.output }

// walk yields the pairs of runs from a position on, and advances the position after each.
// While it searches it also yields with found false, so that the caller can stop when its
// budget is spent.
func (p *matched) walk(at *position) iter.Seq2[paired, error] {
	return func(yield func(paired, error) bool) {
		if p.none {
			return
		}
		a, stopA := iter.Pull2(p.view.Ascend(groups.Combinations, p.leading[:], at.leading))
		defer stopA()
		b, stopB := iter.Pull2(p.view.Ascend(groups.Combinations, p.other[:], at.other))
		defer stopB()
		one := paired{leading: side{from: at.leading}, other: side{from: at.other}}
		for {
			more, err := one.leading.step(p, a)
			if more && err == nil {
				more, err = one.other.step(p, b)
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

// side is the walk over one of the two combinations.
type side struct {
	from   uint64 // the walk continues here; earlier versions have been read
	seq    uint64 // if ready is set, the run that waits for its partner
	output uint64
	ready  bool
}

// step reads the next run, unless one is waiting. more is false at the end of the combination.
func (s *side) step(p *matched, next func() (rowstore.Version, error, bool)) (more bool, err error) {
	if s.ready {
		return true, nil
	}
	version, err, ok := next()
	if err != nil || !ok {
		return false, err
	}
	s.seq, s.from = version.Seq, version.Seq+1
	if !p.any {
		state, err := records.State(p.view, version.Seq)
		if err != nil || state != string(record.Live) {
			return true, err
		}
	}
	if s.output, err = groups.OutputOf(version); err != nil {
		return false, err
	}
	s.from, s.ready = version.Seq, true
	return true, nil
}
