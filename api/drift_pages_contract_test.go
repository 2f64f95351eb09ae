package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// groupPage decodes the members of a page of groups that the tests need.
type groupPage struct {
	AsOf uint64 `json:"as_of"`
	Rows []struct{ Value string }
	Next string
}

func (p *groupPage) values() (values []string) {
	for _, row := range p.Rows {
		values = append(values, row.Value)
	}
	return values
}

// At the head, a filter such as min_runs also determines the order of the groups. With as_of, the
// groups are in the default order. A cursor keeps the order of its first page.
func TestFiltersImplyAnOrder(t *testing.T) {
	s := generated(t)
	s.do(t, generation("ferry/6", "gemma2:2b", "0.7", "A third.", ``), http.StatusCreated)
	s.do(t, generation("ferry/7", "gemma2:9b", "0.7", "No ferry today.", ``), http.StatusCreated)
	page := func(query string) (p groupPage) {
		s.do(t, get(groupsOf).asking("?by=model&"+query), http.StatusOK).decode(t, &p)
		return p
	}
	s.do(t, get(groupsOf).asking("?by=model&after=9"), http.StatusOK)
	for query, want := range map[string][]string{
		"":                                         {"gemma2:9b", "gemma2:2b"},
		"min_runs=2":                               {"gemma2:2b", "gemma2:9b"},
		"min_runs=2&as_of=10":                      {"gemma2:9b", "gemma2:2b"},
		"min_runs=2&state=any":                     {"gemma2:9b", "gemma2:2b"},
		"min_outputs=2":                            {"gemma2:2b"},
		"since=2020-01-01T00:00:00Z":               {"gemma2:9b", "gemma2:2b"},
		"since=2020-01-01T00:00:00Z&as_of=9":       {"gemma2:9b", "gemma2:2b"},
		"since=2020-01-01T00:00:00Z&sort=flips":    {"gemma2:2b", "gemma2:9b"},
		"min_runs=1&sort=stability":                {"gemma2:2b", "gemma2:9b"},
		"min_runs=4&until=2120-01-01T00:00:00Z":    {"gemma2:2b"},
		"min_runs=2&sort=recent":                   {"gemma2:9b", "gemma2:2b"},
		"min_outputs=3&until=1970-01-02T00:00:00Z": nil,
	} {
		p := page(query)
		require.Equal(t, want, p.values(), query)
		require.Empty(t, p.Next, query)
	}
	requirePages(t, s, get(groupsOf), "after=9", "&by=model&min_runs=2")
	var recent []string
	for query := "limit=1"; query != ""; {
		p := page("since=2020-01-01T00:00:00Z&" + query)
		if recent, query = append(recent, p.values()...), ""; p.Next != "" {
			query = "limit=1&cursor=" + p.Next
		}
	}
	require.Equal(t, []string{"gemma2:9b", "gemma2:2b"}, recent)
	requirePages(t, s, get(groupsOf), "as_of=9", "&by=model&since=2020-01-01T00:00:00Z")
	requirePages(t, s, get(groupsOf), "as_of=10", "&by=model&min_runs=2")

	atHead, pinned := page("min_runs=2&limit=1"), page("min_runs=2&limit=1&as_of=10")
	s.do(t, generation("ferry/8", "other", "0.7", "x", ``), http.StatusCreated)
	require.Equal(t, uint64(10), atHead.AsOf)
	next := page("after=10&min_runs=2&limit=1&cursor=" + atHead.Next)
	require.Equal(t, uint64(11), next.AsOf)
	require.Equal(t, []string{"gemma2:9b"}, next.values())
	next = page("min_runs=2&limit=1&cursor=" + pinned.Next)
	require.Equal(t, uint64(10), next.AsOf)
	require.Equal(t, []string{"gemma2:2b"}, next.values())
	for _, query := range []string{"min_runs=2&as_of=10&cursor=" + atHead.Next, "sort=runs&cursor=" + pinned.Next, "cursor=" + atHead.Next,
		"min_runs=2&cursor=!"} {
		a := s.send(t, get(groupsOf).asking("?by=model&"+query), http.StatusBadRequest)
		require.Contains(t, string(a.body), `"pointer":"/cursor"`, query)
	}
}

