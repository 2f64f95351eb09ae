package indextest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
)

// fullRecords are records that together contain almost every field that the ledger checks.
var fullRecords = []struct {
	kind record.Kind
	text string
}{
	{record.KindIPCRecord, `{"payload":{"seed":1},"system_prompt":"p","output":"o","model":"m","temperature":0,"max_tokens":9,
		"environment":{"ollama_build_hash":"a","model_digest":"b","host_platform":"c"}}`},
	{record.KindPathFingerprint, `{"project":"p","route":["a"],"content":"c"}`},
	{record.KindCitationSet, `{"subject":"s","citations":[{"source_id":"s","text":"t","weight":1}]}`},
	{record.KindRunDAG, fmt.Sprintf(`{"dag":{"root":"%[1]s","nodes":[{"stage":"question","hash":"%[1]s"},{"stage":"mine","hash":"%[1]s"}],
		"preflight_payload":{"stage":"preflight","node_version":"preflight-node-v1"}},
		"inputs":{"preflight_payload":{"stage":"preflight","node_version":"preflight-node-v1"},"answer_text":"a","audit_mode":"STRICT",
			"verifier_method":"v","n_quotes":0,"n_verified":0,"sources":[{}],"context_root":"%[1]s","raw_answer_text":"b","rendered_text":"c"},
		"question":"q","messages":[],"policy":{},"verifier_policy":{},"source_roots":["%[1]s"],
		"evidence":[{"chunk_root":"%[1]s","start":0,"end":1,"evidence_id":"E1","text_hash":"%[1]s"}],
		"cache_dimensions":{"source_root":"%[1]s","question_hash":"%[1]s","model_profile_hash":"%[1]s","conversation_hash":"%[1]s",
			"governance_policy_hash":"%[1]s","schema_version":"1","canonicalization_version":"1","chunking_version":"1",
			"verifier_policy_hash":"%[1]s"},
		"cache_key":"%[1]s"}`, zeros)},
}

// counters.CheckedFields contains every checked field, and no other names.
func TestFieldLabels(t *testing.T) {
	seen := make(map[string]bool)
	for _, full := range fullRecords {
		r, err := record.Parse(full.kind, []byte(full.text))
		require.NoError(t, err)
		for _, c := range r.Checks {
			bounded := counters.FieldLabel([]byte(c.Field))
			require.NotEqual(t, counters.OtherLabel, bounded, c.Field)
			require.Equal(t, c.MetricLabel(), bounded)
			seen[bounded] = true
		}
		r.Release()
	}
	for _, f := range counters.CheckedFields {
		// A cache dimension is checked only if the record also claims its hash elsewhere.
		if !strings.HasPrefix(f, "cache_dimensions.") {
			require.True(t, seen[f], f)
		}
	}
	require.True(t, seen["stage:question"])
	require.True(t, seen["stage:other"])
	for _, unknown := range []string{"", "other", "stage", "citation/1", "input_hash ", "ipc_id\n"} {
		require.Equal(t, counters.OtherLabel, counters.FieldLabel([]byte(unknown)))
	}
}

// The mismatches in the tampered real input are exactly the expected ones.
func TestRealInputTampered(t *testing.T) {
	data := filepath.Join("..", "..", "..", "..", "shared", "data")
	b, err := os.ReadFile(filepath.Join(data, "generations-tampered.expected.json"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	var expected struct {
		Mismatches map[string][]string `json:"mismatches_by_run_id"`
	}
	require.NoError(t, json.Unmarshal(b, &expected))
	want := make(map[string]uint64)
	for _, failed := range expected.Mismatches {
		for _, field := range failed {
			want[field]++
		}
	}

	file, err := os.Open(filepath.Join(data, "generations-tampered.ndjson.gz"))
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 8<<20)
	log := newJournal(t, "default")
	var bodies []string
	for lines.Scan() {
		line, err := record.ParseBatchLine(lines.Bytes())
		require.NoError(t, err)
		bodies = append(bodies, string(line.Record.AppendBodyPrefix(nil, poster)))
		line.Record.Release()
	}
	require.NoError(t, lines.Err())
	log.append(bodies...)
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	log.check(f)
	got := make(map[string]uint64)
	for series, n := range countsOf(f) {
		if n > 0 && series.Labels[2] == string(record.ResultMismatch) {
			got[series.Labels[1]] = n
		}
	}
	require.Equal(t, want, got)

	// The lists of records with a mismatch contain exactly the expected records.
	v, err := f.LatestView()
	require.NoError(t, err)
	listed := func(name, text string) (runs []string) {
		for _, row := range allRecords(t, v, records.List, records.Filter{Values: []records.Value{{Name: name, Text: text}}}, 30) {
			runs = append(runs, *row.RunID)
		}
		return runs
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(expected.Mismatches)), listed("flag", "mismatch"))
	for field, n := range want {
		runs := listed("mismatch", field)
		require.Len(t, runs, int(n), field)
		for _, run := range runs {
			require.Contains(t, expected.Mismatches[run], field)
		}
	}
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
}
