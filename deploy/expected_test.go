package deploy_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The functions in this file compute the results that Prometheus must return for the shared data
// files. They favor simplicity over speed.

// sharedData is a folder of input files for tests. It is not part of the repository.
var sharedData = filepath.Join("..", "..", "shared", "data")

// counted maps a set of labels to a value. Each key is a sorted, comma-separated list of labels of
// the form name=value.
type counted map[string]float64

// with returns a copy of c with the labels added to every key.
func (c counted) with(labels ...string) counted {
	more := make(counted)
	for own, value := range c {
		all := append(strings.Split(own, ","), labels...)
		slices.Sort(all)
		more[strings.Join(all, ",")] = value
	}
	return more
}

// readRecords reads the records of an input file.
func readRecords[T any](t *testing.T, name string) (records []T) {
	t.Helper()
	file, err := os.Open(filepath.Join(sharedData, name))
	require.NoError(t, err)
	defer file.Close()
	text, err := gzip.NewReader(file)
	require.NoError(t, err)
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			Record T `json:"record"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		records = append(records, line.Record)
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, records)
	return records
}

func readExpected(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sharedData, name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, to))
}

// ipcRun holds the fields of an IPC record that expectedDrift compares. The hashes in the input
// file are correct.
type ipcRun struct {
	InputHash        string      `json:"input_hash"`
	SystemPromptHash string      `json:"system_prompt_hash"`
	OutputHash       string      `json:"output_hash"`
	Model            string      `json:"model"`
	Temperature      json.Number `json:"temperature"`
	MaxTokens        json.Number `json:"max_tokens"`
	Seed             json.Number `json:"seed"`
}

// cause returns the cause of the change from run a to run b (spec: Causes). Both runs must have the
// same input, and their environments must be unknown.
func cause(a, b ipcRun) string {
	var differing []string
	if a.SystemPromptHash != b.SystemPromptHash {
		differing = append(differing, "system_prompt")
	}
	if a.Model != b.Model {
		differing = append(differing, "model")
	}
	if a.Temperature != b.Temperature {
		differing = append(differing, "temperature")
	}
	if a.MaxTokens != b.MaxTokens {
		differing = append(differing, "max_tokens")
	}
	if a.Seed != b.Seed {
		differing = append(differing, "seed")
	}
	switch changed := a.OutputHash != b.OutputHash; {
	case len(differing) == 0 && changed:
		return "stochastic_or_model_internal"
	case len(differing) == 0:
		return "identical"
	case !changed:
		return "no_effect"
	case len(differing) > 1:
		return "confounded"
	}
	return differing[0]
}

// expectedDrift counts the runs in a file by cause. Each run is compared with the previous run that
// has the same input.
func expectedDrift(t *testing.T, name string) counted {
	t.Helper()
	counts, before := make(counted), make(map[string]ipcRun)
	for _, r := range readRecords[ipcRun](t, name) {
		if last, found := before[r.InputHash]; found {
			counts["cause="+cause(last, r)]++
		}
		before[r.InputHash] = r
	}
	return counts
}

// expectedFailures counts run-DAGs by failure stage and audit mode (spec: Failure stage). A run
// that preflight rejected has no failure stage. A run without an audit mode is counted as
// UNGROUNDED.
func expectedFailures(t *testing.T, name string) counted {
	t.Helper()
	counts := make(counted)
	for _, r := range readRecords[struct {
		Inputs *struct {
			AuditMode string     `json:"audit_mode"`
			Sources   []struct{} `json:"sources"`
			Quotes    int        `json:"n_quotes"`
		} `json:"inputs"`
	}](t, name) {
		stage, mode := "none", "UNGROUNDED"
		if r.Inputs != nil {
			mode = r.Inputs.AuditMode
			switch {
			case mode == "STRICT":
			case len(r.Inputs.Sources) == 0:
				stage = "retrieval"
			case r.Inputs.Quotes == 0:
				stage = "context"
			default:
				stage = "answer"
			}
		}
		counts["audit_mode="+mode+",failure_stage="+stage]++
	}
	return counts
}

// expectedRepeats counts the run-DAGs whose question has already occurred in the file.
func expectedRepeats(t *testing.T, name string) (repeats float64) {
	t.Helper()
	seen := make(map[string]bool)
	for _, r := range readRecords[struct {
		Question string `json:"question"`
	}](t, name) {
		if seen[r.Question] {
			repeats++
		}
		seen[r.Question] = true
	}
	return repeats
}

// expectedMismatches counts the tampered hashes, by field and in total.
func expectedMismatches(t *testing.T) (byField counted, total float64) {
	t.Helper()
	var altered struct {
		ByRun map[string][]string `json:"mismatches_by_run_id"`
	}
	readExpected(t, "generations-tampered.expected.json", &altered)
	byField = make(counted)
	for _, fields := range altered.ByRun {
		for _, field := range fields {
			byField["field="+field]++
			total++
		}
	}
	require.NotZero(t, total)
	return byField, total
}

// expectedCategories returns the number of paths in each category, added up over all builds.
func expectedCategories(t *testing.T) counted {
	t.Helper()
	var builds []struct {
		New, Modified, Unchanged float64
	}
	readExpected(t, "story-paths.expected.json", &builds)
	require.NotEmpty(t, builds)
	counts := counted{"category=incomparable": 0} // all builds have the same hash version
	for _, b := range builds {
		counts["category=new"] += b.New
		counts["category=modified"] += b.Modified
		counts["category=unchanged"] += b.Unchanged
	}
	return counts
}
