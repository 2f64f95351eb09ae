package groups

import "math"

// Tally is what is known of some runs of a group, taken in the order of the log.
type Tally struct {
	Runs      uint64
	outputs   uint64 // distinct ones
	commonest uint64 // runs of the commonest output
	tied      uint64 // outputs that have so many runs; 0: not known
	flips     uint64 // runs whose output differs from that of the run before
	spread    uint64 // sum of weight over the runs of each output
	// first and last are the seqs of the first and the last run, output is that of
	// the last; nothing when there are no runs.
	first, Last, Output uint64
}

// possible reports whether some runs can have come to be known so.
func (t *Tally) possible() bool {
	return t.Runs == 0 || t.outputs <= t.Runs && t.tied <= t.outputs && t.flips < t.Runs && 0 < t.commonest && t.commonest <= t.Runs && (t.commonest == t.Runs) == (t.outputs == 1)
}

// weightUnit is what a weight is counted in: it is a whole number, so that the
// spread of a group does not depend on how it came about.
const weightUnit = 1 << 30

// weight is what an output with so many runs adds to the spread: n·log₂ n. It
// holds up to half a thousand million runs.
func weight(n uint64) uint64 {
	if n < 2 {
		return 0
	}
	return uint64(math.Round(float64(n) * math.Log2(float64(n)) * weightUnit))
}

// entropy of the outputs, in bits: -Σ c/n·log₂(c/n) over the c runs of each of them.
func (t *Tally) entropy() float64 {
	if t.outputs < 2 {
		return 0
	}
	n := float64(t.Runs)
	return max(0, math.Log2(n)-float64(t.spread)/weightUnit/n)
}

// add takes in a run that follows all others. same is how many of them have its
// output.
func (t *Tally) add(seq, output, same uint64) {
	if t.Runs == 0 {
		t.first = seq
	} else if t.Output != output {
		t.flips++
	}
	t.Last, t.Output = seq, output
	t.join(same)
}

// join counts a run whose output so many others have.
func (t *Tally) join(same uint64) {
	t.Runs++
	if same == 0 {
		t.outputs++
	}
	t.spread += weight(same+1) - weight(same)
	switch {
	case same+1 > t.commonest:
		t.commonest, t.tied = same+1, 1
	case same+1 == t.commonest && t.tied > 0:
		t.tied++
	}
}

// leave counts a run out whose output so many have, itself included. others counts
// the other outputs that have so many; it is asked only where that is not known.
func (t *Tally) leave(same uint64, others func() (uint64, error)) error {
	t.Runs--
	if same == 1 {
		t.outputs--
	}
	t.spread -= weight(same) - weight(same-1)
	if same < t.commonest {
		return nil
	}
	if t.tied == 0 {
		n, err := others()
		if err != nil {
			return err
		}
		t.tied = n + 1
	}
	if t.tied--; t.tied > 0 {
		return nil
	}
	// Its own output has one run less, and no other has more.
	t.commonest--
	if t.commonest == 1 {
		t.tied = t.outputs
	}
	return nil
}
