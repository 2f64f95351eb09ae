package groups

import "math"

// Tally counts all runs of a group, or only the live ones, in the order of the log.
type Tally struct {
	Runs       uint64 // number of runs
	outputs    uint64 // number of distinct outputs
	mostCommon uint64 // number of runs with the most common output
	tied       uint64 // number of outputs tied for the most runs; 0 if unknown
	flips      uint64 // number of runs whose output differs from that of the previous run
	spread     uint64 // sum of weight(n) over the outputs, where n is the output's number of runs
	// LastSeq is the seq of the last run, and first is the seq of the first run. LastOutputSeq
	// identifies the output of the last run by the first run in the ledger with that output. All
	// three are 0 if there are no runs.
	first, LastSeq, LastOutputSeq uint64
}

// isConsistent reports whether there is a sequence of runs that has these counts.
func (t *Tally) isConsistent() bool {
	return t.Runs == 0 || t.outputs <= t.Runs && t.tied <= t.outputs && t.flips < t.Runs && 0 < t.mostCommon && t.mostCommon <= t.Runs && (t.mostCommon == t.Runs) == (t.outputs == 1)
}

// weightUnit scales weights so that they can be rounded to whole numbers. Their sum then does not
// depend on the order of additions.
const weightUnit = 1 << 30

// weight returns the amount that an output with n runs adds to the spread: n·log₂ n, scaled by
// weightUnit. The sum does not overflow for up to 500 million runs.
func weight(n uint64) uint64 {
	if n < 2 {
		return 0
	}
	return uint64(math.Round(float64(n) * math.Log2(float64(n)) * weightUnit))
}

// entropy returns the entropy of the outputs in bits: the sum of -c/n·log₂(c/n) over all
// outputs, where c is the number of runs with the output and n the number of all runs.
func (t *Tally) entropy() float64 {
	if t.outputs < 2 {
		return 0
	}
	n := float64(t.Runs)
	return max(0, math.Log2(n)-float64(t.spread)/weightUnit/n)
}

// add adds a run that comes after all others. same is the number of other runs with the same
// output.
func (t *Tally) add(seq, output, same uint64) {
	if t.Runs == 0 {
		t.first = seq
	} else if t.LastOutputSeq != output {
		t.flips++
	}
	t.LastSeq, t.LastOutputSeq = seq, output
	t.join(same)
}

// join includes a run in the counts. same is the number of other runs with the same output.
func (t *Tally) join(same uint64) {
	t.Runs++
	if same == 0 {
		t.outputs++
	}
	t.spread += weight(same+1) - weight(same)
	switch {
	case same+1 > t.mostCommon:
		t.mostCommon, t.tied = same+1, 1
	case same+1 == t.mostCommon && t.tied > 0:
		t.tied++
	}
}

// leave removes a run from the counts. same is the number of runs with its output, including the
// run itself. others returns how many other outputs have the same number of runs. leave calls
// others only if tied is unknown.
func (t *Tally) leave(same uint64, others func() (uint64, error)) error {
	t.Runs--
	if same == 1 {
		t.outputs--
	}
	t.spread -= weight(same) - weight(same-1)
	if same < t.mostCommon {
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
	// The run's output now has one fewer run, but still at least as many as any other output.
	t.mostCommon--
	if t.mostCommon == 1 {
		t.tied = t.outputs
	}
	return nil
}
