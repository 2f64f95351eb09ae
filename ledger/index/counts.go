package index

import (
	"strings"

	"colophon/ledger/record"
)

// metric is the number of a log-derived counter. Numbers are stored.
type metric uint8

const (
	recordsTotal metric = iota
	checksTotal
	refusalsTotal
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
}

// series is one counter with its labels; those that the metric lacks are empty.
type series struct {
	metric metric
	labels [maxLabels]string
}

// counts are the counters of one ledger. Every label value is one of a fixed
// set, whatever clients send.
type counts map[series]uint64

// newCounts are those of an empty log. Where the labels are known beforehand a
// series begins with 0, so that a rate shows its first increment.
func newCounts() counts {
	c := make(counts)
	for _, kind := range record.Kinds {
		c[recordSeries(string(kind))] = 0
	}
	for _, reason := range refusals {
		c[refusalSeries(string(reason))] = 0
	}
	return c
}

// check counts one check. All results of a field begin with 0 when the first of
// them is met: the first mismatch is what nobody must miss.
func (c counts) check(kind, field, result string) {
	s := checkSeries(kind, field, result)
	if c[s]++; c[s] > 1 {
		return
	}
	for _, r := range results {
		c[checkSeries(kind, field, string(r))] += 0
	}
}

func recordSeries(kind string) series { return series{recordsTotal, [maxLabels]string{kind}} }

func checkSeries(kind, field, result string) series {
	return series{checksTotal, [maxLabels]string{kind, field, result}}
}

func refusalSeries(reason string) series { return series{refusalsTotal, [maxLabels]string{reason}} }

// other stands for every label value that this build does not know.
const other = "other"

// ledgerKinds are the kinds that the ledger writes itself (2.2): their events
// are not records.
var ledgerKinds = [...]record.Kind{
	record.LedgerCreated, record.RecordRefused, "record_state_changed", "path_validated",
	"source_registered", "source_revoked", "content_redacted", "key_rotated",
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
