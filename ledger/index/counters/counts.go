package counters

import (
	"bytes"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// Metric identifies a metric that is derived from the log. The numeric values are stored, so they
// must not change.
type Metric uint8

const (
	MetricRecords              Metric = iota // records in the log, by kind
	MetricHashChecks                         // hash checks, by kind, field, and result
	MetricRefusals                           // refused records, by reason
	MetricDrift                              // runs, by the cause of their difference from the previous run
	MetricDAGDivergence                      // run-DAGs, by the first stage that differs from the previous run-DAG
	MetricDAGFailures                        // run-DAGs, by failure stage and audit mode
	MetricCitationConflicts                  // chunk hashes that are cited under more than one source
	MetricPathChanges                        // path fingerprints, by category
	MetricPathIDCollisions                   // routes whose path_id was already in use by another route of the project
	MetricStateChanges                       // state changes, by new state
	MetricStaleChunks                        // source chunks that were superseded
	MetricProducerDuplicates                 // records that repeat a number of their producer
	MetricMissingProducerSeqs                // numbers that producers have skipped and not delivered yet
	MetricInconsistentVerdicts               // run-DAGs whose verdict breaks a rule, by rule
	MetricIncompleteRecords                  // IPC records that lack a part, by part
	metricCount
)

// maxLabels is the maximum number of labels that a metric has in addition to the ledger label.
const maxLabels = 3

// Metrics describes each Metric (spec: Metrics derived from the log). Labels omits the ledger
// label, which is the first label of every metric.
var Metrics = [metricCount]struct {
	Name, Help string
	Labels     []string
}{
	MetricRecords: {"colophon_ledger_records_total",
		"Records in the log, by kind. Refused records are not counted.",
		[]string{"kind"}},
	MetricHashChecks: {"colophon_ledger_hash_checks_total",
		"Hash checks of the records in the log, by kind, field and result (match, mismatch, computed, claimed). " +
			"Checks of refused records are not counted; see colophon_ledger_refusals_total.",
		[]string{"kind", "field", "result"}},
	MetricRefusals: {"colophon_ledger_refusals_total",
		"Refusals in the log, by reason: mismatch (a claimed hash did not match the content), idempotency_key_conflict.",
		[]string{"reason"}},
	MetricDrift: {"colophon_ledger_drift_total",
		"IPC runs by cause. Each run is compared with the previous live run with the same input.",
		[]string{"cause"}},
	MetricDAGDivergence: {"colophon_ledger_dag_divergence_total",
		"Run-DAGs by the first stage that differs from the previous live run-DAG with the same question_hash; the label is none if no stage differs.",
		[]string{"stage"}},
	MetricDAGFailures: {"colophon_ledger_dag_failures_total",
		"Run-DAGs by failure_stage and audit_mode; the label is none if the value is null.",
		[]string{"failure_stage", "audit_mode"}},
	MetricCitationConflicts: {"colophon_ledger_citation_conflicts_total",
		"Chunk hashes that are cited under more than one source.", nil},
	MetricPathChanges: {"colophon_ledger_path_changes_total",
		"Path fingerprints by category.", []string{"category"}},
	MetricPathIDCollisions: {"colophon_ledger_path_id_collisions_total",
		"Routes whose path_id was already in use by another route of the same project.", nil},
	MetricStateChanges: {"colophon_ledger_state_changes_total",
		"Record state changes, by new state.", []string{"state"}},
	MetricStaleChunks: {"colophon_ledger_stale_chunks_total",
		"Source chunks that were superseded.", nil},
	MetricProducerDuplicates: {"colophon_ledger_producer_duplicates_total",
		"Records that repeat a sequence number of their producer.", nil},
	MetricMissingProducerSeqs: {"colophon_ledger_producer_missing",
		"Sequence numbers that producers have skipped and not yet delivered.", nil},
	MetricInconsistentVerdicts: {"colophon_ledger_inconsistent_verdicts_total",
		"Run-DAGs whose verdict breaks a rule, by rule.",
		[]string{"rule"}},
	MetricIncompleteRecords: {"colophon_ledger_incomplete_total",
		"IPC records that lack system_prompt, output, temperature, max_tokens or seed, by missing part. A record is counted once for each missing part.",
		[]string{"lacks"}},
}

// IsGauge reports whether a metric can decrease.
func (m Metric) IsGauge() bool { return m == MetricMissingProducerSeqs }

// Series identifies one counter: a metric with the values of its labels. Unused labels are empty.
type Series struct {
	Metric Metric
	Labels [maxLabels]string // values of the labels, in the order of Metrics[Metric].Labels
}

// Counts holds the counters of one ledger. Label values come from fixed sets, so clients cannot
// cause new counters to be added.
type Counts map[Series]uint64

// NewCounts returns the counters of an empty log. It contains the counters in initialSeries, and all
// other counters whose labels are known in advance. They are all 0, so that Prometheus's rate function
// sees their first increment.
func NewCounts(initialSeries []Series) Counts {
	c := make(Counts)
	for _, kind := range record.RecordKinds {
		c[SeriesOf(MetricRecords, string(kind))] = 0
	}
	for _, reason := range RefusalReasons {
		c[SeriesOf(MetricRefusals, string(reason))] = 0
	}
	for _, rule := range rules.VerdictRules {
		c[SeriesOf(MetricInconsistentVerdicts, rule)] = 0
	}
	for _, s := range initialSeries {
		c[s] = 0
	}
	for m := MetricCitationConflicts; m < metricCount; m++ {
		if len(Metrics[m].Labels) == 0 {
			c[SeriesOf(m)] = 0
		}
	}
	return c
}

// SeriesOf returns the series of a metric with the given label values.
func SeriesOf(m Metric, labels ...string) Series {
	s := Series{Metric: m}
	copy(s.Labels[:], labels)
	return s
}

// pending counts consecutive events that have the same kind and the same checks, because such
// events increment the same counters.
type pending struct {
	kind   record.Kind
	checks []byte
	places []int  // positions of the counters to increment
	events uint64 // number of events not yet counted
}

// CountEvent counts an event by its kind and checks. The counters might not include the event until
// FlushPending is called.
func (c *Counters) CountEvent(e *event.Event) {
	if e.Kind == c.pending.kind && bytes.Equal(e.Checks.Raw(), c.pending.checks) {
		c.pending.events++
		return
	}
	if e.Kind == record.KindRecordRefused {
		c.Add(SeriesOf(MetricRefusals, LabelOrOther([]byte(e.Refusal().Reason), RefusalReasons[:])), 1)
		return
	}
	kind := LabelOrOther([]byte(e.Kind), record.RecordKinds[:])
	if kind == OtherLabel && LabelOrOther([]byte(e.Kind), ledgerKinds[:]) != OtherLabel {
		return
	}
	c.FlushPending()
	a := &c.pending
	a.kind, a.events = e.Kind, 1
	a.checks = append(a.checks[:0], e.Checks.Raw()...)
	a.places = append(a.places[:0], c.place(SeriesOf(MetricRecords, kind)))
	for name, check := range e.Checks.Members() {
		if rule, broken := brokenRule(name, check); broken {
			a.places = append(a.places, c.place(SeriesOf(MetricInconsistentVerdicts, LabelOrOther(rule, rules.VerdictRules[:]))))
			continue
		}
		field := FieldLabel(name.Text())
		// When a field first occurs, the counters for all of its results start at 0, so that
		// Prometheus's rate function sees the first mismatch.
		for _, r := range HashCheckResults {
			c.place(SeriesOf(MetricHashChecks, kind, field, string(r)))
		}
		result := LabelOrOther(check.Member("result").Text(), HashCheckResults[:])
		a.places = append(a.places, c.place(SeriesOf(MetricHashChecks, kind, field, result)))
	}
}

// brokenRule returns the name of the rule that a verdict check tests. broken is true if the check
// found that the verdict breaks the rule.
func brokenRule(name, check pyjson.Value) (rule []byte, broken bool) {
	rule, broken = bytes.CutPrefix(name.Text(), []byte(rules.VerdictCheckPrefix))
	return rule, broken && string(check.Member("result").Text()) == string(record.ResultInconsistent)
}

// FlushPending makes the counters include all events that were passed to CountEvent.
func (c *Counters) FlushPending() {
	a := &c.pending
	if a.events == 0 {
		return
	}
	for _, at := range a.places {
		c.setAt(at, c.values[at]+a.events)
	}
	a.events = 0
}

// OtherLabel is the label value that replaces any value that this build does not know.
const OtherLabel = "other"

// ledgerKinds are the kinds of events that the ledger itself writes (spec: Event body). They
// are not records.
var ledgerKinds = [...]record.Kind{
	record.KindLedgerCreated, record.KindRecordRefused, record.KindRecordStateChanged, record.KindPathValidated,
	record.KindSourceRegistered, record.KindSourceRevoked, record.KindContentRedacted, record.KindKeyRotated, record.KindNote,
}

// HashCheckResults lists the known results of hash checks. Any other result is counted as OtherLabel.
var HashCheckResults = [...]record.CheckResult{record.ResultMatch, record.ResultMismatch, record.ResultComputed, record.ResultClaimed}

// RefusalReasons lists the known reasons for refusals. Any other reason is counted as OtherLabel.
var RefusalReasons = [...]record.RefusalReason{record.RefusalMismatch, record.RefusalKeyConflict}

// StagePrefix begins the name of each checked field that is a stage.
const StagePrefix = "stage:"

// CheckedFields lists the checked fields that are not stages, under the names that
// record.Check.MetricLabel returns.
var CheckedFields = [...]string{
	"input_hash", "system_prompt_hash", "output_hash", "ipc_id", "ipc_id_advanced",
	"chunk_hash",
	"path_id", "content_fingerprint", "raw_content_fingerprint",
	"root", "answer_text", "evidence_id", "text_hash", "cache_key", "source_root", "model_profile_hash", "dag.preflight_payload",
	"question_hash", "preflight_hash", "context_root", "evidence_map_root", "conversation_hash",
	"governance_policy_hash", "verifier_policy_hash",
	"cache_dimensions.question_hash", "cache_dimensions.conversation_hash",
	"cache_dimensions.governance_policy_hash", "cache_dimensions.verifier_policy_hash",
}

// LabelOrOther returns text if it is one of the known values, and OtherLabel otherwise.
func LabelOrOther[S ~string](text []byte, known []S) string {
	for _, k := range known {
		if string(text) == string(k) {
			return string(k)
		}
	}
	return OtherLabel
}

// FieldLabel returns the label value for the name of a checked field. The number of possible label
// values is bounded.
func FieldLabel(name []byte) string {
	if known := LabelOrOther(name, CheckedFields[:]); known != OtherLabel {
		return known
	}
	bounded := record.Check{Field: string(name)}.MetricLabel()
	if strings.HasPrefix(bounded, StagePrefix) {
		return bounded
	}
	return LabelOrOther([]byte(bounded), CheckedFields[:])
}
