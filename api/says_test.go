package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The 409 for a conflict names the key that is already in use: the Idempotency-Key or the
// run_id.
func TestConflictsNameTheKey(t *testing.T) {
	s := start(t)
	const byRun = "the run_id is already used by a different record of this kind, event 1; give each run its own run_id, or send the same record again"
	s.post("/ipc-records", ipcBody("a", "x")).want(http.StatusCreated)
	require.Equal(t, byRun, s.post("/ipc-records", ipcBody("a", "y")).problem(http.StatusConflict).Detail)
	s.post("/ipc-records", ipcBody("b", "x"), "Idempotency-Key", "k").want(http.StatusCreated)
	require.Equal(t, "the idempotency key is already used by a different record, event 3",
		s.post("/ipc-records", ipcBody("b", "y"), "Idempotency-Key", "k").problem(http.StatusConflict).Detail)
	keyed := `{"kind":"ipc_record","idempotency_key":"k","record":` + ipcBody("c", "z") + "}\n"
	lines := s.do(http.MethodPost, "/batch", ipcLine("a", "z")+keyed, "Content-Type", "application/x-ndjson").want(http.StatusOK).lines()
	require.Contains(t, string(lines[0]), byRun)
	require.Contains(t, string(lines[1]), "the idempotency key is already used by a different record, event 3")
}

// An error about a parameter says how to correct it.
func TestParametersAreExplained(t *testing.T) {
	s := start(t)
	for query, want := range map[string]string{
		"/drift/groups?by=model&sort=runs&as_of=1": `as_of: cannot be combined with "sort", because rankings exist only at the latest tree size`,
		"/drift/attribution?c=1":                   "c: unknown query parameter; the known parameters are a, after, as_of, b, names, proofs, text",
		"/drift/timeline?seed=1": "seed: unknown query parameter; the known parameters are after, as_of, cursor, input, input_hash, ipc_id, label:<name>, " +
			"limit, model, names, ollama_build_hash, output_hash, proofs, seeded, state, system_prompt_hash, text",
		"/drift/groups?by=model&seeded=true": "seeded: unknown query parameter; group counts include runs without a seed; " +
			"to list the seeded runs of a group, use this parameter with /drift/groups/{by}/{value}",
		"/drift/effects?variable=label:&a=1&b=2": "variable: must be one of input, input_hash, system_prompt_hash, model, temperature, max_tokens, seed, ollama_build_hash, label:<name>, or the JSON pointer of a member of the payload, such as /policy_hash",
		"/stats?x=1":                             "x: unknown query parameter; this route accepts no query parameters",
		"/records?limit=abc":                     "limit: must be a number from 1 to 1000",
		"/records?limit=1001":                    "limit: must be a number from 1 to 1000",
		"/events?limit=0":                        "limit: must be a number from 1 to 1000",
		"/drift/timeline?input_hash=xy":          "input_hash: must be 8 to 64 lower-case hexadecimal digits",
	} {
		require.Equal(t, want, s.get(query).problem(http.StatusBadRequest).Detail, query)
	}
	require.Contains(t, s.get("/records?sha=1").problem(http.StatusBadRequest).Detail, "the known parameters are after, as_of, audit_mode, cache_key, ")
	require.Contains(t, s.get("/records?sha=1").problem(http.StatusBadRequest).Detail, ", label:<name>, ")
	for body, want := range map[string]string{
		`{"output":"x"}`:           "is required; use the seq of the IPC record that was re-run",
		`{"seq":null}`:             "is required; use the seq of the IPC record that was re-run",
		`{"seq":"1","output":"x"}`: "must be a number: the seq of the IPC record that was re-run",
		`{"seq":1.5,"output":"x"}`: "must be a number: the seq of the IPC record that was re-run",
	} {
		require.Contains(t, s.post("/drift/reproduce", body).problem(http.StatusUnprocessableEntity).Detail, want, body)
	}
}

// The 404 for a group says whether the group has runs that are not live.
func TestMissingGroupsAreExplained(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "x")).want(http.StatusCreated)
	s.post("/ipc-records", `{"payload":{},"model":"n","temperature":0,"max_tokens":9}`).want(http.StatusCreated)
	s.post("/records/1/state", `{"state":"stale","reason":"r"}`).want(http.StatusCreated)
	require.Contains(t, s.get("/drift/groups/model/m?after=3").problem(http.StatusNotFound).Detail, "state=any")
	s.get("/drift/groups/model/m?state=any").want(http.StatusOK)
	for _, query := range []string{"", "?state=any"} {
		detail := s.get("/drift/groups/model/n" + query).problem(http.StatusNotFound).Detail
		require.Contains(t, detail, "a run is an IPC record with an input and an output")
		require.NotContains(t, detail, "state=any")
	}
}

// An attribution shows the states and the mismatches of the compared records.
func TestAttributionShowsMismatches(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "x")).want(http.StatusCreated)
	tampered := `{"payload":{"seed":1},"system_prompt":"Be brief.","output":"y","model":"m","temperature":0.5,"max_tokens":10,` +
		`"output_hash":"0000000000000000000000000000000000000000000000000000000000000000"}`
	s.post("/ipc-records", tampered).want(http.StatusCreated)
	s.post("/records/2/state", `{"state":"quarantined","reason":"r"}`).want(http.StatusCreated)
	const says = "The output_hash of event 2, computed from its content, does not match the claimed value."
	for query, times := range map[string]int{"?a=1&b=2&after=3": 1, "?a=2&b=1&after=3": 1, "?a=2&b=2&after=3": 1, "?a=1&b=1&after=3": 0} {
		a := s.get("/drift/attribution" + query).want(http.StatusOK)
		var found struct{ Says string }
		a.json(&found)
		require.Equal(t, times, strings.Count(found.Says, says), query)
	}
	a := string(s.get("/drift/attribution?a=1&b=2").want(http.StatusOK).body)
	require.Contains(t, a, `"state":"live","mismatches":[]`)
	require.Contains(t, a, `"state":"quarantined","mismatches":["output_hash"]`)
}
