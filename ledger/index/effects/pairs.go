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

// matchedCombinations holds two combinations that differ only in the query's variable: the first has value A,
// the second has value B.
type matchedCombinations struct {
	view         *index.View
	combinations combinations
	inputs       [2]rowstore.Identity // groups of the values A and B if the variable is the input or input_hash; zero otherwise
	any          bool                 // include runs in any state, not only live ones
	none         bool                 // there are no pairs, or the walk already yielded them when it visited the other combination
}

// combinations holds two combinations that differ only in the value of the query's variable, which
// is A in the first and B in the second.
type combinations [2]rowstore.Identity

// match returns the combination at a position of the walk, matched with its partner.
func (e *walk) match(ctx context.Context, at position) (matchedCombinations, error) {
	run, err := records.ReadIPCRecord(ctx, e.view, at.next[at.turn])
	if err != nil {
		return matchedCombinations{}, err
	}
	// Skip runs without a seed if the query requires one. Also skip runs that are in the list because
	// another member, not the query's variable, has the digest.
	if e.query.SeededOnly && run.Seed == nil || isMember(e.query.Variable) && !bytes.Equal(e.valueOf(&run.IPC), e.lists[at.turn].value) {
		return matchedCombinations{none: true}, nil
	}
	p := e.matchOf(e.combinationsOf(run.IPC))
	partner, found, err := p.first(1 - at.turn)
	p.none = !found || partner > at.next[1-at.turn]
	return p, err
}

// first returns the first run of one of the two combinations. of is the combination's index, 0 or
// 1.
func (p *matchedCombinations) first(of int) (seq uint64, found bool, err error) {
	for run, err := range p.runs(of, 0) {
		return run.Seq, err == nil, err
	}
	return 0, false, nil
}

// runs yields the runs at or after seq from in one of the two combinations. of is the combination's index, 0 or 1.
func (p *matchedCombinations) runs(of int, from uint64) iter.Seq2[groups.CombinationRun, error] {
	return groups.CombinationRuns(p.view, p.combinations[of], p.inputs[of], from)
}

// combinationsOf returns the two combinations to which a run would belong if its variable had value A or value
// B.
func (e *walk) combinationsOf(ipc event.IPC) (pair combinations) {
	by := inputIn(e.query.Variable)
	var without rowstore.Identity // stays zero if combinations contain the variable
	if e.isOutsideCombination() {
		without = groups.CombinationID(&ipc, by)
	}
	for i, l := range e.lists {
		if e.isOutsideCombination() {
			pair[i] = groups.CombinationGroupID(without, l.id)
			continue
		}
		e.setValue(&ipc, l.value)
		pair[i] = groups.CombinationID(&ipc, by)
	}
	return pair
}

// matchOf returns a matchedCombinations for two combinations, even if one of them has no runs.
func (e *walk) matchOf(ids combinations) matchedCombinations {
	p := matchedCombinations{view: e.view, combinations: ids, any: e.query.AnyState}
	if e.query.Variable == records.NameInput || e.query.Variable == records.NameInputHash {
		p.inputs = [2]rowstore.Identity{e.lists[0].id, e.lists[1].id}
	}
	return p
}

// isLabel reports whether the variable is a label.
func (e *walk) isLabel() bool { return strings.HasPrefix(e.query.Variable, records.LabelPrefix) }

// isOutsideCombination reports whether the variable is not part of combinations.
func (e *walk) isOutsideCombination() bool {
	return e.isLabel() || e.query.Variable == records.NameOllamaBuildHash
}

// inputIn returns the InputMode that a query about the given variable uses, which selects the part of
// a combination's identity that stands for the input. For the seed, it returns InputModeSeedless,
// because input_hash covers the seed if the payload contains it.
func inputIn(variable string) groups.InputMode {
	switch {
	case variable == seedName || variable == records.NameInput:
		return groups.InputModeSeedless
	case isMember(variable):
		return groups.InputModeMembers
	}
	return groups.InputModeHash
}

