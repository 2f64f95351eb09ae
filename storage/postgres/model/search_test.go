package model

import (
	"fmt"
	"strings"
	"testing"
)

// These constants limit the numbers of entries and mishaps in a search.
const (
	maxEntries = 2
	maxMishaps = 2 // a search with 3 mishaps takes minutes
)

// search visits all reachable states in breadth-first order, until a step violates an invariant. It
// returns that invariant, the steps up to and including the violating one, and the number of states
// reached so far.
func search(v variant, mishaps uint8) (violated string, trace []string, states int) {
	first := state{mishaps: mishaps}
	reached := []state{first}
	from := []int32{0}
	seen := map[state]struct{}{first: {}}
	for at := 0; at < len(reached); at++ {
		var bad state
		v.steps(reached[at], func(to state, broken, _ string, _ ...any) {
			if broken != "" && violated == "" {
				violated, bad = broken, to
				bad.sort()
			}
			to.sort()
			if _, known := seen[to]; !known {
				seen[to] = struct{}{}
				reached, from = append(reached, to), append(from, int32(at))
			}
		})
		if violated == "" {
			continue
		}
		for to := bad; ; at = int(from[at]) {
			trace = append([]string{v.describe(reached[at], to)}, trace...)
			if to = reached[at]; at == 0 {
				return violated, trace, len(reached)
			}
		}
	}
	return "", nil, len(reached)
}

// describe returns a description of the step from one state to the next.
func (v variant) describe(from, to state) (text string) {
	v.steps(from, func(next state, _, format string, arguments ...any) {
		if next.sort(); next == to {
			text = fmt.Sprintf(format, arguments...)
		}
	})
	return text
}

// The protocol of storage/postgres preserves all invariants: no receipt is lost, no two published
// checkpoints are inconsistent, and no earlier epoch commits after a later one.
func TestProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		variant variant
		mishaps uint8
	}{
		"the epoch is raised, and the same transaction returns the head": {variant{}, maxMishaps},
		"the head is read at the same node afterwards":                   {variant{separate: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				c.mishaps = 1
			}
			violated, trace, states := search(c.variant, c.mishaps)
			t.Logf("visited %d states", states)
			if violated != "" {
				t.Errorf("%s\n%s", violated, strings.Join(trace, "\n"))
			}
		})
	}
}

// Each part of the protocol is necessary: without it, an invariant is violated.
func TestParts(t *testing.T) {
	const lost, inconsistent, late = "the promoted standby has log", "are inconsistent", "commits after epoch"
	for name, c := range map[string]struct {
		variant variant
		want    string
	}{
		"the epoch is not raised":                                       {variant{noBump: true}, lost},
		"the head is read before raising the epoch is acknowledged":     {variant{early: true}, lost},
		"the head is read at any node":                                  {variant{separate: true, anywhere: true}, lost},
		"the epoch of the head is not compared":                         {variant{separate: true, epochUnread: true}, inconsistent},
		"a commit does not require the epoch":                           {variant{epochUnchecked: true}, late},
		"a warning in the answer to a commit counts as acknowledgement": {variant{warningIsFine: true}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			violated, trace, states := search(c.variant, maxMishaps)
			t.Logf("visited %d states: %s", states, violated)
			for i, step := range trace {
				t.Logf("%2d. %s", i+1, step)
			}
			if !strings.Contains(violated, c.want) {
				t.Errorf("found %q, expected %q", violated, c.want)
			}
		})
	}
}
