package record

import (
	"bytes"
	"strings"

	"colophon/ledger/record/rules"
)

// Result says how a claimed hash stands to the recomputed one (spec: Checks).
type Result string

// The four results.
const (
	Match    Result = "match"    // content and claim agree
	Mismatch Result = "mismatch" // they differ; both values are recorded
	Computed Result = "computed" // content, no claim
	Claimed  Result = "claimed"  // claim, no content
)

// Check is the outcome for one hash field. The values are recorded for a
// mismatch and, where the effective hash does not show it, for a claim.
type Check struct {
	Field  string
	Result Result
	// Claimed and Computed are as in the receipt; nil when there is none.
	Claimed, Computed []byte

	pointer string // where the claim stands, if its field does not say
}

// MetricField is the field's name with the unbounded parts taken out, for use
// as a metric label (spec: Metrics derived from the log).
func (c Check) MetricField() string {
	if stage, ok := strings.CutPrefix(c.Field, rules.StagePrefix); ok {
		if !rules.IsKnownStage(stage) {
			return rules.StagePrefix + "other"
		}
		return c.Field
	}
	if strings.HasPrefix(c.Field, citationsPrefix) {
		return "chunk_hash"
	}
	return c.Field
}

// check compares a claim with the recomputed value, either nil when absent,
// notes the outcome and returns the effective hash.
func (r *Record) check(name string, claimed, computed []byte) []byte {
	switch {
	case claimed == nil && computed == nil:
		return nil
	case claimed == nil:
		r.Checks = append(r.Checks, Check{Field: name, Result: Computed})
		return computed
	case computed == nil:
		r.Checks = append(r.Checks, Check{Field: name, Result: Claimed})
		return claimed
	case bytes.Equal(claimed, computed):
		r.Checks = append(r.Checks, Check{Field: name, Result: Match})
	default:
		r.Checks = append(r.Checks, Check{Field: name, Result: Mismatch, Claimed: claimed, Computed: computed})
	}
	return computed
}

// Mismatches are the checks that failed.
func (r *Record) Mismatches() []Check {
	var failed []Check
	for _, c := range r.Checks {
		if c.Result == Mismatch {
			failed = append(failed, c)
		}
	}
	return failed
}

// PointerOf is the place of the request where the claim of a check stands, as a
// JSON pointer.
func (r *Record) PointerOf(c Check) string {
	switch {
	case c.pointer != "":
		return c.pointer
	case c.Field == "root":
		return r.pointer + "/dag/root"
	case strings.HasPrefix(c.Field, rules.StagePrefix):
		return r.pointer + "/dag/nodes"
	}
	return r.pointer + "/" + strings.ReplaceAll(c.Field, ".", "/")
}