// isMember reports whether a variable is the JSON pointer of a payload member.
func isMember(variable string) bool { return strings.HasPrefix(variable, "/") }

// valueOf returns the value of the variable in a run.
func (e *walk) valueOf(r *event.IPC) []byte {
	switch {
	case e.query.Variable == records.NameInput:
		return r.InputIdentity()
	case isMember(e.query.Variable):
		return r.MemberDigests.Find(e.name)
	}
	return *fieldOf(r, e.query.Variable)
}

// setValue sets the variable of a run to value. The run must have the variable.
func (e *walk) setValue(r *event.IPC, value []byte) {
	switch {
	case e.query.Variable == records.NameInput:
		r.SeedlessInputHash = nil
	case isMember(e.query.Variable):
		r.MemberDigests = r.MemberDigests.Replace(e.name, value)
		return
	}
	*fieldOf(r, e.query.Variable) = value
}

// fieldOf returns a pointer to the field of r that holds the variable. If the variable is the
// input, r must not have a seedless hash.
func fieldOf(r *event.IPC, variable string) *[]byte {
	switch variable {
	case records.NameInput, records.NameInputHash:
		return &r.InputHash
	case records.NameSystemPromptHash:
		return &r.SystemPromptHash
	case records.NameModel:
		return &r.Model
	case temperatureName:
		return &r.Temperature
	case maxTokensName:
		return &r.MaxTokens
	case records.NameOllamaBuildHash:
		return &r.OllamaBuildHash
	}
	return &r.Seed
}

// runPair holds two runs, the first with value A and the second with value B. They form a pair only
// if found is set.
type runPair struct {
	cursors [2]cursor
	found   bool
}

func (p *runPair) changed() bool { return p.cursors[0].output != p.cursors[1].output }

// walk yields the pairs of runs at or after the seqs in from, and updates from after each pair.
// While searching, it also yields values in which found is false, so that the caller can stop when
// its budget is spent.
func (p *matchedCombinations) walk(from *[2]uint64) iter.Seq2[runPair, error] {
	return func(yield func(runPair, error) bool) {
		if p.none {
			return
		}
		a, stopA := iter.Pull2(p.runs(0, from[0]))
		defer stopA()
		b, stopB := iter.Pull2(p.runs(1, from[1]))
		defer stopB()
		one := runPair{cursors: [2]cursor{{from: from[0]}, {from: from[1]}}}
		for {
			more, err := one.cursors[0].step(p, a)
			if more && err == nil {
				more, err = one.cursors[1].step(p, b)
			}
			if err != nil {
				yield(one, err)
			}
			if !more || err != nil {
				return
			}
			if one.found = one.cursors[0].ready && one.cursors[1].ready; one.found {
				for i := range one.cursors {
					one.cursors[i].from = one.cursors[i].seq + 1
				}
			}
			if !yield(one, nil) {
				return
			}
			for i := range one.cursors {
				from[i] = one.cursors[i].from
				one.cursors[i].ready = one.cursors[i].ready && !one.found
			}
		}
	}
}

// cursor is the state of the walk over one of the two combinations.
type cursor struct {
	from   uint64 // seq at which the walk continues; earlier versions have been read
	seq    uint64 // seq of the run that waits for its partner; valid only if ready is set
	output uint64
	ready  bool
}

// step reads the next run of the combination, unless a run already waits for its partner. At the
// end of the combination, more is false.
func (c *cursor) step(p *matchedCombinations, next func() (groups.CombinationRun, error, bool)) (more bool, err error) {
	if c.ready {
		return true, nil
	}
	run, err, ok := next()
	if err != nil || !ok {
		return false, err
	}
	c.seq, c.from = run.Seq, run.Seq+1
	if !p.any {
		state, err := records.StateOf(p.view, run.Seq)
		if err != nil || state != string(record.StateLive) {
			return true, err
		}
	}
	c.output, c.from, c.ready = run.OutputSeq, run.Seq, true
	return true, nil
}
