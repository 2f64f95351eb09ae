package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Totals follow the log, forwards and backwards.
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
