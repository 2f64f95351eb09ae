package drift

import (
	"bytes"
	"fmt"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/record/rules"
)

// StageChange describes how the stages of run-DAGs a and b differ (spec: Run-DAG comparison).
//
// The n-th stage with a given name in one list corresponds to the n-th stage with that name in the
// other list. The two lists are walked in parallel. A stage differs if only one list contains it,
// if its hashes differ, or if it comes later in b than in a. If each list continues with a stage
// that the other list lacks, the walk takes the stage that comes first in the known shapes. If the
// shapes do not decide this, the walk takes the stage of b. As a result, no stage differs if and
// only if the lists are equal. The roots are then also equal.
type StageChange struct {
	// DifferingStages lists the names of all stages that differ, in the order in which the stages
	// were compared. If several stages with the same name differ, it contains the name once for
	// each of them.
	DifferingStages []string
	StagesOnlyInA   []string // names of stages that b lacks, in the order of a
	StagesOnlyInB   []string // names of stages that a lacks, in the order of b
	StageCount      int      // number of distinct stages of a and b together
	// OutcomeDiffers is true if preflight rejected one of the runs, the other run was answered, and
	// both have the same question. If both runs have a preflight stage, these stages must also be
	// equal. FirstDivergence then returns OutcomeDivergence instead of the name of a stage.
	OutcomeDiffers bool
}

// OutcomeDivergence is the result of FirstDivergence if StageChange.OutcomeDiffers is true (spec: Run-DAG
// comparison).
const OutcomeDivergence = "outcome"

// FirstDivergence returns the name of the first stage at which the runs diverge, or
// OutcomeDivergence. It returns "" if the runs do not diverge. Because the name of a stage can also
// be "", check DifferingStages to tell these cases apart.
func (c *StageChange) FirstDivergence() string {
	switch {
	case c.OutcomeDiffers:
		return OutcomeDivergence
	case len(c.DifferingStages) == 0:
		return ""
	}
	return c.DifferingStages[0]
}

// stageKey identifies a stage in a list by its name and its position among the stages with that
// name.
type stageKey struct {
	name string
	nth  int // counted from 0
}

// CompareStages returns how the stages of run-DAG b differ from those of run-DAG a.
func CompareStages(a, b []event.NamedHash) StageChange {
	if sameNames(a, b) {
		c := StageChange{StageCount: len(a)}
		for i := range a {
			if !bytes.Equal(a[i].Hash, b[i].Hash) {
				c.DifferingStages = append(c.DifferingStages, string(a[i].Name))
			}
		}
		return c
	}
	w := stageWalk{a: stageKeys(a), b: stageKeys(b)}
	w.inA, w.inB = places(w.a), places(w.b)
	c := w.compare(a, b)
	c.OutcomeDiffers = isRejected(a) && isAnswered(b) && agreeBefore(a, b) || isAnswered(a) && isRejected(b) && agreeBefore(b, a)
	return c
}

func isRejected(stages []event.NamedHash) bool {
	return len(stages) == 3 && rules.RunShape(stageNames(stages)) == rules.ShapeReject
}

func isAnswered(stages []event.NamedHash) bool {
	shape := rules.RunShape(stageNames(stages))
	return shape == rules.ShapeQuote || shape == rules.ShapePointer
}

// agreeBefore reports whether a rejected run and an answered run have the same question and, if the
// answered run has a preflight stage, the same preflight.
func agreeBefore(rejected, answered []event.NamedHash) bool {
	same := func(i int) bool { return bytes.Equal(rejected[i].Hash, answered[i].Hash) }
	return same(0) && (string(answered[1].Name) != rules.PreflightStage || same(1))
}

func stageNames(stages []event.NamedHash) []string {
	names := make([]string, len(stages))
	for i, s := range stages {
		names[i] = string(s.Name)
	}
	return names
}

