package records

import (
	"bytes"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/index/counters"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// mismatchName is the name under which the mismatched fields of a record are indexed. The values
// equal the labels of the mismatch metric, so that the records that the metric counts can be looked
// up. mismatched is the flag of a record with at least one mismatch (spec: Checks).
const (
	mismatchName = "mismatch"
	mismatched   = "mismatch"
)

// IsCheckedField reports whether name can be the "field" label of a hash check in the metrics, and
// so the name of a mismatched field in the index.
func IsCheckedField(name string) bool {
	return name == counters.OtherLabel || counters.FieldLabel([]byte(name)) == name
}

// A verdict can break rules (spec: Verdicts). inconsistentName is the name under which the broken
// rules are indexed. inconsistent is the flag of a run-DAG whose verdict breaks at least one rule.
const (
	inconsistentName = "inconsistent"
	inconsistent     = "inconsistent"
)

// addMismatches adds the fields with a mismatch, the rules that a verdict breaks, and the
// corresponding flags. It must be called last, because PostingCache does not cache these values.
func (v *ValueCollector) addMismatches(e *event.Event) {
	if !e.MayHaveCheck(record.ResultMismatch) && !e.MayHaveCheck(record.ResultInconsistent) {
		return
	}
	first := len(v.list)
	// Skip duplicates, because a citation set can repeat a field hundreds of times.
	add := func(name string, value []byte) {
		if p := postingOf(name, value); !slices.Contains(v.list[first:], p) {
			v.list = append(v.list, p)
		}
	}
	for name, check := range e.Checks.Members() {
		switch record.CheckResult(check.Member("result").Text()) {
		case record.ResultMismatch:
			add(mismatchName, []byte(counters.FieldLabel(name.Text())))
			add(NameFlag, []byte(mismatched))
		case record.ResultInconsistent:
			if rule, is := bytes.CutPrefix(name.Text(), []byte(rules.VerdictCheckPrefix)); is {
				add(inconsistentName, rule)
				add(NameFlag, []byte(inconsistent))
			}
		}
	}
}
