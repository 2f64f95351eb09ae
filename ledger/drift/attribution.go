// Package drift compares two records and names the cause of their differences (spec:
// Questions). It uses no index.
package drift

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/record/members"
)

// Cause says why the outputs of two runs differ or agree (spec: Causes).
type Cause string

// These are the possible causes. The causes from CauseInput to CauseSeed correspond to the
// variables that determine an ipc_id. CauseOllamaBuild and CauseHostPlatform correspond to
// properties of a run's environment, which are compared only if both runs record them.
const (
	CauseIdentical    Cause = "identical"         // nothing differs, not even the outputs
	CauseInput        Cause = "input"             // only the input and the output differ
	CauseSystemPrompt Cause = "system_prompt"     // only the system prompt and the output differ
	CauseModel        Cause = "model"             // only the model, with or without its digest, and the output differ
	CauseTemperature  Cause = "temperature"       // only the temperature and the output differ
	CauseMaxTokens    Cause = "max_tokens"        // only max_tokens and the output differ
	CauseSeed         Cause = "seed"              // only the seed and the output differ
	CauseOllamaBuild  Cause = "ollama_build_hash" // only the hash of the Ollama build and the output differ
	CauseHostPlatform Cause = "host_platform"     // only the host platform and the output differ
	CauseEvidence     Cause = "evidence"          // only the citation sets of the two runs and the output differ
	CauseConfounded   Cause = "confounded"        // several variables and the output differ
	CauseNoEffect     Cause = "no_effect"         // variables differ, but the outputs agree
	// CauseModelInternal means that only the model's digest and the output differ.
	CauseModelInternal Cause = "model_internal"
	// CauseStochastic means that only the output differs, and the model's digests are known and
	// equal.
	CauseStochastic Cause = "stochastic"
	// CauseUnseeded means that only the output differs, and no seed was given.
	CauseUnseeded Cause = "unseeded"
	// CauseStochasticOrModelInternal means that only the output differs, and that at least one of the
	// model digests is unknown.
	CauseStochasticOrModelInternal Cause = "stochastic_or_model_internal"
	// CauseIncomplete means that one of the two records is not a run.
	CauseIncomplete Cause = "incomplete"
)

// Causes lists every Cause, including CauseIncomplete.
var Causes = [...]Cause{
	CauseIdentical, CauseInput, CauseSystemPrompt, CauseModel, CauseTemperature, CauseMaxTokens, CauseSeed, CauseOllamaBuild, CauseHostPlatform, CauseEvidence,
	CauseConfounded, CauseNoEffect, CauseModelInternal, CauseUnseeded, CauseStochastic, CauseStochasticOrModelInternal, CauseIncomplete,
}

// Difference is a variable that has different values in two runs. ValueA and ValueB are these
// values: hashes and texts as they were recorded, and numbers in canonical form. A null value is
// nil.
type Difference struct {
	Variable       string // one of the variables compared, such as "model" or "model_digest"
	ValueA, ValueB []byte
	// NameA and NameB are readable names for the values. Sentence shows a name instead of the value
	// if the name is not empty.
	NameA, NameB string
	// Members lists the payload members that differ, if the variable is the input. It is empty if
	// either run has no digests of its payload members.
	Members []MemberDifference
}

// MemberDifference is a payload member whose digests differ between two runs. DigestA or DigestB is
// nil if that run's payload lacks the member.
type MemberDifference struct {
	Pointer          string // JSON pointer of the member in the payload
	DigestA, DigestB []byte
}

// RunChange is the result of comparing two runs.
type RunChange struct {
	Cause Cause
	// Differences lists the variables that differ: first the input, then the other variables that
	// determine an ipc_id, then the environment and the evidence. It includes a property of the
	// environment only if both runs record it.
	Differences   []Difference
	OutputChanged bool // whether the outputs of the two runs differ
}

// CitationSetPair identifies the latest citation set of each of two runs, found by run_id (spec:
// Evidence). It is zero if at least one run has no citation set. The sets are then not compared.
type CitationSetPair struct {
	SeqA, SeqB      uint64 // seqs of the sets
	CitationsDiffer bool   // whether the sets cite different chunks, or the same chunk from different sources
}

// CompareRuns compares two runs (spec: Causes). If the model differs, a different model digest
// is listed but does not count as a second variable.
func CompareRuns(a, b *event.IPC, sets CitationSetPair) RunChange {
	c := compare(a, b, sets.CitationsDiffer)
	r := RunChange{Cause: c.cause(a, b), OutputChanged: c.outputChanged}
	valuesA, valuesB := values(a, b)
	valuesA[evidence], valuesB[evidence] = strconv.AppendUint(nil, sets.SeqA, 10), strconv.AppendUint(nil, sets.SeqB, 10)
	for i, differs := range c.differs {
		if differs {
			r.Differences = append(r.Differences, Difference{Variable: variables[i], ValueA: valuesA[i], ValueB: valuesB[i]})
		}
	}
	if c.differs[input] && a.MemberDigests.IsComplete() && b.MemberDigests.IsComplete() {
		r.Differences[0].Members = memberDifferences(a.MemberDigests, b.MemberDigests)
	}
	return r
}

