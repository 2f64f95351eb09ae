package rundags

import (
	"fmt"
	"slices"

	"colophon/ledger/event"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// What failures are counted by. Every text that this build does not know is other, the
// last of each; the first stands for null.
var (
	failureStages = [...]string{noStage, "retrieval", "context", "answer", counters.Other}
	auditModes    = [...]string{noStage, "STRICT", "HYBRID", "UNGROUNDED", counters.Other}
	runShapes     = [...]string{noStage, "quote", "pointer", "reject", "unrecognised", counters.Other}
)

// outcome is a failure_stage, an audit_mode and a shape, by their numbers: a row of
// failureCounts.
type outcome [3]byte

func outcomeOf(dag *event.DAG) outcome {
	return outcome{
		numberOf(failureStages[:], dag.FailureStage), numberOf(auditModes[:], dag.AuditMode), numberOf(runShapes[:], dag.Shape),
	}
}

// numberOf is where a text stands in a list whose first is for nil and whose last is
// for what is not in it.
func numberOf(list []string, text []byte) byte {
	if text == nil {
		return 0
	}
	last := len(list) - 1
	if i := slices.Index(list[1:last], string(text)); i >= 0 {
		return byte(1 + i)
	}
	return byte(last)
}

func decodeOutcome(row []byte) (outcome, error) {
	if len(row) != len(outcome{}) || int(row[0]) >= len(failureStages) || int(row[1]) >= len(auditModes) || int(row[2]) >= len(runShapes) {
		return outcome{}, fmt.Errorf("%w: the outcome of a run as %x", rowstore.ErrDamaged, row)
	}
	return outcome(row), nil
}

// countRun counts a run-DAG by its outcome, in whatever state it will be.
func (f *deriver) countRun(seq uint64, dag *event.DAG) {
	o := outcomeOf(dag)
	f.Counters.Add(counters.SeriesOf(counters.FailuresTotal, failureStages[o[0]], auditModes[o[1]]), 1)
	var before uint64
	if _, value, found := f.Rows.Newest(failureCounts, o[:]); found {
		before = rowstore.Decode(&f.Rows, value, rowstore.DecodeNumber)
	}
	f.value = rowstore.AppendNumbers(f.value[:0], before+1)
	f.Rows.Put(failureCounts, o[:], seq, f.value)
}

// withdraw notes that an event has made a run-DAG live or not. The value of
// withdrawnRuns is 1 or 0 and its outcome.
func (f *deriver) writeWithdrawn(seq, target uint64, dag *event.DAG, live bool) {
	value := []byte{0}
	if live {
		value[0] = 1
	}
	o := outcomeOf(dag)
	f.Rows.Write(withdrawnRuns, rowstore.AppendSeq(nil, target), seq, append(value, o[:]...))
}
