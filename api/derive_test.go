package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

// derived posts a record with derive=true, verifies the receipt, and returns the derived
// facts.
func (s *service) derived(path, body string) (facts wire.DerivedMembers) {
	s.t.Helper()
	a := s.post(path+"?derive=true", body).want(http.StatusCreated)
	s.verified(a)
	a.json(&facts)
	return facts
}

func TestDerivedFactsOfRuns(t *testing.T) {
	s := start(t)
	const body = `{"payload":{"seed":1},"system_prompt":"p","output":"%","model":"m","temperature":0,"max_tokens":9}`
	run := func(output string) string { return strings.Replace(body, "%", output, 1) }
	require.Equal(t, wire.DerivedMembers{}, s.derived("/ipc-records", run("a")), "there is no previous run")
	require.Equal(t, &wire.DerivedDrift{PreviousSeq: 1, Cause: "identical", Variables: []string{}}, s.derived("/ipc-records", run("a")).Drift)
	other := strings.Replace(run("b"), `"m"`, `"n"`, 1)
	require.Equal(t, &wire.DerivedDrift{PreviousSeq: 2, Cause: "model", Variables: []string{"model"}, OutputChanged: true}, s.derived("/ipc-records", other).Drift)
	s.post("/records/3/state", `{"state":"failed","reason":"r"}`).want(http.StatusCreated)
	require.Equal(t, &wire.DerivedDrift{PreviousSeq: 2, Cause: "stochastic_or_model_internal", Variables: []string{}, OutputChanged: true},
		s.derived("/ipc-records", run("c")).Drift, "event 3 has failed")
	require.Equal(t, wire.DerivedMembers{Incomplete: []string{"output"}}, s.derived("/ipc-records", strings.Replace(run("d"), `"output":"d",`, "", 1)), "an incomplete record is not a run")
	require.Equal(t, wire.DerivedMembers{Incomplete: []string{"system_prompt", "output", "seed"}},
		s.derived("/ipc-records", `{"payload":{},"model":"m","temperature":0,"max_tokens":9}`), "all that a record may lack")
}

// someDimensions is a JSON object of cache dimensions. Tests replace its schema_version and
// chunking_version.
const someDimensions = `{"source_root":"` + zeros + `","question_hash":"` + zeros + `","model_profile_hash":"` + zeros + `","conversation_hash":"` + zeros +
	`","governance_policy_hash":"` + zeros + `","schema_version":"s1","canonicalization_version":"1","chunking_version":"c1"}`

func TestDerivedFactsOfRunDAGs(t *testing.T) {
	s := start(t)
	const body = `{"question":"why?","dag":{"root":"00%","nodes":[{"stage":"question","hash":"00%"},{"stage":"answer","hash":"11%"}]}}`
	filled := strings.ReplaceAll(body, "%", strings.Repeat("0", 62))
	require.Equal(t, wire.DerivedMembers{}, s.derived("/run-dags", filled))
	require.Equal(t, &wire.DerivedDivergence{PreviousSeq: 1, Cause: wire.DivergenceCauseIdentical}, s.derived("/run-dags", filled).Divergence)
	other := strings.Replace(filled, `"11`, `"22`, 1)
	require.Equal(t, &wire.DerivedDivergence{PreviousSeq: 2, FirstDivergingStage: new("answer"), Cause: wire.DivergenceCauseUnknown}, s.derived("/run-dags", other).Divergence)
	keyed := func(body, schema, chunking string) string {
		return strings.TrimSuffix(body, "}") + `,"cache_dimensions":` + strings.NewReplacer(`"s1"`, schema, `"c1"`, chunking).Replace(someDimensions) + "}"
	}
	cause := func(body string) *wire.DerivedDivergence { return s.derived("/run-dags", body).Divergence }
	require.Equal(t, wire.DivergenceCauseUnknown, cause(keyed(filled, `"1"`, `"1"`)).Cause, "the previous run has no dimensions")
	require.Equal(t, &wire.DerivedDivergence{PreviousSeq: 4, FirstDivergingStage: new("answer"), Cause: wire.DivergenceCauseNoDimension, DifferingDimensions: []string{}},
		cause(keyed(other, `"1"`, `"1"`)))
	require.Equal(t, &wire.DerivedDivergence{PreviousSeq: 5, FirstDivergingStage: new("answer"), Cause: "chunking_version", DifferingDimensions: []string{"chunking_version"}},
		cause(keyed(filled, `"1"`, `"2"`)))
	require.Equal(t, wire.DivergenceCauseConfounded, cause(keyed(other, `"2"`, `"3"`)).Cause)
	var again wire.RecordAnswer
	s.get("/records/6?derive=true").want(http.StatusOK).json(&again)
	require.Equal(t, wire.DivergenceCause("chunking_version"), again.Divergence.Cause, "a later query must give the same cause")
}