func sameNames(a, b []event.NamedHash) bool {
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

func stageKeys(stages []event.NamedHash) []stageKey {
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

// stageWalk is the state of a walk over two lists of stages.
type stageWalk struct {
	a, b     []stageKey
	inA, inB map[stageKey]int
}

func (w *stageWalk) compare(a, b []event.NamedHash) StageChange {
	c := StageChange{StageCount: len(a)}
	i, j := 0, 0
	for i < len(w.a) || j < len(w.b) {
		switch {
		case i < len(w.a) && j < len(w.b) && w.a[i] == w.b[j]:
			if !bytes.Equal(a[i].Hash, b[j].Hash) {
				c.DifferingStages = append(c.DifferingStages, w.a[i].name)
			}
			i, j = i+1, j+1
		case j < len(w.b) && !has(w.inA, w.b[j]) && !w.earlierInA(i, j):
			c.DifferingStages, c.StagesOnlyInB = append(c.DifferingStages, w.b[j].name), append(c.StagesOnlyInB, w.b[j].name)
			c.StageCount++
			j++
		case i < len(w.a) && !has(w.inB, w.a[i]):
			c.DifferingStages, c.StagesOnlyInA = append(c.DifferingStages, w.a[i].name), append(c.StagesOnlyInA, w.a[i].name)
			i++
		case j < len(w.b) && w.inA[w.b[j]] < i:
			j++ // already listed as differing when the walk passed it in a
		default:
			c.DifferingStages = append(c.DifferingStages, w.a[i].name)
			i++
		}
	}
	return c
}

// shapeOrder maps a stage to its position in the known shapes (spec: Run shapes). No shape has
// two stages with the same position.
var shapeOrder = map[string]int{
	"question": 1, "preflight": 2, "retrieval": 3, "context": 4, "evidence_map": 4, "prompt": 5, "answer": 6, "raw_answer": 6,
	"parsed_claim_lattice": 7, "verify": 8, "render": 9, "final_label": 10,
}

// earlierInA reports whether b lacks the stage at position i of a, and this stage precedes the
// stage at position j of b in the known shapes.
func (w *stageWalk) earlierInA(i, j int) bool {
	if i == len(w.a) || has(w.inB, w.a[i]) {
		return false
	}
	placeA, placeB := shapeOrder[w.a[i].name], shapeOrder[w.b[j].name]
	return placeA > 0 && placeA < placeB
}

// DifferingDimensions returns the names of the cache-key dimensions that differ between run-DAGs a
// and b, and whether both have dimensions. Dimensions of a come first, in the order of a, followed
// by those that only b contains. A null dimension is equal to an absent one.
func DifferingDimensions(a, b []event.NamedHash) ([]string, bool) {
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

// The causes of a divergence that are not dimensions of the cache key (spec: Causes of a
// divergence).
const (
	StageCauseIdentical   = "identical"    // no stage differs
	StageCauseConfounded  = "confounded"   // stages and several dimensions of the cache key differ
	StageCauseNoDimension = "no_dimension" // stages differ, but no dimension of the cache key does
	StageCauseUnknown     = "unknown"      // stages differ, and at least one run-DAG has no cache-key dimensions
)

// Cause returns the cause of the divergence: the name of the dimension if exactly one differs, and
// otherwise one of StageCauseIdentical, StageCauseConfounded, StageCauseNoDimension, and
// StageCauseUnknown. The arguments are the results of DifferingDimensions.
func (c *StageChange) Cause(dimensions []string, known bool) string {
	switch {
	case len(c.DifferingStages) == 0:
		return StageCauseIdentical
	case !known:
		return StageCauseUnknown
	case len(dimensions) == 0:
		return StageCauseNoDimension
	case len(dimensions) == 1:
		return dimensions[0]
	}
	return StageCauseConfounded
}

func dimensionOf(dimensions []event.NamedHash, name []byte) []byte {
	for _, d := range dimensions {
		if bytes.Equal(d.Name, name) {
			return d.Hash
		}
	}
	return nil
}

func named(dimensions []event.NamedHash, name []byte) bool {
	for _, d := range dimensions {
		if bytes.Equal(d.Name, name) {
			return true
		}
	}
	return false
}

// Sentence returns an English sentence about the difference. The arguments are the results of
// DifferingDimensions.
func (c *StageChange) Sentence(dimensions []string, known bool) string {
	var s strings.Builder
	switch n := len(c.DifferingStages); {
	case c.OutcomeDiffers:
		fmt.Fprintf(&s, "Preflight rejected one run, but the other was answered; %d of %d stages differ", n, c.StageCount)
	case n == 0:
		s.WriteString("No stage differs")
	case n == 1:
		fmt.Fprintf(&s, "Of %d stages, only %q differs", c.StageCount, c.DifferingStages[0])
	default:
		fmt.Fprintf(&s, "The runs diverge first at %q; %d of %d stages differ", c.DifferingStages[0], len(c.DifferingStages), c.StageCount)
	}
	switch {
	case !known:
		s.WriteString("; at least one run has no cache dimensions.")
	case len(dimensions) == 0:
		s.WriteString("; the cache dimensions agree.")
	default:
		s.WriteString("; these cache dimensions differ: " + strings.Join(dimensions, ", ") + ".")
	}
	return s.String()
}

// UnknownFailureStage is the failure stage of a run-DAG without inputs, because it is then unknown
// whether the run failed. It is not used if the stages show that preflight rejected the run.
const UnknownFailureStage = "unknown"

// FailureStage returns the failure stage that a run-DAG event records, or UnknownFailureStage. It
// returns nil if the run did not fail.
func FailureStage(dag *event.DAG) []byte {
	known := dag.QuoteCount != nil || string(dag.Shape) == rules.ShapeReject
	if dag.FailureStage == nil && !known {
		return []byte(UnknownFailureStage)
	}
	return dag.FailureStage
}

// AnswerHash returns the hash of a run-DAG's answer: the hash of its first stage named answer
// or, if there is none, of its first stage named render. It returns nil if the run-DAG has
// neither stage.
func AnswerHash(stages []event.NamedHash) (hash []byte) {
	for _, s := range stages {
		switch {
		case string(s.Name) == "answer":
			return s.Hash
		case string(s.Name) == "render" && hash == nil:
			hash = s.Hash
		}
	}
	return hash
}
