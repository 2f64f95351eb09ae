package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	groupsOf      = prefix + "/drift/groups"
	groupOf       = prefix + "/drift/groups/{by}/{value}"
	attributionOf = prefix + "/drift/attribution"
	timelineOf    = prefix + "/drift/timeline"
	effectsOf     = prefix + "/drift/effects"
	reproduceOf   = prefix + "/drift/reproduce"
)

// ferry is the input_hash of the runs that generation posts.
const ferry = "3609dc3060d2b43928749799d2ed7a49ced8a55f007fc60323032d9e676b2a53"

// generation returns a call that posts a run whose input_hash is ferry. It appends more to the
// members of the record.
func generation(run, model, temperature, output, more string) call {
	return post(ipc, fmt.Sprintf(`{"run_id":%q,"payload":{"scene":"ferry"},"system_prompt":"Describe it.","seed":7,"max_tokens":120,`+
		`"model":%q,"temperature":%s,"output":%q%s}`, run, model, temperature, output, more))
}

// generated returns a server with five generations of one input, at seqs 1 to 5:
//   - 1 and 2 use the same model.
//   - 3 uses a second model.
//   - 4 uses a different temperature.
//   - 5 uses a model whose name needs escaping.
//
// Event 6 marks generation 5 as failed. Record 7 is incomplete, so it is not a run.
func generated(t *testing.T) *server {
	s := newServer(t)
	for _, k := range []call{
		generation("ferry/1", "gemma2:2b", "0.7", "The ferry is late.", `,"labels":{"a/b":"c d"}`),
		generation("ferry/2", "gemma2:2b", "0.70", "The ferry is late.", ``),
		generation("ferry/3", "gemma2:9b", "0.7", "No ferry today.", ``),
		generation("ferry/4", "gemma2:2b", "0", "The ferry is late.", ``),
		generation("ferry/5", strange, "0", "Fog.", ``),
		verb(http.MethodPost, stateOf, `{"state":"failed","reason":"gibberish"}`, "seq", "5"),
		post(ipc, `{"payload":{"scene":"ferry"},"model":"gemma2:2b","temperature":0.7,"max_tokens":120}`),
	} {
		s.do(t, k, http.StatusCreated)
	}
	return s
}

// anyTime matches the times of events in an answer.
var anyTime = regexp.MustCompile(`"20[-0-9]*T[:.0-9]*Z"`)

// requireExample requires that a response equals the example in the contract, ignoring times.
func (s *server) requireExample(t *testing.T, name string, k call) {
	t.Helper()
	want := encode(t, "", s.Components.Examples[name].Value.Value)
	timeless := func(text []byte) string { return anyTime.ReplaceAllString(string(text), `"now"`) }
	require.JSONEq(t, timeless(want), timeless(s.do(t, k, http.StatusOK).body))
}

func TestDriftIsAnsweredAsTheContractSays(t *testing.T) {
	s := generated(t)
	s.requireExample(t, "GroupList", get(groupsOf).asking("?after=7&by=input_hash"))
	s.requireExample(t, "GroupList", get(groupsOf).asking("?by=input_hash&sort=runs&min_runs=4&min_outputs=2&since=2020-01-01T00:00:00Z"))
	s.requireExample(t, "GroupAnswer", get(groupOf, "by", "input_hash", "value", ferry))
	s.requireExample(t, "AttributionAnswer", get(attributionOf).asking("?a=1&b=3"))
	s.requireExample(t, "TimelineList", get(timelineOf).asking("?model=gemma2%3A2b"))
	s.requireExample(t, "EffectsAnswer", get(effectsOf).asking("?variable=model&a=gemma2%3A2b&b=gemma2%3A9b"))
	s.requireExample(t, "Reproduction", post(reproduceOf, `{"seq":1,"output":"The ferry is late.","seed":8}`))
}

// With state=any, answers also include runs that are not live. With as_of, they include the runs
// that were live at that size.
func TestDriftOfOtherStatesAndSizes(t *testing.T) {
	s := generated(t)
	model := get(groupOf, "by", "model", "value", url.PathEscape(strange))
	s.do(t, model.asking("?after=7"), http.StatusNotFound)
	for _, query := range []string{"?state=any", "?as_of=6"} {
		a := s.do(t, model.asking(query), http.StatusOK)
		require.Contains(t, string(a.body), `"runs":1,"distinct_outputs":1,"stability":1.000000,"entropy_bits":0.000000,"flips":0`)
		a = s.do(t, get(timelineOf).asking("?input_hash="+ferry), http.StatusOK)
		require.NotContains(t, string(a.body), `"seq":5`)
	}
	require.Contains(t, string(s.do(t, model.asking("?state=any"), http.StatusOK).body), `"state":"failed"`)
	for query, want := range map[string][]uint64{
		"?by=model":                            {3, 4},
		"?by=model&sort=recent":                {4, 3},
		"?by=model&sort=runs":                  {4, 3},
		"?by=input_hash&sort=flips":            {4},
		"?by=input_hash&sort=stability":        {4},
		"?by=model&sort=flips":                 {4, 3},
		"?by=model&sort=flips&min_outputs=2":   nil,
		"?by=model&state=any":                  {5, 3, 4},
		"?by=model&until=2020-01-01T00:00:00Z": nil,
		"?by=label:a%2Fb":                      {1},
	} {
		var list struct{ Rows []struct{ Seq uint64 } }
		s.do(t, get(groupsOf).asking(query), http.StatusOK).decode(t, &list)
		var seqs []uint64
		for _, row := range list.Rows {
			seqs = append(seqs, row.Seq)
		}
		require.Equal(t, want, seqs, query)
	}
	label := get(groupOf, "by", "label:a%2Fb", "value", "c%20d")
	require.Contains(t, string(s.do(t, label, http.StatusOK).body), `"value":"c d"`)
}

