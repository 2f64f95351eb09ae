package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

const searchOf = prefix + "/search"

// prompted returns a request that posts a run with a prompt, an instruction, and labels.
func prompted(config, prompt, instruction, model, output string) call {
	return post(ipc, fmt.Sprintf(`{"run_id":"night/%[1]s-%[4]s","payload":{"instruction":%[3]q,"top_p":0.9},"system_prompt":%[2]q,"seed":7,"max_tokens":120,`+
		`"model":%[4]q,"temperature":0.5,"output":%[5]q,"labels":{"config":%[1]q,"step":"one"}}`, config, prompt, instruction, model, output))
}

type name struct {
	Label, Words string
	Cut          bool
}

// Responses name hashes after labels or after the first words of the hashed texts. A name is a single
// line without characters that change the direction of text. A redaction removes the words.
func TestNames(t *testing.T) {
	s := newServer(t)
	long := "Answer briefly,\n\tand\u202e do not guess. " + strings.Repeat("Be kind. ", 30)
	s.do(t, prompted("brief", long, "Who keeps the light?", "m1", "Ada."), http.StatusCreated)
	s.do(t, prompted("brief", long, "Who keeps the light?", "m2", "Ada does."), http.StatusCreated)
	s.do(t, prompted("plain", "Answer.", "Who keeps the light?", "m2", "Ada."), http.StatusCreated)
	s.do(t, prompted("other", "Answer.", "Who keeps the light?", "m1", "Bo."), http.StatusCreated)
	s.do(t, post(prefix+"/run-dags", `{"run_id":"night/dag","question":"Who keeps  the light?","dag":{"root":"`+strings.Repeat("1", 64)+`","nodes":[{"stage":"question","hash":"`+strings.Repeat("2", 64)+`"}]}}`), http.StatusCreated)
	s.do(t, post(prefix+"/citation-sets", `{"subject":"the light","citations":[{"source_id":"log","weight":1,"chunk_hash":"sha256:`+strings.Repeat("3", 64)+`"}]}`), http.StatusCreated)
	s.do(t, post(prefix+"/path-fingerprints", `{"project":"isle","route":["Pier","Tower"],"content":"Up."}`), http.StatusCreated)
	var groups struct{ Rows []struct{ Name *name } }
	s.do(t, get(groupsOf).asking("?after=7&names=true&by=system_prompt_hash"), http.StatusOK).decode(t, &groups)
	require.Len(t, groups.Rows, 2)
	require.Equal(t, &name{Words: "Answer."}, groups.Rows[0].Name, "its runs have different labels")
	require.Equal(t, "brief", groups.Rows[1].Name.Label)
	require.True(t, groups.Rows[1].Name.Cut)
	require.True(t, strings.HasPrefix(groups.Rows[1].Name.Words, "Answer briefly, and do not guess. Be kind. "))
	require.LessOrEqual(t, len(groups.Rows[1].Name.Words), 100)
	s.do(t, get(groupsOf).asking("?names=true&by=input"), http.StatusOK).decode(t, &groups)
	require.Equal(t, &name{Words: "Who keeps the light?"}, groups.Rows[0].Name)

	type run struct {
		Names struct {
			Model                       string
			Temperature                 float64
			Input, SystemPrompt, Output *name
		}
	}
	var effects struct {
		Rows []struct{ A, B run }
		Text struct {
			MostChanged []struct{ Name *name } `json:"most_changed"`
		}
	}
	var change wire.DriftAttribution
	s.do(t, get(attributionOf).asking("?a=2&b=3&names=true"), http.StatusOK).decode(t, &change)
	require.Equal(t, "The output changed because the system prompt differs (“Answer briefly, and do not guess. Be kind. Be ki…”, then “Answer.”); no other variable differs.", change.Summary)
	s.do(t, get(attributionOf).asking("?a=2&b=3"), http.StatusOK).decode(t, &change)
	require.Contains(t, change.Summary, "("+string(change.Differences[0].A[1:13])+"…, then ")
	s.do(t, get(effectsOf).asking("?names=true&text=true&variable=model&a=m1&b=m2"), http.StatusOK).decode(t, &effects)
	require.Equal(t, "m1", effects.Rows[0].A.Names.Model)
	require.InDelta(t, 0.5, effects.Rows[0].A.Names.Temperature, 0)
	require.Equal(t, &name{Words: "Who keeps the light?"}, effects.Rows[0].B.Names.Input)
	require.NotNil(t, effects.Rows[0].B.Names.Output)
	require.Equal(t, &name{Words: "Who keeps the light?"}, effects.Text.MostChanged[0].Name)
	var records struct{ Rows []struct{ Name *name } }
	s.do(t, get(prefix+"/records").asking("?names=true"), http.StatusOK).decode(t, &records)
	var words []string
	for _, row := range records.Rows {
		words = append(words, row.Name.Words)
	}
	require.Equal(t, []string{"isle: Pier → Tower", "the light", "Who keeps the light?", "Who keeps the light?", "Who keeps the light?", "Who keeps the light?", "Who keeps the light?"}, words)
	var dags struct{ Rows []struct{ Name *name } }
	for _, k := range []call{get(prefix + "/run-dags").asking("?names=true"), get(prefix + "/run-dags/groups").asking("?names=true&by=question_hash")} {
		s.do(t, k, http.StatusOK).decode(t, &dags)
		require.Equal(t, &name{Words: "Who keeps the light?"}, dags.Rows[0].Name)
	}
	for _, k := range []call{get(groupOf, "by", "model", "value", "m1").asking("?names=true"), get(timelineOf).asking("?names=true&model=m1"), get(attributionOf).asking("?names=true&a=1&b=2"), get(prefix+"/runs/{run_id}", "run_id", "night%2Fbrief-m1").asking("?names=true")} {
		require.Contains(t, string(s.do(t, k, http.StatusOK).body), `"words":"Who keeps the light?"`, k.route)
	}

	s.do(t, verb(http.MethodDelete, prefix+"/records/{seq}/content", `{"reason":"r"}`, "seq", "2"), http.StatusCreated)
	s.do(t, get(groupsOf).asking("?after=8&names=true&by=system_prompt_hash"), http.StatusOK).decode(t, &groups)
	require.NotEmpty(t, groups.Rows[1].Name.Words, "another run still has the text")
	s.do(t, verb(http.MethodDelete, prefix+"/records/{seq}/content", `{"reason":"r"}`, "seq", "1"), http.StatusCreated)
	groups.Rows = nil
	s.do(t, get(groupsOf).asking("?after=9&names=true&by=system_prompt_hash"), http.StatusOK).decode(t, &groups)
	require.Equal(t, &name{Label: "brief"}, groups.Rows[1].Name)
}

