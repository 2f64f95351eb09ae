package colophon_test

import (
	"bytes" // #nosec G501 -- path ids are MD5 by definition (spec: Path fingerprints)
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/ledger"
	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/ledger/record/rules"
	"colophon/storage/memory"
)

// server is a test server with one in-memory ledger.
type server struct {
	t   *testing.T
	url string
}

func newServer(t *testing.T) *server {
	host, err := ledger.OpenHost(t.Context(), memory.New(), keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	_, err = host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	folded, err := query.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	handler, err := api.New(api.Config{Host: host, Index: folded, Version: "test"})
	require.NoError(t, err)
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, folded.Close())
		require.NoError(t, host.Close())
	})
	return &server{t, s.URL + "/v1/ledgers/default"}
}

func (s *server) get(path string) []byte {
	response, err := http.Get(s.url + path)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s: %s", path, answer)
	return answer
}

// ask sends the JSON encoding of body and decodes the JSON response into the value that into points
// to. headers alternates names and values.
func (s *server) ask(method, path string, body, into any, headers ...string) {
	text, err := json.Marshal(body)
	require.NoError(s.t, err)
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(text))
	require.NoError(s.t, err)
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Less(s.t, response.StatusCode, 300, "%s %s: %s", method, path, answer)
	require.NoError(s.t, json.Unmarshal(answer, into))
}

// postRun posts an IPC record and returns its receipt. The given members override the default
// values.
func (s *server) postRun(given map[string]any) (r struct {
	Seq    int
	Hashes map[string]*string
}) {
	body := map[string]any{"payload": map[string]any{}, "system_prompt": "s", "output": "o", "model": "m", "temperature": 0.5, "max_tokens": 10, "seed": 1}
	for name, value := range given {
		body[name] = value
	}
	s.ask(http.MethodPost, "/ipc-records", body, &r)
	return r
}

func exampleGroup(e *example) {
	s := newServer(e.t)
	var outputs []string
	e.decode("outputs", &outputs)
	for _, output := range outputs {
		s.postRun(map[string]any{"output": output})
	}
	var rows struct{ Rows []json.RawMessage }
	s.ask(http.MethodGet, "/drift/groups?by=input_hash", nil, &rows)
	require.Len(e.t, rows.Rows, 1)
	for _, key := range []string{"runs", "distinct_outputs", "stability", "entropy_bits", "flips"} {
		var row map[string]json.RawMessage
		require.NoError(e.t, json.Unmarshal(rows.Rows[0], &row))
		e.computed(key, string(row[key]))
	}
}

func exampleCauses(e *example) {
	s := newServer(e.t)
	var base map[string]any
	e.decode("base", &base)
	a := s.postRun(base)
	for _, change := range e.keys[1:] {
		var given map[string]any
		require.NoError(e.t, json.Unmarshal([]byte(change), &given))
		b := make(map[string]any)
		for name, value := range base {
			b[name] = value
		}
		for name, value := range given {
			b[name] = value
		}
		var answer struct{ Cause drift.Cause }
		s.ask(http.MethodGet, fmt.Sprintf("/drift/attribution?a=%d&b=%d", a.Seq, s.postRun(b).Seq), nil, &answer)
		e.computed(change, string(answer.Cause))
	}
}

func exampleEffects(e *example) {
	s := newServer(e.t)
	var runs []map[string]any
	e.decode("runs", &runs)
	for _, run := range runs {
		s.postRun(run)
	}
	var answer struct{ Pairs, Changed, Unchanged int }
	s.ask(http.MethodGet, fmt.Sprintf("/drift/effects?variable=%s&a=%s&b=%s", e.value("variable"), e.value("a"), e.value("b")), nil, &answer)
	e.computed("pairs", strconv.Itoa(answer.Pairs))
	e.computed("changed", strconv.Itoa(answer.Changed))
	e.computed("unchanged", strconv.Itoa(answer.Unchanged))
}

func exampleRunGroups(e *example) {
	s := newServer(e.t)
	var answers []*string
	e.decode("answers", &answers)
	zeros := strings.Repeat("0", 64)
	for _, answer := range answers {
		nodes := []map[string]any{{"stage": "question", "hash": zeros}}
		if answer != nil {
			nodes = append(nodes, map[string]any{"stage": "answer", "hash": sha256Hex([]byte(*answer))})
		}
		s.ask(http.MethodPost, "/run-dags", map[string]any{"question": "Why?", "dag": map[string]any{"root": zeros, "nodes": nodes}}, new(any))
	}
	var list struct{ Rows []map[string]json.RawMessage }
	s.ask(http.MethodGet, "/run-dags/groups?by=question_hash", nil, &list)
	require.Len(e.t, list.Rows, 1)
	for _, key := range []string{"runs", "distinct_answers"} {
		e.computed(key, string(list.Rows[0][key]))
	}
}

// compactJSON encodes v as compact JSON, in the style of the examples. A nil list yields [].
func compactJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	if string(text) == "null" {
		return "[]"
	}
	return string(text)
}

