package effects

import (
	"bytes"
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

// matched holds two combinations that differ only in the query's variable: the first has value A,
// the second has value B.
type matched struct {
	view         *index.View
	combinations combinations
	any          bool // include runs in any state, not only live ones
	none         bool // there are no pairs, or the walk already yielded them when it visited the other combination
}

// combinations holds a combination with value A, and the combination with value B that is otherwise
// the same.
type combinations [2]rowstore.Identity

// pair returns the combination at a position of the walk, matched with its partner.
func (e *walk) pair(ctx context.Context, at position) (matched, error) {
	run, err := records.ReadIPCRecord(ctx, e.view, at.next[at.turn])
	if err != nil {
		return matched{}, err
	}
	// The list holds every combination with this digest, even if the digest is not that of the
	// query's member.
	if e.query.Seeded && run.Seed == nil || isMember(e.query.Variable) && !bytes.Equal(e.valueOf(&run.IPC), e.lists[at.turn].value) {
		return matched{none: true}, nil
	}
	p := e.pairOf(e.ids(run.IPC))
	partner, found, err := p.first(1 - at.turn)
	p.none = !found || partner > at.next[1-at.turn]
	return p, err
}

// first returns the first run of one of the two combinations. of is the combination's index, 0 or
// 1.
func (p *matched) first(of int) (seq uint64, found bool, err error) {
	for version, err := range p.view.VersionsOldestFirst(groups.Combinations, p.combinations[of][:], 0) {
		return version.Seq, err == nil, err
	}
	return 0, false, nil
}

// ids returns the two combinations to which a run would belong if its variable had value A or value
// B.
func (e *walk) ids(ipc event.IPC) (ids combinations) {
	by := inputIn(e.query.Variable)
	var without rowstore.Identity // stays zero if combinations contain the variable
	if e.isBeside() {
		without = groups.Combination(&ipc, by)
	}
	for i, l := range e.lists {
		if e.isBeside() {
			ids[i] = groups.CombinationWithGroup(without, l.id)
			continue
		}
		e.setValue(&ipc, l.value)
		ids[i] = groups.Combination(&ipc, by)
	}
	return ids
}

// pairOf returns the match of two combinations, either of which may have no runs.
func (e *walk) pairOf(ids combinations) matched {
	return matched{view: e.view, combinations: ids, any: e.query.AnyState}
}

// isLabel reports whether the variable is a label.
func (e *walk) isLabel() bool { return strings.HasPrefix(e.query.Variable, records.LabelPrefix) }

// isBeside reports whether the variable is not part of combinations.
func (e *walk) isBeside() bool { return e.isLabel() || e.query.Variable == records.OllamaBuild }

// inputIn returns how combinations compare the input if they differ in the given variable. The
// choice matters for the seed, because input_hash covers the seed if the payload contains it.
func inputIn(variable string) groups.InputMode {
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
		return r.InputIdentity()
	case isMember(e.query.Variable):
		return r.Members.Find(e.name)
	}
	return *fieldOf(r, e.query.Variable)
}

// setValue sets the variable of a run to value. The run must have the variable.
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

// fieldOf returns a pointer to the field of r that holds the variable. If the variable is the
// input, r must not have a seedless hash.
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
	case records.OllamaBuild:
		return &r.OllamaBuildHash
	}
	return &r.Seed
}

// paired holds two runs, the first with value A and the second with value B. They form a pair only
// if found is set.
type paired struct {
	sides [2]side
	found bool
}

func (p *paired) changed() bool { return p.sides[0].output != p.sides[1].output }

// walk yields the pairs of runs at or after the seqs in from, and updates from after each pair.
// While searching, it also yields values in which found is false, so that the caller can stop when
// its budget is spent.
func (p *matched) walk(from *[2]uint64) iter.Seq2[paired, error] {
	return func(yield func(paired, error) bool) {
		if p.none {
			return
		}
		a, stopA := iter.Pull2(p.view.VersionsOldestFirst(groups.Combinations, p.combinations[0][:], from[0]))
		defer stopA()
		b, stopB := iter.Pull2(p.view.VersionsOldestFirst(groups.Combinations, p.combinations[1][:], from[1]))
		defer stopB()
		one := paired{sides: [2]side{{from: from[0]}, {from: from[1]}}}
		for {
			more, err := one.sides[0].step(p, a)
			if more && err == nil {
				more, err = one.sides[1].step(p, b)
			}
			if err != nil {
				yield(one, err)
			}
			if !more || err != nil {
				return
			}
			if one.found = one.sides[0].ready && one.sides[1].ready; one.found {
				for i := range one.sides {
					one.sides[i].from = one.sides[i].seq + 1
				}
			}
			if !yield(one, nil) {
				return
			}
			for i := range one.sides {
				from[i] = one.sides[i].from
				one.sides[i].ready = one.sides[i].ready && !one.found
			}
		}
	}
}

// side is the state of the walk over one of the two combinations.
type side struct {
	from   uint64 // seq at which the walk continues; earlier versions have been read
	seq    uint64 // the run that waits for its partner, if ready is set
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