// A search finds events, hashes, values, and words, and lists exact values first.
func TestSearch(t *testing.T) {
	s := newServer(t)
	s.do(t, prompted("brief", "Answer briefly.", "Who keeps the light?", "Lamp-1", "Ada."), http.StatusCreated)
	s.do(t, post(prefix+"/path-fingerprints", `{"project":"isle","route":["Pier","Tower"],"content":"Up."}`), http.StatusCreated)
	s.do(t, verb(http.MethodPut, prefix+"/sources/{source_id}", `{"title":"The keeper's log"}`, "source_id", "book"), http.StatusCreated)
	var record struct {
		EventHash string `json:"event_hash"`
		Hashes    map[string]string
	}
	s.do(t, get(prefix+"/records/{seq}", "seq", "1").asking("?after=3"), http.StatusOK).decode(t, &record)
	prompt := record.Hashes["system_prompt_hash"]
	for q, want := range map[string]string{
		"1":                     "event 1",
		record.EventHash:        "event_hash " + record.EventHash,
		record.EventHash[:9]:    "event_hash " + record.EventHash,
		prompt:                  "system_prompt_hash " + prompt,
		prompt[:8]:              "system_prompt_hash " + prompt,
		"night/brief-Lamp-1":    "run_id night/brief-Lamp-1",
		"lamp":                  "model Lamp-1",
		"Lamp-1":                "model Lamp-1",
		"isle":                  "project isle",
		"keeper's":              "source_id book",
		"config=brief":          "label:config brief",
		"brief":                 "label:config brief",
		"conf":                  "label config",
		"answer  BRIEFLY":       "system_prompt_hash " + prompt,
		"keeps the":             "input " + inputOf(t, s, 1),
		"nothing has this":      "",
		"00000000000000":        "",
		strings.Repeat("0", 64): "",
	} {
		var found struct {
			Rows     []struct{ Type, Value string }
			Complete bool
		}
		s.do(t, get(searchOf).asking("?after=3&q="+url.QueryEscape(q)), http.StatusOK).decode(t, &found)
		require.True(t, found.Complete, q)
		if want == "" {
			require.Empty(t, found.Rows, q)
			continue
		}
		require.NotEmpty(t, found.Rows, q)
		require.Equal(t, want, found.Rows[0].Type+" "+found.Rows[0].Value, q)
	}
	s.do(t, get(searchOf).asking("?as_of=1&q=isle"), http.StatusOK)
	require.Contains(t, string(s.send(t, get(searchOf).asking("?q=%20"), http.StatusBadRequest).body), "q: is required")
	require.Contains(t, string(s.send(t, get(searchOf).asking("?q="+strings.Repeat("a", 257)), http.StatusBadRequest).body), "at most 256")
}

