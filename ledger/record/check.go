package record

import (
	"bytes"
	"strings"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// CheckResult is the result of comparing a claimed hash with the recomputed one (spec: Checks).
type CheckResult string

// The results of a check.
const (
	ResultMatch    CheckResult = "match"    // the content has the claimed hash
	ResultMismatch CheckResult = "mismatch" // the content has a different hash; both hashes are recorded
	ResultComputed CheckResult = "computed" // there is content but no claim
	ResultClaimed  CheckResult = "claimed"  // there is a claim but no content
	// ResultInconsistent means that no run can have the verdict, because it breaks the rule named by Field
	// (spec: Verdicts).
	ResultInconsistent CheckResult = "inconsistent"
)

// Check is the result of checking one hash. For a mismatch, both Claimed and Computed are recorded.
// Otherwise, Claimed is recorded only if it differs from the effective hash.
type Check struct {
	Field  string // what was checked, such as "input_hash" or "stage:answer"
	Result CheckResult
	// Claimed and Computed are the values as they appear in the receipt; nil if not recorded.
	Claimed, Computed []byte

	pointer string // JSON pointer to the claim; "" if Field determines it
}

// MetricLabel returns Field as the value of a metric label (spec: Metrics derived from the log). It
// maps Field to one of a fixed set of values, so that clients cannot create an unlimited number of
// label values.
func (c Check) MetricLabel() string {
	if stage, ok := strings.CutPrefix(c.Field, rules.StageCheckPrefix); ok {
		if !rules.IsKnownStage(stage) {
			return rules.StageCheckPrefix + "other"
		}
		return c.Field
	}
	if strings.HasPrefix(c.Field, citationsPrefix) {
		return "chunk_hash"
	}
	if strings.HasPrefix(c.Field, evidencePrefix) {
		return c.Field[strings.LastIndexByte(c.Field, '/')+1:]
	}
	return c.Field
}

// check compares a claim with the recomputed value, adds the result to r.Checks, and returns the
// effective hash. Either value can be nil; if both are, check adds nothing.
func (r *Record) check(name string, claimed, computed []byte) []byte {
	switch {
	case claimed == nil && computed == nil:
		return nil
	case claimed == nil:
		r.Checks = append(r.Checks, Check{Field: name, Result: ResultComputed})
		return computed
	case computed == nil:
		r.Checks = append(r.Checks, Check{Field: name, Result: ResultClaimed})
		return claimed
	case bytes.Equal(claimed, computed):
		r.Checks = append(r.Checks, Check{Field: name, Result: ResultMatch})
	default:
		r.Checks = append(r.Checks, Check{Field: name, Result: ResultMismatch, Claimed: claimed, Computed: computed})
	}
	return computed
}

// Mismatches returns the checks whose result is ResultMismatch.
func (r *Record) Mismatches() []Check {
	var failed []Check
	for _, c := range r.Checks {
		if c.Result == ResultMismatch {
			failed = append(failed, c)
		}
	}
	return failed
}

// ClaimPointer returns the JSON pointer to the claimed hash of a check in the request body.
func (r *Record) ClaimPointer(c Check) string {
	switch {
	case c.pointer != "":
		return c.pointer
	case c.Field == "root":
		return r.pointer + "/dag/root"
	case strings.HasPrefix(c.Field, rules.StageCheckPrefix):
		return r.pointer + "/dag/nodes"
	}
	return r.pointer + "/" + strings.ReplaceAll(c.Field, ".", "/")
}

// EventCheck is the check of one hash in an event (spec: Checks). Claimed and Computed are nil if
// the event omits them or if they are null.
type EventCheck struct {
	Result            CheckResult
	Claimed, Computed []byte
}

func (c *EventCheck) append(w *pyjson.Builder) {
	if c.Result != ResultMismatch && c.Claimed == nil { // the common case
		w.Buf = pyjson.AppendString(append(w.Buf, `{"result":`...), []byte(c.Result))
		w.Buf = append(w.Buf, '}')
		return
	}
	w.BeginSortedObject()
	if c.Result == ResultMismatch {
		w.AddNullableText("claimed", c.Claimed)
		w.AddNullableText("computed", c.Computed)
	} else {
		w.AddText("claimed", c.Claimed)
	}
	w.AddText("result", []byte(c.Result))
	w.EndObject()
}

// NamedCheck is a check and the name of the hash that was checked.
type NamedCheck struct {
	Name string
	EventCheck
}
