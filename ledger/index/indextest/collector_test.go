package indextest

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"colophon/ledger/drift"
	"colophon/ledger/index/counters"
	"colophon/ledger/record"
)

// scrape scrapes a collector once and returns the samples and the comments.
func scrape(t *testing.T, c prometheus.Collector) (samples, comments string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	var sampled, commented strings.Builder
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "#") {
			commented.WriteString(line)
		} else {
			sampled.WriteString(line)
		}
	}
	return sampled.String(), commented.String()
}

// samplesOf returns only the samples of the named metrics.
func samplesOf(samples string, names ...string) string {
	var kept strings.Builder
	for line := range strings.Lines(samples) {
		for _, name := range names {
			if strings.HasPrefix(line, "colophon_ledger_"+name+"{") {
				kept.WriteString(line)
			}
		}
	}
	return kept.String()
}

func TestCollector(t *testing.T) {
	const chain = `{"payload":{"seed":1},"output":"x","output_hash":"` + zeros + `","model":"m","temperature":0,"max_tokens":9}`
	log, quiet := newJournal(t, "default"), newJournal(t, "quiet")
	log.append(
		string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)),
		posted(t, record.KindIPCRecord, chain),
		refused(t, record.KindIPCRecord, chain, record.RefusalMismatch),
		refused(t, record.KindCitationSet, `{"subject":"s","citations":[]}`, record.RefusalKeyConflict),
		posted(t, record.KindPathFingerprint, `{"project":"p","route":["a"],"path_id":"0cc175b9"}`),
		posted(t, record.KindPathFingerprint, `{"project":"p","route":["b"],"path_id":"0cc175b9"}`),
		rawBody("poem", `{"metre":{"result":"limping"}}`, `{}`),
	)
	files := vfs.NewMem()
	s := openTest(t, testConfig(files))
	log.catchUp(follow(t, s, log))
	follow(t, s, quiet)
	const want = `colophon_ledger_hash_checks_total{field="input_hash",kind="ipc_record",ledger="default",result="claimed"} 0
colophon_ledger_hash_checks_total{field="input_hash",kind="ipc_record",ledger="default",result="computed"} 1
colophon_ledger_hash_checks_total{field="input_hash",kind="ipc_record",ledger="default",result="match"} 0
colophon_ledger_hash_checks_total{field="input_hash",kind="ipc_record",ledger="default",result="mismatch"} 0
colophon_ledger_hash_checks_total{field="other",kind="other",ledger="default",result="claimed"} 0
colophon_ledger_hash_checks_total{field="other",kind="other",ledger="default",result="computed"} 0
colophon_ledger_hash_checks_total{field="other",kind="other",ledger="default",result="match"} 0
colophon_ledger_hash_checks_total{field="other",kind="other",ledger="default",result="mismatch"} 0
colophon_ledger_hash_checks_total{field="other",kind="other",ledger="default",result="other"} 1
colophon_ledger_hash_checks_total{field="output_hash",kind="ipc_record",ledger="default",result="claimed"} 0
colophon_ledger_hash_checks_total{field="output_hash",kind="ipc_record",ledger="default",result="computed"} 0
colophon_ledger_hash_checks_total{field="output_hash",kind="ipc_record",ledger="default",result="match"} 0
colophon_ledger_hash_checks_total{field="output_hash",kind="ipc_record",ledger="default",result="mismatch"} 1
colophon_ledger_hash_checks_total{field="path_id",kind="path_fingerprint",ledger="default",result="claimed"} 0
colophon_ledger_hash_checks_total{field="path_id",kind="path_fingerprint",ledger="default",result="computed"} 0
colophon_ledger_hash_checks_total{field="path_id",kind="path_fingerprint",ledger="default",result="match"} 1
colophon_ledger_hash_checks_total{field="path_id",kind="path_fingerprint",ledger="default",result="mismatch"} 1
colophon_ledger_index_size{ledger="default"} 7
colophon_ledger_index_size{ledger="quiet"} 0
colophon_ledger_records_total{kind="citation_set",ledger="default"} 0
colophon_ledger_records_total{kind="citation_set",ledger="quiet"} 0
colophon_ledger_records_total{kind="ipc_record",ledger="default"} 1
colophon_ledger_records_total{kind="ipc_record",ledger="quiet"} 0
colophon_ledger_records_total{kind="other",ledger="default"} 1
colophon_ledger_records_total{kind="path_fingerprint",ledger="default"} 2
colophon_ledger_records_total{kind="path_fingerprint",ledger="quiet"} 0
colophon_ledger_records_total{kind="run_dag",ledger="default"} 0
colophon_ledger_records_total{kind="run_dag",ledger="quiet"} 0
colophon_ledger_refusals_total{ledger="default",reason="idempotency_key_conflict"} 1
colophon_ledger_refusals_total{ledger="default",reason="mismatch"} 1
colophon_ledger_refusals_total{ledger="quiet",reason="idempotency_key_conflict"} 0
colophon_ledger_refusals_total{ledger="quiet",reason="mismatch"} 0
`
	samples, comments := scrape(t, counters.NewCollector(s.Followers))
	require.Equal(t, want, samplesOf(samples, "hash_checks_total", "index_size", "records_total", "refusals_total"))
	require.Equal(t, 2*len(record.States), strings.Count(samplesOf(samples, "state_changes_total"), "} 0\n"))
	require.Equal(t, 2*len(drift.Causes), strings.Count(samples, "colophon_ledger_drift_total{"))
	for i, m := range counters.Metrics {
		if !strings.Contains(samples, m.Name+"{") {
			continue // its labels are unknown before the first increment
		}
		kind := "counter"
		if counters.Metric(i).IsGauge() {
			kind = "gauge"
		}
		require.Contains(t, comments, "# HELP "+m.Name+" "+m.Help+"\n# TYPE "+m.Name+" "+kind+"\n")
	}
	require.Contains(t, comments, "# TYPE colophon_ledger_index_size gauge\n")
	require.NoError(t, s.Close())

	s = openTest(t, testConfig(files))
	follow(t, s, log)
	follow(t, s, quiet)
	again, _ := scrape(t, counters.NewCollector(s.Followers))
	require.Equal(t, samples, again, "a restart restores every counter")
	require.NoError(t, s.Close())
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