// inputOf returns the input value under which a run is grouped.
func inputOf(t *testing.T, s *server, seq uint64) string {
	t.Helper()
	var groups struct {
		Rows []struct {
			Seq   uint64
			Value string
		}
	}
	s.do(t, get(groupsOf).asking("?by=input"), http.StatusOK).decode(t, &groups)
	for _, row := range groups.Rows {
		if row.Seq == seq {
			return row.Value
		}
	}
	t.Fatalf("event %d has no input", seq)
	return ""
}

func TestSignInOfAnOpenServer(t *testing.T) {
	s := newServer(t)
	a := s.do(t, call{method: http.MethodGet, route: "/sign-in"}, http.StatusOK)
	require.JSONEq(t, `{"version":"v0","required":false,"tokens":false,"certificates":false,"read_only":false,"oidc":[]}`, string(a.body))
}

// Each value is listed once. The most recently introduced value comes first.
func TestValuesOfRuns(t *testing.T) {
	s := generated(t)
	listed := func(query string) (values []string) {
		var list struct {
			Rows []struct{ Value string }
			Next string
		}
		s.do(t, get(prefix+"/drift/values").asking("?after=7&"+query), http.StatusOK).decode(t, &list)
		for _, row := range list.Rows {
			values = append(values, row.Value)
		}
		if list.Next != "" {
			values = append(values, "more")
		}
		return values
	}
	require.Equal(t, []string{"0.0", "0.7"}, listed("of=temperature"))
	require.Equal(t, []string{"0.0", "more"}, listed("of=temperature&limit=1"))
	require.Equal(t, []string{"120"}, listed("of=max_tokens"))
	require.Equal(t, []string{"a/b"}, listed("of=label"))
	require.Contains(t, string(s.send(t, get(prefix+"/drift/values").asking("?of=seed"), http.StatusBadRequest).body), "must be one of temperature, max_tokens, label")
}

// Rates count the recorded events, however long the periods are.
func TestRates(t *testing.T) {
	s := generated(t)
	s.do(t, post(ipc, `{"payload":{"scene":"pier"},"model":"m","output":"a","output_hash":"`+strings.Repeat("0", 64)+`"}`), http.StatusCreated)
	type answer struct {
		AsOf uint64 `json:"as_of"`
		Step uint64
		Rows []struct {
			Events, Mismatches uint64
			NoOutput           uint64 `json:"no_output"`
			Drift              map[string]uint64
		}
	}
	ask := func(query string) (a answer) {
		s.do(t, get(prefix+"/rates").asking("?after=8"+query), http.StatusOK).decode(t, &a)
		return a
	}
	for _, query := range []string{"", "&step=1", "&step=86400", "&since=2026-01-01T00:00:00Z&until=2040-01-01T00:00:00Z"} {
		var events, mismatches, noOutput uint64
		causes := make(map[string]uint64)
		for _, row := range ask(query).Rows {
			events, mismatches, noOutput = events+row.Events, mismatches+row.Mismatches, noOutput+row.NoOutput
			for cause, n := range row.Drift {
				causes[cause] += n
			}
		}
		require.Equal(t, []uint64{9, 1, 1}, []uint64{events, mismatches, noOutput}, query)
		require.Equal(t, map[string]uint64{"identical": 1, "model": 2, "confounded": 1}, causes, query)
	}
	require.Len(t, ask("&step=86400&since=2026-01-01T00:00:00Z&until=2026-01-03T00:00:01Z").Rows, 3)
	require.Empty(t, ask("&since=2026-01-03T00:00:00Z&until=2026-01-01T00:00:00Z").Rows)
	require.Contains(t, string(s.send(t, get(prefix+"/rates").asking("?step=1&since=2020-01-01T00:00:00Z"), http.StatusBadRequest).body), "more than 500 periods")
	// A period can be longer than a time.Duration, which has at most 9,223,372,036 seconds.
	for _, step := range []uint64{9_223_372_037, 18_446_744_074, 31_536_000_000} {
		a := ask(fmt.Sprintf("&step=%d", step))
		require.Equal(t, step, a.Step)
		require.Len(t, a.Rows, 1, step)
		require.Equal(t, uint64(9), a.Rows[0].Events, step)
		var failures struct {
			Step    uint64
			Periods []struct{}
		}
		s.do(t, get(prefix+"/run-dags/failures").asking(fmt.Sprintf("?after=8&periods=true&step=%d", step)), http.StatusOK).decode(t, &failures)
		require.Equal(t, step, failures.Step)
		require.Len(t, failures.Periods, 1, step)
	}
	s.send(t, get(prefix+"/rates").asking("?step=31536000001"), http.StatusBadRequest)
	var old answer
	s.do(t, get(prefix+"/rates").asking("?as_of=3"), http.StatusOK).decode(t, &old)
	events := uint64(0)
	for _, row := range old.Rows {
		events += row.Events
	}
	require.Equal(t, uint64(3), events)
}
