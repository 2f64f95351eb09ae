package record

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sharedData is a folder with real input outside the repository. Tests that need it are skipped if
// it does not exist.
var sharedData = filepath.Join("..", "..", "..", "shared", "data")

func eachLine(t *testing.T, name string, check func(r *Record)) (lines int) {
	t.Helper()
	f, err := os.Open(filepath.Join(sharedData, name+".ndjson.gz"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	s := bufio.NewScanner(unzipped)
	s.Buffer(nil, 8<<20)
	for ; s.Scan(); lines++ {
		l, err := ParseBatchLine(s.Bytes())
		require.NoError(t, err, "line %d", lines+1)
		check(l.Record)
		l.Record.Release()
	}
	require.NoError(t, s.Err())
	return lines
}

func TestRealInputMatches(t *testing.T) {
	for _, name := range []string{"generations", "run-dags", "citation-sets", "story-paths"} {
		eachLine(t, name, func(r *Record) {
			require.Empty(t, r.Mismatches(), r.RunID)
			if name == "generations" {
				require.Len(t, r.Checks, 4)
				for _, c := range r.Checks {
					require.Equal(t, ResultMatch, c.Result)
				}
			}
		})
	}
}

func TestRealInputTampered(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(sharedData, "generations-tampered.expected.json"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	var expected struct {
		Mismatches map[string][]string `json:"mismatches_by_run_id"`
	}
	require.NoError(t, json.Unmarshal(b, &expected))
	found := make(map[string][]string)
	eachLine(t, "generations-tampered", func(r *Record) {
		for _, c := range r.Mismatches() {
			found[strings.Clone(r.RunID)] = append(found[r.RunID], c.Field)
		}
	})
	require.Equal(t, expected.Mismatches, found)
}

func TestRealInputPinnedRetrieval(t *testing.T) {
	f, err := os.Open(filepath.Join(sharedData, "pinned-retrieval.cases.json.gz"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	var cases []struct {
		Sources, Expected json.RawMessage
		Required          json.RawMessage `json:"required_chunk_hashes"`
		TopK              json.RawMessage `json:"top_k"`
	}
	require.NoError(t, json.NewDecoder(unzipped).Decode(&cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		require.JSONEq(t, string(c.Expected), pinned(t, c.Sources, c.Required, c.TopK))
	}
}
