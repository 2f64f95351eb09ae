package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

// Runs that lack a seed, a prompt, a temperature, or max_tokens are still compared and grouped. Every answer
// about them names the missing parts.
func TestRunsThatLackSomething(t *testing.T) {
	s := start(t)
	post := func(model, more, output string) wire.Receipt {
		var receipt wire.Receipt
		a := s.post("/ipc-records", fmt.Sprintf(`{"payload":{"q":"why?"},"model":%q,"output":%q%s}`, model, output, more)).want(http.StatusCreated)
		s.verified(a)
		a.json(&receipt)
		return receipt
	}
	lacks := []string{"system_prompt", "temperature", "max_tokens", "seed"}
	require.Equal(t, lacks, post("m", "", "x").Incomplete)                    // seq 1
	require.Equal(t, lacks, post("m", `,"temperature":null`, "y").Incomplete) // seq 2
	require.Equal(t, lacks[:3], post("m", `,"seed":1`, "z").Incomplete)       // seq 3
	require.Equal(t, lacks, post("n", "", "x").Incomplete)                    // seq 4
	require.Equal(t, lacks, post("n", "", "y").Incomplete)                    // seq 5
	whole := `,"system_prompt":"","temperature":0,"max_tokens":9,"seed":1`
	require.Nil(t, post("m", whole, "x").Incomplete) // seq 6

	get := func(path string) string { return string(s.get(path).want(http.StatusOK).body) }
	for path, want := range map[string]string{
		"/records/1":                                        `"incomplete":["system_prompt","temperature","max_tokens","seed"]`,
		"/records/1/receipt":                                `"incomplete":["system_prompt","temperature","max_tokens","seed"]`,
		"/records?incomplete=seed&limit=1":                  `"incomplete":["system_prompt","temperature","max_tokens","seed"]`,
		"/drift/attribution?a=1&b=2":                        `"cause":"unseeded"`,
		"/drift/attribution?a=2&b=3":                        `"cause":"seed"`,
		"/drift/attribution?a=1&b=4":                        `"cause":"no_effect"`,
		"/drift/attribution?a=1&b=5":                        `"cause":"model"`,
		"/drift/groups?by=input":                            `"runs":6`,
		"/drift/effects?variable=model&a=m&b=n":             `"pairs":2,"changed":0,"unchanged":2`,
		"/drift/effects?variable=model&a=m&b=n&seeded=true": `"pairs":0`,
		"/drift/groups?by=ipc_id":                           `"rows":[{"seq":6,`,
	} {
		require.Contains(t, get(path), want, path)
	}
	for path, lacking := range map[string]bool{
		"/drift/groups?by=label:x": true, "/drift/timeline?model=none": true, "/drift/timeline?model=n&seeded=true": true,
		"/drift/effects?variable=seed&a=8&b=9": true, "/drift/timeline?model=m": false, "/drift/groups?by=label:x&as_of=1": false,
	} {
		require.Equal(t, lacking, strings.Contains(get(path), `"incomplete":["system_prompt","temperature","max_tokens","seed"]`), path)
	}
	require.NotContains(t, get("/records/6"), "incomplete")
	require.Equal(t, 6, strings.Count(get("/drift/timeline?model=m")+get("/drift/timeline?model=n"), `"state":`))
	require.Equal(t, 2, strings.Count(get("/drift/timeline?model=m&seeded=true"), `"state":`))
	require.Equal(t, 1, strings.Count(get("/drift/timeline?model=m&seeded=true"), `"against":null`))
}
