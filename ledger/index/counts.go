package index

import (
	"bytes"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/record"
)

// metric is the number of a log-derived counter. Numbers are stored.
type metric uint8

const (
	recordsTotal metric = iota
	checksTotal
	refusalsTotal
	driftTotal
	divergenceTotal
	failuresTotal
	conflictsTotal
	pathChangesTotal
	collisionsTotal
	stateChangesTotal
	staleChunksTotal
	producerDuplicatesTotal
	producerMissing
	metricCount
)

// maxLabels bounds the labels of a counter beside ledger.
const maxLabels = 3

// metrics describes the counters, by number (4.5). Each has the label ledger
// before its own.
var metrics = [metricCount]struct {
	name, help string
	labels     []string
}{
	recordsTotal: {"colophon_ledger_records_total",
		"Records in the log, by kind. Refused ones are not among them.",
		[]string{"kind"}},
	checksTotal: {"colophon_ledger_hash_checks_total",
		"Hash checks of the records in the log, by kind, field and result (match, mismatch, computed, claimed). " +
			"Checks of refused records are not among them: see colophon_ledger_refusals_total.",
		[]string{"kind", "field", "result"}},
	refusalsTotal: {"colophon_ledger_refusals_total",
		"Refusals in the log, by reason: mismatch (a claimed hash did not hold), idempotency_key_conflict.",
		[]string{"reason"}},
	driftTotal: {"colophon_ledger_drift_total",
		"IPC runs by cause: each against the live run before it with its input_hash.",
		[]string{"cause"}},
	divergenceTotal: {"colophon_ledger_dag_divergence_total",
		"Run-DAGs by the first stage that differs from the live one before with its question_hash; none where no stage does.",
		[]string{"stage"}},
	failuresTotal: {"colophon_ledger_dag_failures_total",
		"Run-DAGs by failure_stage and audit_mode; none where there is none.",
		[]string{"failure_stage", "audit_mode"}},
	conflictsTotal: {"colophon_ledger_citation_conflicts_total",
		"Chunk hashes that came to be cited under more than one source.", nil},
	pathChangesTotal: {"colophon_ledger_path_changes_total",
		"Path fingerprints by category.", []string{"category"}},
	collisionsTotal: {"colophon_ledger_path_id_collisions_total",
		"Routes that found their path_id held by another route of their project.", nil},
	stateChangesTotal: {"colophon_ledger_state_changes_total",
		"Changes of a record's state, by the state that they lead to.", []string{"state"}},
	staleChunksTotal: {"colophon_ledger_stale_chunks_total",
		"Chunks of a source that were superseded.", nil},
	producerDuplicatesTotal: {"colophon_ledger_producer_duplicates_total",
		"Records that repeat a sequence number of their producer.", nil},
	producerMissing: {"colophon_ledger_producer_missing",
		"Sequence numbers that producers have skipped and not delivered yet.", nil},
}

// isGauge reports whether a metric may also fall.
func (m metric) isGauge() bool { return m == producerMissing }

// series is one counter with its labels; those that the metric lacks are empty.
type series struct {
	metric metric
	labels [maxLabels]string
}

// counts are the counters of one ledger. Every label value is one of a fixed
// set, whatever clients send.
type counts map[series]uint64

// newCounts are those of an empty log. Where the labels are known beforehand a
// series begins with 0, so that a rate shows its first increment: beside those of records
// and of metrics without labels, what begin lists.
func newCounts(begin []series) counts {
	c := make(counts)
	for _, kind := range record.Kinds {
		c[seriesOf(recordsTotal, string(kind))] = 0
	}
	for _, reason := range refusals {
		c[seriesOf(refusalsTotal, string(reason))] = 0
	}
	for _, s := range begin {
		c[s] = 0
	}
	for m := conflictsTotal; m < metricCount; m++ {
		if len(metrics[m].labels) == 0 {
			c[seriesOf(m)] = 0
		}
	}
	return c
}