func TestDriftIsPagedAndProved(t *testing.T) {
	s := generated(t)
	s.do(t, get(groupsOf).asking("?after=7&by=model"), http.StatusOK)
	requirePages(t, s, get(groupsOf), "as_of=8", "&by=model&state=any")
	requirePages(t, s, get(groupsOf), "after=7", "&by=input_hash&sort=runs&min_runs=2")
	requirePages(t, s, get(groupOf, "by", "input_hash", "value", ferry), "as_of=8", "")
	requirePages(t, s, get(timelineOf), "as_of=8", "&model=gemma2%3A9b")
	requirePages(t, s, get(timelineOf), "as_of=8", "&ipc_id=f390e9fe321c657408ba56ac1a932b2fcfc27a923c7f03a2a75770fe74a241d5")
	requirePages(t, s, get(effectsOf), "as_of=8", "&variable=temperature&a=0.7&b=0e0")

	group := get(groupOf, "by", "input_hash", "value", ferry)
	var outputs []string
	for query := "?limit=1&as_of=8"; query != ""; {
		var page struct {
			Outputs []struct {
				Hash string `json:"output_hash"`
			}
			Next string `json:"outputs_next"`
		}
		s.do(t, group.asking(query), http.StatusOK).decode(t, &page)
		require.Len(t, page.Outputs, 1)
		outputs, query = append(outputs, page.Outputs[0].Hash), ""
		if page.Next != "" {
			query = "?limit=1&as_of=8&outputs_cursor=" + page.Next
		}
	}
	require.Len(t, outputs, 2)
	for _, k := range []call{get(attributionOf).asking("?a=1&b=2&proofs=true"), post(reproduceOf, `{"seq":1,"output":"x"}`).asking("?proofs=true")} {
		require.Contains(t, string(s.do(t, k, http.StatusOK).body), `"inclusion":{"leaf_index":1,`)
	}
}

// A re-run uses the recorded values, except for those that the request overrides.
func TestReproduction(t *testing.T) {
	s := generated(t)
	s.do(t, post(ipc, `{"payload":{"q":"why?","seed":1},"seed":7,"system_prompt":"p","output":"o","model":"m","temperature":0.7,"max_tokens":120}`), http.StatusCreated)
	s.do(t, post(ipc, `{"payload":{"q":"why?"},"ipc_id":"`+ferry+`","system_prompt":"p","output":"o","model":"m","temperature":0.7,"max_tokens":120}`), http.StatusCreated)
	s.do(t, get(groupsOf).asking("?after=9&by=model"), http.StatusOK)
	for _, c := range []struct{ name, body, id, output, cause, says string }{
		{"reproduced", `{"seq":1,"output":" The  ferry is late. "}`, "true", "true", "identical", "Reproduced"},
		{"spelled out", `{"seq":1,"payload":{"scene":"ferry","seed":7},"output":"x"}`, "false", "false", "stochastic_or_model_internal", "Not reproduced"},
		{"the payload's seed", `{"seq":1,"payload":{"scene":"ferry","seed":8},"output":"x"}`, "false", "false", "seed", "Not a reproduction"},
		{"all as recorded", `{"seq":1,"payload":{"scene":"ferry"},"system_prompt":"Describe it.","model":"gemma2:2b","temperature":0.70,` +
			`"max_tokens":120,"seed":null,"environment":null,"output":"x"}`, "true", "false", "stochastic_or_model_internal", "Not reproduced"},
		{"a known environment", `{"seq":1,"environment":{"model_digest":"d"},"output_hash":"` + ferry + `"}`, "true", "false", "stochastic_or_model_internal", "Not reproduced"},
		{"an incomplete record", `{"seq":7,"output":"x"}`, "false", "false", "incomplete", "cannot be compared"},
		{"the recorded payload, whose seed the record overrides", `{"seq":8,"payload":{"q":"why?","seed":1},"output":"o"}`, "true", "true", "identical", "Reproduced"},
		{"another payload with a seed", `{"seq":8,"payload":{"q":"how?","seed":1},"output":"o"}`, "false", "true", "no_effect", "input .* and seed"},
		{"a seed of its own", `{"seq":8,"payload":{"q":"why?","seed":1},"seed":1,"output":"x"}`, "false", "false", "seed", "Not a reproduction"},
		{"a claimed ipc_id without a seed", `{"seq":9,"seed":1,"output":"x"}`, "false", "false", "seed", "seed differs"},
		{"a complete re-run of it", `{"seq":7,"system_prompt":"p","seed":1,"output":"x"}`, "false", "false", "incomplete", "cannot be compared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := string(s.do(t, post(reproduceOf, c.body), http.StatusOK).body)
			require.Regexp(t, fmt.Sprintf(`"ipc_id":{[^}]*"match":%s},"output_hash":{[^}]*"match":%s},"cause":"%s",.*"says":"[^"]*%s`,
				c.id, c.output, c.cause, c.says), body)
		})
	}
}

