package drift

import (
	"bytes"
	"fmt"
	"strings"

	"colophon/ledger/event"
)

// StageChange is how the stages of a run-DAG b stand to those of a (spec: Run-DAG comparison).
//
// Two stages are the same one when they have one name, and each is the n-th of that
// name in its list. Both lists are walked at once. What differs is a stage that only one
// list has (where both go on with such a stage, the one that the known shapes have
// earlier comes first, else that of b), a stage that has another hash, and one that b has
// later than a does. So nothing differs exactly where the lists, and with them the roots,
// are equal.
type StageChange struct {
	// Differing are the names of all stages that differ, in the order of the walk; a
	// name comes as often as stages of that name differ.
	Differing []string
	OnlyInA   []string
	OnlyInB   []string
	Stages    int // distinct ones of both together
}

// First is the first diverging stage, empty if there is none; a name may be empty too:
// Differing says.
func (c *StageChange) First() string {
	if len(c.Differing) == 0 {
		return ""
	}
	return c.Differing[0]
}

// stageKey tells stages of one name apart.
type stageKey struct {
	name string
	nth  int // from 0
}

// CompareStages compares the stages of two run-DAGs.
func CompareStages(a, b []event.Stage) StageChange {
	if sameNames(a, b) {
		c := StageChange{Stages: len(a)}
		for i := range a {
			if !bytes.Equal(a[i].Hash, b[i].Hash) {
				c.Differing = append(c.Differing, string(a[i].Name))
			}
		}
		return c
	}
	w := stageWalk{a: stageKeys(a), b: stageKeys(b)}
	w.inA, w.inB = places(w.a), places(w.b)
	return w.compare(a, b)
}

func sameNames(a, b []event.Stage) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].Name, b[i].Name) {
			return false
		}
	}
	return true
}

func stageKeys(stages []event.Stage) []stageKey {
	met := make(map[string]int, len(stages))
	keys := make([]stageKey, len(stages))
	for i, s := range stages {
		name := string(s.Name)
		keys[i] = stageKey{name, met[name]}
		met[name]++
	}
	return keys
}

func places(keys []stageKey) map[stageKey]int {
	m := make(map[stageKey]int, len(keys))
	for i, k := range keys {
		m[k] = i
	}
	return m
}

// stageWalk walks two lists of stages at once.
type stageWalk struct {
	a, b     []stageKey
	inA, inB map[stageKey]int
}

func (w *stageWalk) compare(a, b []event.Stage) StageChange {
	c := StageChange{Stages: len(a)}
	i, j := 0, 0
	for i < len(w.a) || j < len(w.b) {
		switch {
		case i < len(w.a) && j < len(w.b) && w.a[i] == w.b[j]:
			if !bytes.Equal(a[i].Hash, b[j].Hash) {
				c.Differing = append(c.Differing, w.a[i].name)
			}
			i, j = i+1, j+1
		case j < len(w.b) && !has(w.inA, w.b[j]) && !w.earlierInA(i, j):
			c.Differing, c.OnlyInB = append(c.Differing, w.b[j].name), append(c.OnlyInB, w.b[j].name)
			c.Stages++
			j++
		case i < len(w.a) && !has(w.inB, w.a[i]):
			c.Differing, c.OnlyInA = append(c.Differing, w.a[i].name), append(c.OnlyInA, w.a[i].name)
			i++
		case j < len(w.b) && w.inA[w.b[j]] < i:
			j++ // it came earlier in a, and differs
		default:
			c.Differing = append(c.Differing, w.a[i].name)
			i++
		}
	}
	return c
}

// shapeOrder is where the known shapes have a stage (spec: Run shapes); of the stages that share
// a place no shape has two.
var shapeOrder = map[string]int{
	"question": 1, "preflight": 2, "retrieval": 3, "context": 4, "evidence_map": 4, "prompt": 5, "answer": 6, "raw_answer": 6,
	"parsed_claim_lattice": 7, "verify": 8, "render": 9, "final_label": 10,
}

// earlierInA reports whether a goes on, at i, with a stage that b does not have, and
// that the known shapes have before the one that b goes on with at j.
func (w *stageWalk) earlierInA(i, j int) bool {
	if i == len(w.a) || has(w.inB, w.a[i]) {
		return false
	}
	placeA, placeB := shapeOrder[w.a[i].name], shapeOrder[w.b[j].name]
	return placeA > 0 && placeA < placeB
}

// CompareDimensions names the dimensions of the cache key that differ, in their order;
// null and absent are equal. False where either run-DAG has no dimensions.
func CompareDimensions(a, b []event.Stage) ([]string, bool) {
	if len(a) == 0 || len(b) == 0 {
		return nil, false
	}
	var differing []string
	for _, d := range a {
		if !bytes.Equal(d.Hash, dimensionOf(b, d.Name)) {
			differing = append(differing, string(d.Name))
		}
	}
	for _, d := range b {
		if d.Hash != nil && !named(a, d.Name) {
			differing = append(differing, string(d.Name))
		}
	}
	return differing, true
}

func dimensionOf(dimensions []event.Stage, name []byte) []byte {
	for _, d := range dimensions {
		if bytes.Equal(d.Name, name) {
			return d.Hash
		}
	}
	return nil
}

func named(dimensions []event.Stage, name []byte) bool {
	for _, d := range dimensions {
		if bytes.Equal(d.Name, name) {
			return true
		}
	}
	return false
}

// Sentence says in words what differs. dimensions are what CompareDimensions says.
func (c *StageChange) Sentence(dimensions []string, known bool) string {
	var s strings.Builder
	switch len(c.Differing) {
	case 0:
		s.WriteString("No stage differs")
	case 1:
		fmt.Fprintf(&s, "Of %d stages only %q differs", c.Stages, c.Differing[0])
	default:
		fmt.Fprintf(&s, "The runs diverge first at %q; %d of %d stages differ", c.Differing[0], len(c.Differing), c.Stages)
	}
	switch {
	case !known:
		s.WriteString("; not both runs have cache dimensions.")
	case len(dimensions) == 0:
		s.WriteString("; the cache dimensions agree.")
	default:
		s.WriteString("; of the cache dimensions these differ: " + strings.Join(dimensions, ", ") + ".")
	}
	return s.String()
}
