package rerun_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/rerun"
	"colophon/internal/testing/ledgertest"
	"colophon/internal/testing/llm"
)

// openLedger returns an empty ledger on its own server, and the URL of that server.
func openLedger(t *testing.T) (*client.Ledger, string) {
	t.Helper()
	url, stop := ledgertest.Serve(t, t.TempDir())
	t.Cleanup(stop)
	server := strings.TrimSuffix(url, "/v1/ledgers/default")
	return connect(t, server), server
}

func connect(t *testing.T, server string) *client.Ledger {
	t.Helper()
	c, err := client.New(server)
	require.NoError(t, err)
	return c.Ledger("default")
}

func startLLM(t *testing.T) *llm.Server {
	t.Helper()
	s := llm.New()
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, to *client.Ledger, record *wire.IPCRecord) uint64 {
	t.Helper()
	receipt, err := to.Records.Post(t.Context(), record, nil)
	require.NoError(t, err)
	return receipt.Seq
}

// generation returns an IPC record for the test model, with a seed.
func generation(payload, output string) *wire.IPCRecord {
	return &wire.IPCRecord{Payload: json.RawMessage(payload), SystemPrompt: new("Be brief."), Output: &output, Model: llm.Model,
		Temperature: new(0.7), MaxTokens: wire.IntNumber(64), Seed: wire.IntNumber(7)}
}

func endpoint(t *testing.T, url string, api rerun.API) *rerun.Endpoint {
	t.Helper()
	e, err := rerun.NewEndpoint(url, api)
	require.NoError(t, err)
	e.Timeout, e.APIKeyEnvVar = time.Minute, "MY_KEY"
	return e
}

// plan returns a plan to rerun the record with the given seq at the endpoint.
func plan(t *testing.T, from *client.Ledger, e *rerun.Endpoint, seq uint64, runs int) *rerun.Plan {
	t.Helper()
	record, err := rerun.FetchRecord(t.Context(), from, seq)
	require.NoError(t, err)
	request, err := e.NewRequest(record, "")
	require.NoError(t, err)
	return &rerun.Plan{Record: record, Endpoint: e, Request: request, RunCount: runs, Labels: map[string]string{"by": "test"}}
}

func ignore(rerun.Run) error { return nil }