// memberDifferences returns the payload members that differ, sorted by their JSON pointers.
func memberDifferences(a, b members.Digests) (list []MemberDifference) {
	for pointer, digest := range a.All() {
		if other := b.Find(pointer); !bytes.Equal(digest, other) {
			list = append(list, MemberDifference{members.PointerText(pointer), digest, other})
		}
	}
	for pointer, digest := range b.All() {
		if a.Find(pointer) == nil {
			list = append(list, MemberDifference{members.PointerText(pointer), nil, digest})
		}
	}
	slices.SortFunc(list, func(a, b MemberDifference) int { return strings.Compare(a.Pointer, b.Pointer) })
	return list
}

// CauseOf returns the cause that CompareRuns would return, without listing the differences.
// setsDiffer is CitationSetPair.CitationsDiffer.
func CauseOf(a, b *event.IPC, setsDiffer bool) Cause {
	c := compare(a, b, setsDiffer)
	return c.cause(a, b)
}

// variables lists everything that is compared except the output.
var variables = [...]string{
	string(CauseInput), string(CauseSystemPrompt), string(CauseModel), string(CauseTemperature), string(CauseMaxTokens), string(CauseSeed),
	string(CauseOllamaBuild), string(CauseHostPlatform), "model_digest", string(CauseEvidence),
}

// These constants are indexes into variables. From index environment onwards, an unknown value is
// considered equal to any other value. The values of evidence come from a CitationSetPair instead
// of the events of the runs.
const (
	input       = 0
	model       = 2
	environment = 6
	modelDigest = 8
	evidence    = 9
)

// IsEnvironmentProperty reports whether a variable is ollama_build_hash, host_platform, or
// model_digest.
func IsEnvironmentProperty(variable string) bool {
	return slices.Contains(variables[environment:evidence], variable)
}

// values returns the values of two runs in the order of variables. The value of input is
// input_hash if either run lacks its payload or if both have the same input_hash. Otherwise it
// is the hash of the input without the seed.
func values(a, b *event.IPC) (ofA, ofB [len(variables)][]byte) {
	ofA, ofB = valuesOf(a), valuesOf(b)
	if !a.HasPayload || !b.HasPayload || bytes.Equal(a.InputHash, b.InputHash) {
		ofA[input], ofB[input] = a.InputHash, b.InputHash
	}
	return ofA, ofB
}

func valuesOf(r *event.IPC) [len(variables)][]byte {
	return [...][]byte{
		r.InputIdentity(), r.SystemPromptHash, r.Model, r.Temperature, r.MaxTokens, r.Seed,
		r.OllamaBuildHash, r.HostPlatform, r.ModelDigest, nil,
	}
}

// comparison collects the differences between two runs.
type comparison struct {
	differs       [len(variables)]bool
	counted       int // number of differing variables that count towards the cause
	last          int // index of the last variable that counts
	outputChanged bool
}

func compare(a, b *event.IPC, setsDiffer bool) comparison {
	c := comparison{outputChanged: !bytes.Equal(a.OutputHash, b.OutputHash)}
	valuesA, valuesB := values(a, b)
	for i := range variables {
		unknown := valuesA[i] == nil || valuesB[i] == nil
		if unknown && i < environment {
			c.differs[i] = (valuesA[i] == nil) != (valuesB[i] == nil)
		} else {
			c.differs[i] = !unknown && !bytes.Equal(valuesA[i], valuesB[i])
		}
		if c.differs[i] && !(i == modelDigest && c.differs[model]) {
			c.counted++
			c.last = i
		}
	}
	if setsDiffer {
		c.differs[evidence] = true
		c.counted++
		c.last = evidence
	}
	return c
}

// cause determines the cause after the variables of runs a and b have been compared.
func (c *comparison) cause(a, b *event.IPC) Cause {
	switch {
	case !a.IsRun() || !b.IsRun():
		return CauseIncomplete
	case c.counted == 0 && !c.outputChanged:
		return CauseIdentical
	case !c.outputChanged:
		return CauseNoEffect
	case c.counted > 1:
		return CauseConfounded
	case c.counted == 1 && c.last == modelDigest:
		return CauseModelInternal
	case c.counted == 1:
		return Cause(variables[c.last])
	case a.Seed == nil: // b has no seed either, since the seeds agree
		return CauseUnseeded
	case a.ModelDigest != nil && b.ModelDigest != nil:
		return CauseStochastic
	}
	return CauseStochasticOrModelInternal
}