func TestDerivedFactsOfPaths(t *testing.T) {
	s := start(t)
	yes, no := true, false
	const first, second = `{"project":"p","route":["a"],"content":"x"}`, `{"project":"p","route":["a"],"content":"y"}`
	require.Equal(t, wire.DerivedMembers{PathID: "0cc175b9", Category: "new", Validated: &no}, s.derived("/path-fingerprints", first))
	s.do(http.MethodPut, "/paths/p/0cc175b9/validation", `{"validated":true}`, "Content-Type", "application/json").want(http.StatusCreated)
	require.Equal(t, wire.DerivedMembers{PathID: "0cc175b9", Category: "unchanged", Validated: &yes}, s.derived("/path-fingerprints", first))
	require.Equal(t, wire.DerivedMembers{PathID: "0cc175b9", Category: "modified", Validated: &no}, s.derived("/path-fingerprints", second))
}

func TestDerivedFactsOfCitationSets(t *testing.T) {
	s := start(t)
	set := func(source string) string {
		return `{"subject":"s","citations":[{"text":"words","source_id":"` + source + `","weight":1}]}`
	}
	require.Equal(t, wire.DerivedMembers{Conflicts: []wire.DerivedChunkConflict{}}, s.derived("/citation-sets", set("a")))
	s.do(http.MethodPut, "/sources/a", `{}`, "Content-Type", "application/json").want(http.StatusCreated)
	facts := s.derived("/citation-sets", set("b"))
	require.Equal(t, []string{"b"}, facts.UnregisteredSources)
	require.Len(t, facts.Conflicts, 1)
	require.Equal(t, []wire.SourceUse{{SourceID: "a", Seq: 1}, {SourceID: "b", Seq: 3}}, facts.Conflicts[0].Sources)
	require.Equal(t, uint64(2), facts.Conflicts[0].SourceCount)
}

// With derive=true, GET of a record also returns its derived members, at the head or at a requested
// tree size.
func TestDerivedFactsOfReadRecords(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "x")).want(http.StatusCreated)
	s.post("/ipc-records", ipcBody("", "y")).want(http.StatusCreated)
	require.NotContains(t, string(s.get("/records/2").want(http.StatusOK).body), `"drift"`)
	for _, query := range []string{"?derive=true", "?derive=true&as_of=3&proofs=true"} {
		require.Contains(t, string(s.get("/records/2"+query).want(http.StatusOK).body), `"drift":{"against":1,`)
	}
	s.get("/records/2?derive=yes").problem(http.StatusBadRequest)
}

// Batch lines get derived members too. A replayed line gets the members of the record that it
// repeats.
func TestDerivedFactsOfBatchesAndReplays(t *testing.T) {
	s := start(t)
	lines := ipcLine("a", "x") + ipcLine("b", "y")
	for range 2 {
		a := s.do(http.MethodPost, "/batch?derive=true", lines, "Content-Type", "application/x-ndjson").want(http.StatusOK)
		got := a.lines()
		require.Len(t, got, 2)
		require.NotContains(t, string(got[0]), `"drift"`)
		require.Contains(t, string(got[1]), `"drift":{"against":1,`)
	}
	require.Equal(t, uint64(3), s.size())
	s.post("/ipc-records?derive=maybe", ipcBody("", "x")).problem(http.StatusBadRequest)
}