func TestRunsOfBothShapes(t *testing.T) {
	to, _ := openLedger(t)
	for name, test := range map[string]struct {
		url, payload, output, path, body string
		unsent                           []string
		usage                            string
	}{
		"ollama text": {
			payload: `{"prompt": "Who keeps the light?", "top_p": 0.9, "topic": "sea", "seed": 7}`, output: "Echo 7: Who keeps the light?", path: "/api/generate",
			body:   `{"model":"tiny:1b","system":"Be brief.","prompt":"Who keeps the light?","stream":false,"options":{"num_predict":64,"seed":7,"temperature":0.7,"top_p":0.9}}`,
			unsent: []string{"topic"}, usage: `{"eval_count":3,"prompt_eval_count":5}`,
		},
		"ollama messages": {
			payload: `{"messages": [{"role": "user", "content": "Who?"}], "options": {"num_ctx": 2048, "seed": 1, "stop": null}}`, output: "Echo 7: Who?", path: "/api/chat",
			body:   `{"model":"tiny:1b","messages":[{"role":"system","content":"Be brief."},{"role": "user", "content": "Who?"}],"stream":false,"options":{"num_ctx":2048,"num_predict":64,"seed":7,"temperature":0.7}}`,
			unsent: []string{}, usage: `{"eval_count":3,"prompt_eval_count":5}`,
		},
		"openai messages": {
			url: "/v1", payload: `{"messages": [{"role": "system", "content": "Be long."}, {"role": "user", "content": "Who?"}], "stop": ["x"], "options": {"num_ctx": 2048}}`,
			output: "Echo 7: Who?", path: "/v1/chat/completions",
			body:   `{"max_tokens":64,"messages":[{"role": "system", "content": "Be long."},{"role": "user", "content": "Who?"}],"model":"tiny:1b","seed":7,"stop":["x"],"stream":false,"temperature":0.7}`,
			unsent: []string{"options"}, usage: `{"completion_tokens":3,"prompt_tokens":5,"total_tokens":8}`,
		},
		"openai payload": {
			url: "/v1/chat/completions/", payload: `{"question": "Who?",  "seed": 7}`, output: `Echo 7: {"question": "Who?",  "seed": 7}`, path: "/v1/chat/completions",
			body:   `{"max_tokens":64,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"{\"question\": \"Who?\",  \"seed\": 7}"}],"model":"tiny:1b","seed":7,"stream":false,"temperature":0.7}`,
			unsent: []string{}, usage: `{"completion_tokens":3,"prompt_tokens":5,"total_tokens":8}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := startLLM(t)
			server.Key = "secret"
			recorded := generation(test.payload, test.output)
			seq := post(t, to, recorded)
			e := endpoint(t, server.URL+test.url, "")
			e.APIKey = "secret"
			p := plan(t, to, e, seq, 3)
			require.Equal(t, test.unsent, p.Request.UnsentMembers)
			var shown []rerun.Run
			report, err := p.Run(t.Context(), to, func(run rerun.Run) error {
				shown = append(shown, run)
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, shown, report.Runs)
			require.Len(t, report.Runs, 3)
			require.Equal(t, 3, report.EqualRuns)
			require.Equal(t, 1, report.DistinctOutputs)
			require.Equal(t, "Reproduced: 3 of 3 runs have the recorded output; 1 distinct output.", report.Summary)
			for i, sent := range server.Requests() {
				require.Equal(t, llm.ReceivedRequest{Path: test.path, Authorization: "Bearer secret", Body: test.body}, sent)
				run := report.Runs[i]
				require.Equal(t, wire.DriftCause("identical"), run.Cause)
				require.Equal(t, "Nothing differs: the inputs and the output are the same.", run.Summary)
			}
			row, err := to.Records.Get(t.Context(), report.Runs[2].Seq, nil)
			require.NoError(t, err)
			first, err := to.Records.Get(t.Context(), seq, nil)
			require.NoError(t, err)
			require.Equal(t, first.Hashes, row.Hashes)
			body, err := wire.ParseEvent(row.Event)
			require.NoError(t, err)
			var posted wire.IPCRecordEvent
			require.NoError(t, json.Unmarshal(body.Record, &posted))
			require.JSONEq(t, test.usage, string(posted.Usage))
			labels := map[string]string{"rerun_of": fmt.Sprint(seq), "by": "test"}
			if e.API == rerun.APIOpenAI {
				labels["system_fingerprint"] = "fp_1"
				require.Empty(t, posted.Environment)
			} else {
				require.Equal(t, map[string]string{"model_digest": llm.Digest}, posted.Environment)
			}
			require.Equal(t, labels, posted.Labels)
		})
	}
}

func TestConclusions(t *testing.T) {
	to, _ := openLedger(t)
	const payload = `{"prompt":"Who?"}`
	other := generation(payload, "Ana.")
	unseeded := generation(payload, "Ana.")
	unseeded.Seed = ""
	cold := generation(payload, "Ana.")
	cold.Temperature = new(0.0)
	for name, test := range map[string]struct {
		recorded         *wire.IPCRecord
		ignoreSeed       bool
		runs             int
		cause            wire.DriftCause
		equal, different int
		says             string
	}{
		"stable":        {other, false, 3, wire.DriftCauseStochasticOrModelInternal, 0, 1, "Not reproduced, but stable: 0 of 3 runs have the recorded output; 1 distinct output. Something that the record does not name differs"},
		"one run":       {other, false, 1, wire.DriftCauseStochasticOrModelInternal, 0, 1, "Not reproduced: 0 of 1 run has the recorded output; 1 distinct output. More runs (-n) show"},
		"seed ignored":  {other, true, 3, wire.DriftCauseStochasticOrModelInternal, 0, 3, "Not reproducible here: 0 of 3 runs have the recorded output; 3 distinct outputs. The endpoint ignores the seed"},
		"temperature 0": {cold, true, 2, wire.DriftCauseStochasticOrModelInternal, 0, 2, "Not reproducible here: 0 of 2 runs have the recorded output; 2 distinct outputs. The temperature is 0"},
		"partly":        {generation(payload, "Echo, time 2: Who?"), true, 3, "", 1, 3, "Not reproducible here: 1 of 3 runs have the recorded output; 3 distinct outputs. The endpoint ignores the seed"},
		"no seed":       {unseeded, false, 2, "", 0, 2, "Not reproducible here: 0 of 2 runs have the recorded output; 2 distinct outputs. The record has no seed"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startLLM(t)
			server.IgnoreSeed = test.ignoreSeed
			report, err := plan(t, to, endpoint(t, server.URL, ""), post(t, to, test.recorded), test.runs).Run(t.Context(), to, ignore)
			require.NoError(t, err)
			require.Len(t, report.Runs, test.runs)
			require.Equal(t, test.equal, report.EqualRuns)
			require.Equal(t, test.different, report.DistinctOutputs)
			require.True(t, strings.HasPrefix(report.Summary, test.says), report.Summary)
			if test.cause != "" {
				require.Equal(t, test.cause, report.Runs[0].Cause)
			}
		})
	}
}

// The model digest in a record is compared with the endpoint's, even if it begins with "sha256:" or is
// shortened to 12 digits. If the two differ, the cause of a change is model_internal.
func TestModelDigests(t *testing.T) {
	to, _ := openLedger(t)
	server := startLLM(t)
	for recorded, cause := range map[string]wire.DriftCause{
		llm.Digest: wire.DriftCauseStochastic, "sha256:" + llm.Digest: wire.DriftCauseStochastic, llm.Digest[:12]: wire.DriftCauseStochastic,
		llm.Digest[:11]: wire.DriftCauseModelInternal, "f" + llm.Digest[1:]: wire.DriftCauseModelInternal,
	} {
		record := generation(`{"prompt":"Who?"}`, "Ana.")
		record.Environment = &wire.Environment{ModelDigest: &recorded}
		report, err := plan(t, to, endpoint(t, server.URL, ""), post(t, to, record), 1).Run(t.Context(), to, ignore)
		require.NoError(t, err)
		require.Equal(t, cause, report.Runs[0].Cause, recorded)
	}
}

func TestRecordsThatCannotBeRepeated(t *testing.T) {
	to, server := openLedger(t)
	const hash = ledgertest.ZeroHash
	hashed := generation(`{}`, "Ana.")
	hashed.Payload, hashed.InputHash = nil, hash
	prompted := generation(`{}`, "Ana.")
	prompted.SystemPrompt, prompted.SystemPromptHash = nil, hash
	silent := generation(`{}`, "")
	silent.Output = nil
	erased := post(t, to, generation(`{"q":1}`, "Ana."))
	_, err := to.Records.Redact(t.Context(), erased, "Asked for.", nil)
	require.NoError(t, err)
	for says, seq := range map[string]uint64{
		"event 0 is of kind ledger_created":         0,
		"event 2 erased the content of event 1":     erased,
		"was posted with input_hash only":           post(t, to, hashed),
		"was posted with system_prompt_hash only":   post(t, to, prompted),
		"has no output to compare new outputs with": post(t, to, silent),
	} {
		_, err := rerun.FetchRecord(t.Context(), to, seq)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "; give the seq of ")
	}
	_, err = rerun.FetchRecord(t.Context(), to, 99)
	require.ErrorIs(t, err, client.ErrNotFound)

	// FetchRecord refuses content that does not have the digest that the event states.
	seq := post(t, to, generation(`{"q":2}`, "Ana."))
	liar := proxy(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		lies := strings.HasSuffix(r.URL.Path, "/content/payload")
		if lies {
			_, _ = io.WriteString(w, `{"q":3}`)
		}
		return lies
	})
	_, err = rerun.FetchRecord(t.Context(), connect(t, liar), seq)
	require.ErrorContains(t, err, "does not match the SHA-256")
}

func TestPromptMember(t *testing.T) {
	to, _ := openLedger(t)
	record, err := rerun.FetchRecord(t.Context(), to, post(t, to, generation(`{"prompt":["no text"],"instruction":"Who?","turns":[{"role":"user","content":"Who?"}],"n":[1]}`, "Ana.")))
	require.NoError(t, err)
	e := endpoint(t, "http://127.0.0.1:1", "")
	request, err := e.NewRequest(record, "instruction")
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:1/api/generate", request.URL)
	require.Contains(t, string(request.Body), `"prompt":"Who?"`)
	require.Equal(t, []string{"n", "prompt", "turns"}, request.UnsentMembers)
	request, err = e.NewRequest(record, "turns")
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:1/api/chat", request.URL)
	request, err = e.NewRequest(record, "")
	require.NoError(t, err)
	require.Contains(t, string(request.Body), `"prompt":"{\"prompt\":[`)
	_, err = e.NewRequest(record, "n")
	require.ErrorContains(t, err, "neither a string nor a list of messages")
	_, err = e.NewRequest(record, "question")
	require.ErrorContains(t, err, `has no member "question"; its members are instruction, n, prompt, turns`)
}

func TestEndpointURLs(t *testing.T) {
	for given, want := range map[string]struct {
		base string
		api  rerun.API
	}{
		"http://h:1":                             {"http://h:1", rerun.APIOllama},
		"http://h:1/":                            {"http://h:1", rerun.APIOllama},
		"http://h:1/api/chat":                    {"http://h:1", rerun.APIOllama},
		"https://h/ollama/api/generate":          {"https://h/ollama", rerun.APIOllama},
		"http://h:1/v1":                          {"http://h:1/v1", rerun.APIOpenAI},
		"http://h:1/v1/":                         {"http://h:1/v1", rerun.APIOpenAI},
		"https://h/beta/openai/chat/completions": {"https://h/beta/openai", rerun.APIOpenAI},
	} {
		e, err := rerun.NewEndpoint(given, "")
		require.NoError(t, err)
		require.Equal(t, want.base, e.String())
		require.Equal(t, want.api, e.API, given)
	}
	for given, says := range map[string]string{
		"h:1": `invalid value "h:1"; use a URL`, "": `invalid value ""; use a URL`, "ftp://h": `invalid value "ftp://h"; use a URL`,
		"http://u:secret@h": "--key-variable", "http://h?key=secret": "--key-variable", "http://h#secret": "--key-variable",
	} {
		_, err := rerun.NewEndpoint(given, "")
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, cli.ExitUsage, exitCode(t, err))
	}
	_, err := rerun.NewEndpoint("http://h", "other")
	require.ErrorContains(t, err, "use ollama or openai")
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	exit := (*cli.ExitError)(nil)
	require.ErrorAs(t, err, &exit)
	return exit.Code
}

func TestEndpointFails(t *testing.T) {
	to, _ := openLedger(t)
	seq := post(t, to, generation(`{"prompt":"Who?"}`, "Ana."))
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://thief.example/")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		path, key string
		api       rerun.API
		answer    http.HandlerFunc
		code      int
		says      string
	}{
		"no key":        {"", "", "", answer(401, `{"error":"who are you"}`), cli.ExitFailed, `/api/generate: 401 "who are you"; the endpoint requires an API key: put it into the environment variable MY_KEY`},
		"bad key":       {"/v1", "secret", "", answer(403, `{"error":{"message":"bad key"}}`), cli.ExitFailed, `/v1/chat/completions: 403 "bad key"; the endpoint rejects the API key in the environment variable MY_KEY`},
		"no model":      {"", "", "", answer(404, `{"error":"model 'm' not found"}`), cli.ExitFailed, "the endpoint does not have the recorded model: add the model to the endpoint (Ollama: ollama pull)"},
		"not Ollama":    {"", "", "", answer(404, `404 page not found`), cli.ExitFailed, ": 404; the endpoint does not seem to implement Ollama's API: if it implements OpenAI's API, give a URL that ends in /v1"},
		"not OpenAI":    {"", "", "openai", answer(404, `{"detail":"Not Found"}`), cli.ExitFailed, `/chat/completions: 404 "Not Found"; the endpoint does not seem to implement OpenAI's API`},
		"limited":       {"/v1", "", "", answer(429, ``), cli.ExitFailed, "wait, then run the command again with -n set to the number of remaining runs"},
		"busy":          {"", "", "", answer(503, `{"error":"server busy"}`), cli.ExitFailed, "the endpoint is busy"},
		"broken":        {"", "", "", answer(500, `{"message":"out of memory"}`), cli.ExitFailed, `500 "out of memory"; see the log of the endpoint`},
		"redirect":      {"", "secret", "", answer(307, ``), cli.ExitFailed, `redirects to "http://thief.example/"`},
		"seed":          {"/v1", "", "", answer(422, `{"message":"Extra inputs are not permitted: seed"}`), cli.ExitFailed, "the endpoint accepts no seed"},
		"other request": {"/v1", "", "", answer(400, `{"error":{"message":"Unsupported parameter: 'max_tokens'"}}`), cli.ExitFailed, "the endpoint does not accept the request; to see the request, run the command with --dry-run"},
		"other shape":   {"", "", "", answer(200, `{"choices":[]}`), cli.ExitFailed, "does not conform to the Ollama API: the response contains no text; use --api"},
		"no JSON":       {"/v1", "", "", answer(200, `<html>`), cli.ExitFailed, "does not conform to the OpenAI API: invalid JSON"},
		"no choice":     {"/v1", "", "", answer(200, `{"choices":[]}`), cli.ExitFailed, "the response contains no text"},
		"half a pair":   {"", "", "", answer(200, `{"response":"\ud800"}`), cli.ExitFailed, "an unpaired surrogate"},
		"many values":   {"", "", "", answer(200, `{"context":[`+strings.Repeat("1,", 1<<20)+`1]}`), cli.ExitFailed, "does not conform to the Ollama API"},
		"too long":      {"", "", "", answer(200, `{"response":"`+strings.Repeat("x", 4<<20)+`"}`), cli.ExitFailed, "is longer than 4194304 bytes"},
		"broken off": {"", "", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"response":`)
		}, cli.ExitUnreachable, "no response from http://127.0.0.1"},
		"silent": {"", "", "", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, cli.ExitUnreachable, "use a longer --timeout"},
		"slow": {"", "", "", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, cli.ExitUnreachable, "use a longer --timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startLLM(t)
			server.Handler = test.answer
			e := endpoint(t, server.URL+test.path, test.api)
			e.APIKey = test.key
			if name == "not OpenAI" {
				server.Config.Handler = test.answer
			}
			if name == "silent" || name == "slow" {
				e.Timeout = 50 * time.Millisecond
			}
			report, err := plan(t, to, e, seq, 2).Run(t.Context(), to, ignore)
			require.ErrorContains(t, err, test.says)
			require.Equal(t, test.code, exitCode(t, err))
			require.NotContains(t, err.Error(), "secret")
			require.Empty(t, report.Runs)
			require.Equal(t, "No run has finished.", report.Summary)
		})
	}
	gone := startLLM(t)
	gone.Close()
	_, err := plan(t, to, endpoint(t, gone.URL, ""), seq, 1).Run(t.Context(), to, ignore)
	require.ErrorContains(t, err, "check that the endpoint is running")
	require.Equal(t, cli.ExitUnreachable, exitCode(t, err))
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	defer encrypted.Close()
	_, err = plan(t, to, endpoint(t, encrypted.URL, ""), seq, 1).Run(t.Context(), to, ignore)
	require.ErrorContains(t, err, "on the endpoint, install a certificate that this machine trusts")
}

// If Run fails, its report contains the runs that were posted before the failure.
func TestReportOfAFailure(t *testing.T) {
	to, ledger := openLedger(t)
	server := startLLM(t)
	p := plan(t, to, endpoint(t, server.URL, ""), post(t, to, generation(`{"prompt":"Who?"}`, "Echo 7: Who?")), 5)
	ctx, cancel := context.WithCancel(t.Context())
	report, err := p.Run(ctx, to, func(run rerun.Run) error {
		if len(server.Requests()) == 2 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, report.Runs, 2)
	require.Equal(t, 2, report.EqualRuns)
	require.Equal(t, 5, report.RequestedRuns)

	// The ledger's server fails during the second run: first when the output is posted, and then
	// when the comparison is requested.
	for failing, runs := range map[string]int{"/ipc-records": 1, "/drift/attribution": 2} {
		seen := 0
		between := proxy(t, ledger, func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, failing) {
				return false
			}
			if seen++; seen == 2 {
				w.WriteHeader(http.StatusForbidden)
			}
			return seen == 2
		})
		report, err = p.Run(t.Context(), connect(t, between), ignore)
		require.ErrorIs(t, err, client.ErrForbidden)
		require.Len(t, report.Runs, runs)
	}
}

// proxy returns the URL of a proxy in front of a server. It forwards the requests for which answer
// returns false.
func proxy(t *testing.T, server string, answer func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(server)
	require.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(between.Close)
	return between.URL
}