// Every page of a group's outputs reflects the tree size of the first page.
func TestPagesOfOutputsAreOfOneSize(t *testing.T) {
	s := generated(t)
	group := get(groupOf, "by", "input_hash", "value", ferry)
	type answer struct {
		AsOf    uint64 `json:"as_of"`
		Outputs []struct {
			Seq, Runs uint64
		}
		Next        string
		OutputsNext string `json:"outputs_next"`
	}
	var first, second answer
	s.do(t, group.asking("?limit=1&after=7"), http.StatusOK).decode(t, &first)
	s.do(t, generation("ferry/6", "gemma2:2b", "0.7", "The ferry is late.", ``), http.StatusCreated)
	s.do(t, group.asking("?after=8"), http.StatusOK)
	s.do(t, group.asking("?limit=1&outputs_cursor="+first.OutputsNext), http.StatusOK).decode(t, &second)
	require.Equal(t, uint64(8), second.AsOf)
	require.Equal(t, uint64(1), second.Outputs[0].Seq)
	require.Equal(t, uint64(3), second.Outputs[0].Runs)
	require.Empty(t, second.OutputsNext)
	s.do(t, group.asking("?limit=1&as_of=8&outputs_cursor="+first.OutputsNext+"&cursor="+first.Next), http.StatusOK)

	var later answer
	s.do(t, group.asking("?limit=1"), http.StatusOK).decode(t, &later)
	for query, pointer := range map[string]string{
		"?as_of=9&outputs_cursor=" + first.OutputsNext:                   "/as_of",
		"?cursor=" + later.Next + "&outputs_cursor=" + first.OutputsNext: "/as_of",
		"?outputs_cursor=AA": "/outputs_cursor",
	} {
		require.Contains(t, string(s.send(t, group.asking(query), http.StatusBadRequest).body), fmt.Sprintf(`"pointer":%q`, pointer), query)
	}
}

// A client that has just recorded a run can query it immediately.
func TestDriftRightAfterAWrite(t *testing.T) {
	s := newServer(t)
	for seq := 1; seq < 40; seq++ {
		s.do(t, generation(fmt.Sprint("ferry/", seq), "gemma2:2b", "0.7", "The ferry is late.", ``), http.StatusCreated)
		if seq%2 == 0 {
			s.do(t, get(attributionOf).asking(fmt.Sprintf("?a=1&b=%d", seq)), http.StatusOK)
		} else {
			s.do(t, post(reproduceOf, fmt.Sprintf(`{"seq":%d,"output":"x"}`, seq)), http.StatusOK)
		}
	}
}

// A re-run has only the environment given in the request, not the recorded one. Its payload is
// parsed like the recorded payload.
func TestReproductionTakesNoEnvironment(t *testing.T) {
	s := newServer(t)
	axes := `{"axes":{"calm":{"label":%q,"score":%s}},"policy_hash":"p","seed":7,"world_id":"w"}`
	record := `{"payload":` + fmt.Sprintf(axes, " low ", "1") + `,"payload_schema":"axis-payload-1","system_prompt":"s","model":"m",` +
		`"temperature":0,"max_tokens":9,"output":"yes","environment":{"model_digest":"d","host_platform":"h","ollama_build_hash":"o"}}`
	s.do(t, post(ipc, record), http.StatusCreated)
	payload := fmt.Sprintf(axes, "low", "1.0")
	for rerun, want := range map[string]string{
		`{"seq":1,"output":"no"}`:                                                              `"cause":"stochastic_or_model_internal","output_changed":true,"differences":[]`,
		`{"seq":1,"output":"no","environment":{"model_digest":"d"}}`:                           `"cause":"stochastic",`,
		`{"seq":1,"output":"no","environment":{"model_digest":"e"}}`:                           `"cause":"model_internal",`,
		`{"seq":1,"output":"yes","payload":` + payload + `}`:                                   `"cause":"identical",`,
		`{"seq":1,"output":"yes","payload_schema":null,"payload":` + payload + `}`:             `"cause":"identical",`,
		`{"seq":1,"output":"yes","payload_schema":"axis-payload-1","payload":` + payload + `}`: `"cause":"identical",`,
		`{"seq":1,"output":"yes","payload":` + fmt.Sprintf(axes, "high", "1") + `}`:            `"cause":"no_effect",`,
	} {
		require.Contains(t, string(s.do(t, post(reproduceOf, rerun), http.StatusOK).body), want, rerun)
	}
}
