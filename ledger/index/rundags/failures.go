package rundags

import (
	"fmt"
	"slices"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/rowstore"
)

// Failures are counted by the values in these lists. In each list, the first value represents null,
// and the last one represents any unknown text. The index stores positions in the lists.
var (
	failureStages = [...]string{noneLabel, "retrieval", "context", "answer", drift.UnknownFailureStage, counters.OtherLabel}
	auditModes    = [...]string{noneLabel, "STRICT", "HYBRID", "UNGROUNDED", counters.OtherLabel}
	runShapes     = [...]string{noneLabel, "quote", "pointer", "reject", "unrecognised", counters.OtherLabel}
)

// outcome is a row of failureCounts. It contains the positions of a failure_stage, an audit_mode,
// and a shape in failureStages, auditModes, and runShapes.
type outcome [3]byte

func outcomeOf(dag *event.DAG) outcome {
	return outcome{
		numberOf(failureStages[:], drift.FailureStage(dag)), numberOf(auditModes[:], dag.AuditMode), numberOf(runShapes[:], dag.Shape),
	}
}

// numberOf returns the position of text in list: 0 for nil, and the last position for a text
// that list does not contain.
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
		return outcome{}, fmt.Errorf("%w: cannot decode the outcome of a run from %x", rowstore.ErrDamaged, row)
	}
	return outcome(row), nil
}

// countRun counts a run-DAG by its outcome. Later changes to its state do not affect the count.
func (f *deriver) countRun(seq uint64, dag *event.DAG) {
	o := outcomeOf(dag)
	f.Counters.Add(counters.SeriesOf(counters.MetricDAGFailures, failureStages[o[0]], auditModes[o[1]]), 1)
	var before uint64
	if _, value, found := f.Rows.NewestVersion(failureCounts, o[:]); found {
		before = rowstore.DecodeOrFail(&f.Rows, value, rowstore.DecodeNumber)
	}
	f.value = rowstore.AppendNumbers(f.value[:0], before+1)
	f.Rows.Put(failureCounts, o[:], seq, f.value)
}

// writeLiveness writes a row that says whether a run-DAG is live after the event at seq. The value
// is 1 if it is live and 0 if it is not, followed by the outcome of the run-DAG.
func (f *deriver) writeLiveness(seq, target uint64, dag *event.DAG, live bool) {
	value := []byte{0}
	if live {
		value[0] = 1
	}
	o := outcomeOf(dag)
	f.Rows.PutSeparately(withdrawnRuns, rowstore.AppendSeq(nil, target), seq, append(value, o[:]...))
}