// seriesOf names one counter of a metric.
func seriesOf(m metric, labels ...string) series {
	s := series{metric: m}
	copy(s.labels[:], labels)
	return s
}

// alike are events of one kind with the same checks, as most that follow one another
// have: they add to the same counters.
type alike struct {
	kind   record.Kind
	checks []byte
	places []int  // of the counters
	events uint64 // that are not counted yet
}

// countEvent counts an event by its kind and checks, or notes that it is like the one
// before.
func (c *counters) countEvent(e *event.Event) {
	if e.Kind == c.alike.kind && bytes.Equal(e.Checks.Raw(), c.alike.checks) {
		c.alike.events++
		return
	}
	if e.Kind == record.RecordRefused {
		c.add(seriesOf(refusalsTotal, label([]byte(e.Refusal().Reason), refusals[:])), 1)
		return
	}
	kind := label([]byte(e.Kind), record.Kinds[:])
	if kind == other && label([]byte(e.Kind), ledgerKinds[:]) != other {
		return
	}
	c.countAlike()
	a := &c.alike
	a.kind, a.events = e.Kind, 1
	a.checks = append(a.checks[:0], e.Checks.Raw()...)
	a.places = append(a.places[:0], c.place(seriesOf(recordsTotal, kind)))
	for name, check := range e.Checks.Members() {
		field := fieldLabel(name.Text())
		// All results begin with 0 when the first of them is met: the first mismatch is
		// what nobody must miss.
		for _, r := range results {
			c.place(seriesOf(checksTotal, kind, field, string(r)))
		}
		result := label(check.Member("result").Text(), results[:])
		a.places = append(a.places, c.place(seriesOf(checksTotal, kind, field, result)))
	}
}

// countAlike counts the events that are alike.
func (c *counters) countAlike() {
	a := &c.alike
	if a.events == 0 {
		return
	}
	for _, at := range a.places {
		c.setAt(at, c.values[at]+a.events)
	}
	a.events = 0
}

// other stands for every label value that this build does not know.
const other = "other"

// ledgerKinds are the kinds that the ledger writes itself (2.2): their events
// are not records.
var ledgerKinds = [...]record.Kind{
	record.LedgerCreated, record.RecordRefused, record.RecordStateChanged, record.PathValidated,
	record.SourceRegistered, record.SourceRevoked, record.ContentRedacted, "key_rotated",
}

var results = [...]record.Result{record.Match, record.Mismatch, record.Computed, record.Claimed}

var refusals = [...]record.Refusal{record.RefusedMismatch, record.RefusedKey}

// stagePrefix begins the fields of run-DAG stages, which MetricField bounds.
const stagePrefix = "stage:"

// fields are the other hash fields, as MetricField names them.
var fields = [...]string{
	"input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced",
	"chunk_hash",
	"path_id", "content_fingerprint", "raw_content_fingerprint",
	"root", "cache_key", "source_root", "model_profile_hash", "dag.preflight_payload",
	"question_hash", "preflight_hash", "context_root", "evidence_map_root", "conversation_hash",
	"governance_policy_hash", "verifier_policy_hash",
	"cache_dimensions.question_hash", "cache_dimensions.conversation_hash",
	"cache_dimensions.governance_policy_hash", "cache_dimensions.verifier_policy_hash",
}

// label is text where it is one of the known values, other where it is not.
func label[S ~string](text []byte, known []S) string {
	for _, k := range known {
		if string(text) == string(k) {
			return string(k)
		}
	}
	return other
}

// fieldLabel bounds the name of a checked field.
func fieldLabel(name []byte) string {
	if known := label(name, fields[:]); known != other {
		return known
	}
	bounded := record.Check{Field: string(name)}.MetricField()
	if strings.HasPrefix(bounded, stagePrefix) {
		return bounded
	}
	return label([]byte(bounded), fields[:])
}