func TestProblemsOfDriftAreAsTheContractSays(t *testing.T) {
	s := generated(t)
	var page struct{ Next string }
	s.do(t, get(groupsOf).asking("?after=7&by=model&limit=1"), http.StatusOK).decode(t, &page)
	for _, c := range []struct {
		name    string
		call    call
		status  int
		refused bool // whether the contract also rejects the request
		names   string
	}{
		{"no by", get(groupsOf), 400, true, "/by"},
		{"by what is not a group", get(groupsOf).asking("?by=seed"), 400, true, "/by"},
		{"a label without name", get(groupsOf).asking("?by=label:"), 400, true, "/by"},
		{"sort", get(groupsOf).asking("?by=model&sort=size"), 400, true, "/sort"},
		{"sort of another time", get(groupsOf).asking("?by=model&sort=runs&as_of=3"), 400, false, "/as_of"},
		{"sort of any", get(groupsOf).asking("?by=model&sort=runs&state=any"), 400, false, "/state"},
		{"since", get(groupsOf).asking("?by=model&since=now"), 400, true, "/since"},
		{"until", get(groupsOf).asking("?by=model&until=now"), 400, true, "/until"},
		{"cursor of another query", get(effectsOf).asking("?variable=model&a=x&b=y&cursor=" + page.Next), 400, false, "/cursor"},
		{"by in the path", get(groupOf, "by", "seed", "value", "7"), 400, true, "/by"},
		{"no such group", get(groupOf, "by", "model", "value", "none"), 404, false, ""},
		{"cursor of outputs", get(groupOf, "by", "model", "value", "gemma2:2b").asking("?outputs_cursor=!"), 400, false, "/outputs_cursor"},
		{"no a", get(attributionOf).asking("?b=1"), 400, true, "/a"},
		{"a beyond the head", get(attributionOf).asking("?a=9&b=1"), 400, false, "/a"},
		{"b is no IPC record", get(attributionOf).asking("?a=1&b=6"), 422, false, "/b"},
		{"no group of a timeline", get(timelineOf), 400, false, "/input"},
		{"two groups of a timeline", get(timelineOf).asking("?model=m&ipc_id=" + ferry), 400, false, "/model"},
		{"no hash", get(timelineOf).asking("?input_hash=x"), 400, true, "/input_hash"},
		{"variable", get(effectsOf).asking("?variable=host_platform&a=x&b=y"), 400, true, "/variable"},
		{"totals", get(effectsOf).asking("?variable=model&a=x&b=y&totals=some"), 400, true, "/totals"},
		{"no value", get(effectsOf).asking("?variable=model&a=x"), 400, true, "/b"},
		{"one value twice", get(effectsOf).asking("?variable=temperature&a=1&b=1.0"), 400, false, "/b"},
		{"no number", get(effectsOf).asking("?variable=temperature&a=Inf&b=1.0"), 400, false, "/a"},
		{"no integer", get(effectsOf).asking("?variable=seed&a=1&b=1.5"), 400, false, "/b"},
		{"no digest", get(effectsOf).asking("?variable=input_hash&a=1&b=2"), 400, false, "/a"},
		{"not JSON", post(reproduceOf, `{`), 400, true, ""},
		{"not an object", post(reproduceOf, `[]`), 422, true, ""},
		{"unknown member", post(reproduceOf, `{"seq":1,"output":"x","ipc_id":"x"}`), 400, true, "/ipc_id"},
		{"no seq", post(reproduceOf, `{"output":"x"}`), 422, true, "/seq"},
		{"no output", post(reproduceOf, `{"seq":1}`), 422, false, "/output"},
		{"no IPC record", post(reproduceOf, `{"seq":6,"output":"x"}`), 422, false, "/seq"},
		{"max_tokens", post(reproduceOf, `{"seq":1,"output":"x","max_tokens":-1}`), 422, true, "/max_tokens"},
		{"no such ledger", get(groupsOf).of("nowhere").asking("?by=model"), 404, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.send(t, c.call, c.status)
			if c.names != "" {
				require.Contains(t, string(a.body), fmt.Sprintf(`"pointer":%q`, c.names))
			}
			err := s.checkRequest(c.call, c.call.request(t, s.url))
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
}
