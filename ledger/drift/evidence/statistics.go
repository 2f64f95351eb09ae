package evidence

import "math"

// MeanDifference is the candidate's value minus the baseline's value, averaged over the inputs. Each
// input has the same weight, regardless of how many runs it has.
type MeanDifference struct {
	inputs []RunCounts
	values [][]float64 // indexed by input and run
	upward bool        // only an increase is a finding
}

// NewMeanDifference returns the statistic for values, which are indexed by input and run. If upward is
// true, only an increase counts as a finding.
func NewMeanDifference(inputs []RunCounts, values [][]float64, upward bool) *MeanDifference {
	return &MeanDifference{inputs, values, upward}
}

// Value implements Statistic.
func (d *MeanDifference) Value(s Split) float64 {
	sum := 0.0
	for i := range d.inputs {
		sum += d.differenceFor(i, s[i])
	}
	if mean := sum / float64(len(d.inputs)); d.upward {
		return mean
	}
	return math.Abs(sum / float64(len(d.inputs)))
}

// differenceFor returns the candidate's mean minus the baseline's mean for one input.
func (d *MeanDifference) differenceFor(i int, split []int) float64 {
	var sums [2]float64
	for at, run := range split {
		side := 0
		if at >= d.inputs[i].Baseline {
			side = 1
		}
		sums[side] += d.values[i][run]
	}
	return sums[1]/float64(d.inputs[i].Candidate) - sums[0]/float64(d.inputs[i].Baseline)
}

// InputDifferences returns, for each input, the candidate's mean minus the baseline's mean in the
// observed split.
func (d *MeanDifference) InputDifferences() []float64 {
	each := make([]float64, len(d.inputs))
	for i, split := range observed(d.inputs) {
		each[i] = d.differenceFor(i, split)
	}
	return each
}

// Inputs implements Statistic.
func (d *MeanDifference) Inputs() []RunCounts { return d.inputs }

func (d *MeanDifference) logSplits(i RunCounts) float64 { return i.logSplits() }

func (d *MeanDifference) sides() float64 {
	if d.upward {
		return 1
	}
	return 2
}

// VariesBySplit reports whether the runs of at least one input have different values. If not, the
// statistic is the same for every split.
func (d *MeanDifference) VariesBySplit() bool {
	for _, values := range d.values {
		for _, value := range values {
			if value != values[0] {
				return true
			}
		}
	}
	return false
}

// ExcessDistance measures how much farther apart runs in different sets are than runs in the same
// set. For each input, it subtracts the mean distance between runs in the same set from the mean
// distance between runs in different sets. It then averages over the inputs. Distances in the same
// set measure chance variation, so only inputs with at least two runs in one of the sets are used.
// The statistic is half the energy distance of Székely and Rizzo.
type ExcessDistance struct {
	inputs    []RunCounts
	distances [][]float64 // indexed by input; the distance between runs a and b is at a*runs+b
	counted   []RunCounts // the inputs that have repeated runs
}

// NewExcessDistance returns the statistic for the distances between the runs of each input. distance must
// be symmetric, and is not called for inputs without repeated runs.
func NewExcessDistance(inputs []RunCounts, distance func(input, a, b int) float64) *ExcessDistance {
	e := &ExcessDistance{inputs: inputs, distances: make([][]float64, len(inputs))}
	for i, input := range inputs {
		if !repeats(input) {
			continue
		}
		e.counted = append(e.counted, input)
		n := input.runs()
		e.distances[i] = make([]float64, n*n)
		for a := range n {
			for b := range a {
				d := distance(i, a, b)
				e.distances[i][a*n+b], e.distances[i][b*n+a] = d, d
			}
		}
	}
	return e
}

func repeats(i RunCounts) bool {
	return i.Baseline > 0 && i.Candidate > 0 && i.runs() > 2
}

// Value implements Statistic.
func (e *ExcessDistance) Value(s Split) float64 {
	sum := 0.0
	for i := range e.inputs {
		if e.distances[i] != nil {
			between, within := e.distancesFor(i, s[i])
			sum += between - within
		}
	}
	return sum / float64(max(1, len(e.counted)))
}

// distancesFor returns two mean distances for one input: between runs in different sets, and between runs in
// the same set.
func (e *ExcessDistance) distancesFor(i int, split []int) (between, within float64) {
	input, n, distances := e.inputs[i], e.inputs[i].runs(), e.distances[i]
	sides := [2][]int{split[:input.Baseline], split[input.Baseline:]}
	for _, a := range sides[0] {
		for _, b := range sides[1] {
			between += distances[a*n+b]
		}
	}
	between /= float64(input.Baseline * input.Candidate)
	repeated := 0.0
	for _, side := range sides {
		if len(side) < 2 {
			continue
		}
		sum := 0.0
		for at, a := range side {
			for _, b := range side[:at] {
				sum += distances[a*n+b]
			}
		}
		within += sum / float64(len(side)*(len(side)-1)/2)
		repeated++
	}
	return between, within / repeated
}

// MeanDistances returns the mean distance between runs in different sets and the mean distance between runs
// in the same set, for the observed split. Both are averaged over the inputs that have repeated
// runs. each contains the excess of each of these inputs.
func (e *ExcessDistance) MeanDistances() (between, within float64, each []float64) {
	for i, split := range observed(e.inputs) {
		if e.distances[i] == nil {
			continue
		}
		b, w := e.distancesFor(i, split)
		between, within, each = between+b, within+w, append(each, b-w)
	}
	n := float64(max(1, len(each)))
	return between / n, within / n, each
}

// Inputs implements Statistic.
func (e *ExcessDistance) Inputs() []RunCounts { return e.counted }

// logSplits counts a split and its mirror image once if both sets have the same size, because
// exchanging the sets does not change the statistic.
func (e *ExcessDistance) logSplits(i RunCounts) float64 {
	if i.Baseline == i.Candidate {
		return i.logSplits() - math.Ln2
	}
	return i.logSplits()
}

func (e *ExcessDistance) sides() float64 { return 1 }

// VariesBySplit reports whether the distances between the runs of at least one input differ. If not, the
// statistic is the same for every split.
func (e *ExcessDistance) VariesBySplit() bool {
	for i, distances := range e.distances {
		n := e.inputs[i].runs()
		for a := range len(distances) / max(1, n) {
			for b := range a {
				if distances[a*n+b] != distances[n] { // the distance between runs 1 and 0
					return true
				}
			}
		}
	}
	return false
}
