// Package gate decides, for continuous integration, whether a candidate's outputs differ from a
// baseline's by more than chance and by more than a tolerance (docs/ci.md).
package gate

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"colophon/ledger/textdiff"
)

// Run is a run of a model on an input.
type Run struct {
	Seq         uint64 // seq of the run's record
	OutputHash  string // hash of the output
	HasMismatch bool   // the record claims a hash that is wrong
	// Conditions maps variables that may differ between the sets, such as model, to their values.
	Conditions map[string]string

	words    int   // length of the output in words
	features []int // the distinct words of the output, each represented by a number
}

// Case is one input, with its runs in both sets.
type Case struct {
	// Baseline and Candidate hold the runs on the input in each set.
	Baseline, Candidate []Run
	// measured is true once MeasureOutputs has compared the texts of the case.
	measured bool
	// similar holds the similarity of runs a and b at index a*n+b, where n is the number of runs.
	// It is nil if no two runs are in the same set or the sets are compared as wholes.
	similar []float64
}

func (c *Case) runs() []*Run {
	all := make([]*Run, 0, len(c.Baseline)+len(c.Candidate))
	for i := range c.Baseline {
		all = append(all, &c.Baseline[i])
	}
	for i := range c.Candidate {
		all = append(all, &c.Candidate[i])
	}
	return all
}

// ComparedRuns holds the runs that a gate compares.
type ComparedRuns struct {
	// Cases are the inputs that have runs in both sets.
	Cases []*Case
	// ComparesWholeSets is true if the runs are not matched by their inputs. A single case then
	// holds all runs.
	ComparesWholeSets bool
	// UnmatchedInputCounts is the number of inputs that only the baseline has, followed by the
	// number that only the candidate has.
	UnmatchedInputCounts [2]int
	// SkippedRuns is the number of runs that are not compared. If ComparesWholeSets is true, these
	// are the runs whose output has no text. Otherwise, they are the runs beyond MaxRunsPerInput
	// for an input.
	SkippedRuns int
	// RecordCounts is the number of records that the selection of each set matches, and
	// MismatchCounts is the number of those that claim a wrong hash. Both start with the baseline
	// and include records that are not compared, for example because they have no output.
	RecordCounts, MismatchCounts [2]int
	// NoTextsReason says why texts are not compared. If texts are compared, it is empty.
	NoTextsReason string

	numbers map[string]int
	words   []string
}

const (
	// maxFeatures is the maximum number of distinct words of an output that are compared.
	maxFeatures = 2048
	// maxWord is the length in bytes of the longest word that is compared.
	maxWord = 64
)

// features returns the numbers that represent the distinct lower-case words of a text, in ascending order. It
// skips words longer than maxWord.
func (d *ComparedRuns) features(text []byte) []int {
	if d.numbers == nil {
		d.numbers = make(map[string]int)
	}
	seen := make(map[int]struct{})
	for word := range textdiff.Tokens(text) {
		if len(word) > maxWord {
			continue
		}
		lower := bytes.ToLower(word)
		n, known := d.numbers[string(lower)]
		if !known {
			n = len(d.words)
			d.words = append(d.words, string(lower))
			d.numbers[string(lower)] = n
		}
		if seen[n] = struct{}{}; len(seen) == maxFeatures {
			break
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// MeasureOutputs computes the lengths, words, and similarities of a case's outputs. texts holds the
// outputs, starting with those of the baseline. MeasureOutputs is not safe for concurrent use.
func (d *ComparedRuns) MeasureOutputs(c *Case, texts [][]byte) {
	runs := c.runs()
	for i, run := range runs {
		d.measureRun(run, texts[i])
	}
	c.measured = true
	if d.ComparesWholeSets || len(runs) == 2 {
		return
	}
	c.similar = make([]float64, len(runs)*len(runs))
	for a := range runs {
		for b := range a {
			s := 1.0
			if runs[a].OutputHash != runs[b].OutputHash {
				s = textdiff.Compare(texts[a], texts[b]).Similarity
			}
			c.similar[a*len(runs)+b], c.similar[b*len(runs)+a] = s, s
		}
	}
}

// measureRun computes the length and the words of a run's output.
func (d *ComparedRuns) measureRun(run *Run, text []byte) {
	run.words, run.features = int(textdiff.MeasureLength(text).Words), d.features(text)
}

// measured returns the cases whose texts have been compared.
func (d *ComparedRuns) measured() (found []*Case) {
	for _, c := range d.Cases {
		if c.measured {
			found = append(found, c)
		}
	}
	return found
}

// counts returns the number of runs that are compared in each set.
func (d *ComparedRuns) counts() (baseline, candidate int) {
	for _, c := range d.Cases {
		baseline += len(c.Baseline)
		candidate += len(c.Candidate)
	}
	return baseline, candidate
}

// maxValues is the maximum number of values that a report lists for a variable.
const maxValues = 4

// VariableDifference is a variable whose values differ between the sets.
type VariableDifference struct {
	Name      string   `json:"name"`      // name of the variable
	Baseline  []string `json:"baseline"`  // at most maxValues values, followed by "…" if there are more
	Candidate []string `json:"candidate"` // like Baseline
}

// differences returns the variables whose values differ between the sets, sorted by name.
func (d *ComparedRuns) differences() []VariableDifference {
	values := make(map[string]*[2]map[string]bool)
	add := func(side int, runs []Run) {
		for _, run := range runs {
			for name, value := range run.Conditions {
				if values[name] == nil {
					values[name] = &[2]map[string]bool{{}, {}}
				}
				values[name][side][value] = true
			}
		}
	}
	for _, c := range d.Cases {
		add(0, c.Baseline)
		add(1, c.Candidate)
	}
	list := []VariableDifference{}
	for name, sides := range values {
		if !maps.Equal(sides[0], sides[1]) {
			list = append(list, VariableDifference{name, few(sides[0]), few(sides[1])})
		}
	}
	slices.SortFunc(list, func(a, b VariableDifference) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func few(values map[string]bool) []string {
	list := slices.Sorted(maps.Keys(values))
	if len(list) > maxValues {
		return append(list[:maxValues:maxValues], "…")
	}
	return list
}
