package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Effect totals match the requested tree size, even if that size is smaller than in the previous
// request. They change when a run becomes stale.
func TestEffectTotalsFollowTheLog(t *testing.T) {
	s := start(t)
	asked := func(query string) (answer struct {
		AsOf      uint64 `json:"as_of"`
		Pairs     uint64 `json:"pairs"`
		Changed   uint64 `json:"changed"`
		Unchanged uint64 `json:"unchanged"`
	}) {
		s.get("/drift/effects?variable=model&a=one&b=two" + query).want(http.StatusOK).json(&answer)
		return answer
	}
	var sizes []uint64
	for n := range 12 {
		for _, model := range []string{"one", "two"} {
			output := "the same"
			if n%3 == 0 {
				output = model
			}
			s.post("/ipc-records", fmt.Sprintf(`{"payload":{"n":%d},"system_prompt":"s","output":%q,"model":%q,"temperature":0,"max_tokens":1,"seed":1}`, n/2, output, model)).
				want(http.StatusCreated)
		}
		got := asked("")
		require.Equal(t, uint64(n+1), got.Pairs)
		require.Equal(t, uint64(n/3+1), got.Changed)
		require.Equal(t, got.Pairs, got.Changed+got.Unchanged)
		sizes = append(sizes, got.AsOf)
	}
	for n := len(sizes) - 1; n >= 0; n-- {
		require.Equal(t, uint64(n+1), asked(fmt.Sprint("&as_of=", sizes[n])).Pairs)
	}
	s.post("/records/1/state", `{"state":"stale","reason":"r"}`).want(http.StatusCreated)
	require.Equal(t, uint64(11), asked("").Pairs)
}

// Two runs that agree on all variables but differ in the requested label form a pair. Differences
// in other labels do not matter, and runs that differ in a variable are not paired.
func TestEffectsOfLabels(t *testing.T) {
	s := start(t)
	run := func(model, output, labels string) {
		s.post("/ipc-records", fmt.Sprintf(`{"payload":{"q":1},"system_prompt":"s","output":%q,"model":%q,"temperature":0,"max_tokens":1,"seed":1,"labels":{%s}}`, output, model, labels)).
			want(http.StatusCreated)
	}
	run("m", "x", `"region":"eu","a":"1"`) // seq 1
	run("m", "y", `"region":"us","a":"2"`) // seq 2
	run("m", "x", `"region":"us"`)         // seq 3
	run("n", "z", `"region":"us"`)         // seq 4
	run("m", "x", `"region":"eu"`)         // seq 5
	run("m", "z", `"region":"asia"`)       // seq 6
	run("m", "z", ``)                      // seq 7
	asked := func(query string) (answer struct {
		Pairs, Changed, Unchanged uint64
		Rows                      []struct{ A, B struct{ Seq uint64 } }
	}) {
		s.get("/drift/effects?variable=label:region&" + query).want(http.StatusOK).json(&answer)
		return answer
	}
	got := asked("a=eu&b=us")
	require.Equal(t, []uint64{2, 1, 1}, []uint64{got.Pairs, got.Changed, got.Unchanged})
	require.Equal(t, []uint64{1, 2, 5, 3}, []uint64{got.Rows[0].A.Seq, got.Rows[0].B.Seq, got.Rows[1].A.Seq, got.Rows[1].B.Seq})
	require.Equal(t, uint64(1), asked("a=us&b=asia").Pairs)
	require.Zero(t, asked("a=us&b=none").Pairs)
	s.post("/records/2/state", `{"state":"stale","reason":"r"}`).want(http.StatusCreated)
	got = asked("a=eu&b=us")
	require.Equal(t, []uint64{1, 0, 1}, []uint64{got.Pairs, got.Changed, got.Unchanged}, "runs 1 and 3 are the only pair left")
	require.Equal(t, uint64(2), asked("a=eu&b=us&as_of=8").Pairs)
}

// Two runs that agree on all variables of the ipc_id but differ in ollama_build_hash form a pair.
// Runs can also be grouped and listed by ollama_build_hash.
func TestEffectsOfBuilds(t *testing.T) {
	s := start(t)
	for _, run := range [][2]string{{"old", "x"}, {"new", "y"}, {"", "x"}, {"new", "x"}, {"old", "x"}} {
		environment := ""
		if run[0] != "" {
			environment = fmt.Sprintf(`,"environment":{"ollama_build_hash":%q}`, run[0])
		}
		s.post("/ipc-records", fmt.Sprintf(`{"payload":{"q":1},"system_prompt":"s","output":%q,"model":"m","temperature":0,"max_tokens":1,"seed":1%s}`, run[1], environment)).
			want(http.StatusCreated)
	}
	var effects struct {
		Pairs, Changed uint64
		Rows           []struct{ A, B struct{ Seq uint64 } }
	}
	s.get("/drift/effects?variable=ollama_build_hash&a=old&b=new").want(http.StatusOK).json(&effects)
	require.Equal(t, []uint64{2, 1}, []uint64{effects.Pairs, effects.Changed})
	require.Equal(t, []uint64{1, 2, 5, 4}, []uint64{effects.Rows[0].A.Seq, effects.Rows[0].B.Seq, effects.Rows[1].A.Seq, effects.Rows[1].B.Seq})
	var groups struct {
		Rows []struct {
			Value string
			Runs  uint64
		}
	}
	s.get("/drift/groups?by=ollama_build_hash").want(http.StatusOK).json(&groups)
	require.Len(t, groups.Rows, 2)
	require.Equal(t, "new", groups.Rows[0].Value)
	require.Equal(t, uint64(2), groups.Rows[0].Runs)
	var records struct{ Rows []struct{ Seq uint64 } }
	s.get("/records?ollama_build_hash=old").want(http.StatusOK).json(&records)
	require.Len(t, records.Rows, 2)
}