func exampleStageComparison(e *example) {
	read := func(key string) (stages []event.NamedHash) {
		var list [][2]string
		e.decode(key, &list)
		for _, stage := range list {
			stages = append(stages, event.NamedHash{Name: []byte(stage[0]), Hash: []byte(stage[1])})
		}
		return stages
	}
	change := drift.CompareStages(read("a"), read("b"))
	e.computed("differing", compactJSON(e.t, change.DifferingStages))
	e.computed("only_in_a", compactJSON(e.t, change.StagesOnlyInA))
	e.computed("only_in_b", compactJSON(e.t, change.StagesOnlyInB))
}

func exampleCitationDrift(e *example) {
	var before, after []string
	e.decode("before", &before)
	e.decode("after", &after)
	change := drift.CompareChunks(before, after)
	e.computed("added", compactJSON(e.t, change.Added))
	e.computed("removed", compactJSON(e.t, change.Removed))
	e.computed("kept", compactJSON(e.t, change.Kept))
	e.computed("jaccard", compactJSON(e.t, change.Jaccard))
}

func exampleEvidence(e *example) {
	read := func(key string) (citations []drift.Citation) {
		var list [][2]string
		e.decode(key, &list)
		for _, c := range list {
			citations = append(citations, drift.Citation{ChunkHash: c[0], SourceID: c[1]})
		}
		return citations
	}
	change := drift.CompareCitations(read("a"), read("b"))
	var other []string
	for _, c := range change.SourceChanges {
		other = append(other, c.ChunkHash)
	}
	e.computed("added", compactJSON(e.t, change.Added))
	e.computed("removed", compactJSON(e.t, change.Removed))
	e.computed("kept", compactJSON(e.t, change.Kept))
	e.computed("other", compactJSON(e.t, other))
	e.computed("differ", compactJSON(e.t, change.HasDifferences()))
}

func exampleStale(e *example) {
	s := newServer(e.t)
	var steps []struct {
		Subject  string
		Cite     [][2]string
		Register string
		Chunks   []string
	}
	e.decode("steps", &steps)
	texts := make(map[string]string)
	for _, step := range steps {
		if step.Register != "" {
			hashes := []string{}
			for _, text := range step.Chunks {
				hashes = append(hashes, rules.ChunkHash([]byte(text)))
			}
			s.ask(http.MethodPut, "/sources/"+step.Register, map[string]any{"chunk_hashes": hashes}, new(any))
			continue
		}
		citations := []map[string]any{}
		for _, cited := range step.Cite {
			texts[rules.ChunkHash([]byte(cited[1]))] = cited[1]
			citations = append(citations, map[string]any{"source_id": cited[0], "text": cited[1], "weight": 1})
		}
		s.ask(http.MethodPost, "/citation-sets", map[string]any{"subject": step.Subject, "citations": citations}, new(any))
	}
	var answer struct {
		Rows []struct {
			Seq       int
			ChunkHash string `json:"chunk_hash"`
			By        int    `json:"superseded_by"`
			How       string
		}
	}
	s.ask(http.MethodGet, "/citation-sets/stale?source_id=s", nil, &answer)
	stale := [][]any{}
	for _, row := range answer.Rows {
		stale = append(stale, []any{row.Seq, texts[row.ChunkHash], row.By, row.How})
	}
	e.computed("stale", compactJSON(e.t, stale))
}

func examplePathCategories(e *example) {
	s := newServer(e.t)
	var records [][2]string
	e.decode("records", &records)
	categories := []string{}
	for _, r := range records {
		var receipt struct{ Category string }
		s.ask(http.MethodPost, "/path-fingerprints?derive=true", map[string]any{"project": "p", "route": []string{"Start"}, "build": r[0], "content": r[1]}, &receipt)
		categories = append(categories, receipt.Category)
	}
	e.computed("categories", compactJSON(e.t, categories))
}

func examplePathValidation(e *example) {
	s := newServer(e.t)
	var records [][3]*string
	var validated string
	e.decode("builds", &records)
	e.decode("validated", &validated)
	pathID := ""
	for _, r := range records {
		var receipt struct {
			PathID string `json:"path_id"`
		}
		s.ask(http.MethodPost, "/path-fingerprints?derive=true", map[string]any{"project": "p", "route": []string{"Start"},
			"build": r[0], "base": r[1], "content": r[2]}, &receipt)
		pathID = receipt.PathID
	}
	s.ask(http.MethodPut, "/paths/p/"+pathID+"/validation", map[string]any{"validated": true, "build": validated}, new(json.RawMessage))
	holds, before := []string{}, []string{}
	for _, r := range records {
		var page struct {
			Rows []struct {
				Validated       bool
				ValidatedBefore uint64 `json:"validated_before"`
			}
		}
		s.ask(http.MethodGet, "/paths/p?build="+*r[0]+"&after="+strconv.Itoa(len(records)+1), nil, &page)
		if page.Rows[0].Validated {
			holds = append(holds, *r[0])
		}
		if page.Rows[0].ValidatedBefore > 0 {
			before = append(before, *r[0])
		}
	}
	e.computed("holds", compactJSON(e.t, holds))
	e.computed("before", compactJSON(e.t, before))
}
