package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// Attributions list the payload members that differ, but only callers with the content scope see
// the values. The effect of a member is queried with the digests of its values.
func TestPayloadMembersInAnswers(t *testing.T) {
	g := startGated(t)
	post := func(payload, output string) {
		g.ask(g.admin(), http.MethodPost, atDefault+"/ipc-records", fmt.Sprintf(`{"payload":%s,"output":%q,"model":"m","seed":7,"labels":{"step":"a"}}`, payload, output)).want(http.StatusCreated)
	}
	post(`{"policy_hash":"p1","axes":{"x":1},"seed":7}`, "yes")
	post(`{"policy_hash":"p2","axes":{"x":1},"note": [1, 2]}`, "no")
	post(`{"policy_hash":"p2","axes":{"x":1}}`, "no")
	var attribution struct {
		Cause       string
		Differences []struct {
			Variable string
			Members  []map[string]any
		}
		Says string
	}
	// The ledger already has other records, so find the new ones by their label.
	var listed struct{ Rows []struct{ Seq uint64 } }
	require.NoError(t, json.Unmarshal(g.ask(g.admin(), http.MethodGet, atDefault+"/records?label:step=a&limit=3", "").want(http.StatusOK).body, &listed))
	first := listed.Rows[2].Seq
	ask := func(c caller, b uint64, more string) []map[string]any {
		t.Helper()
		attribution.Differences = nil
		require.NoError(t, json.Unmarshal(g.ask(c, http.MethodGet, fmt.Sprintf("%s/drift/attribution?a=%d&b=%d%s", atDefault, first, b, more), "").want(http.StatusOK).body, &attribution))
		require.Equal(t, "input", attribution.Cause)
		require.Len(t, attribution.Differences, 1)
		return attribution.Differences[0].Members
	}
	reader, both := g.callerWith("reader", "read"), g.callerWith("both", "read", "content")
	for _, more := range []string{"", "&text=true"} {
		members := ask(reader, first+1, more)
		require.Len(t, members, 2)
		require.Equal(t, "/note", members[0]["pointer"])
		require.Nil(t, members[0]["a"])
		require.Len(t, members[0]["b"], 32)
		require.Equal(t, "/policy_hash", members[1]["pointer"])
		require.NotContains(t, members[1], "a_value")
		require.Contains(t, attribution.Says, "input differs in /note, /policy_hash")
	}
	require.NotContains(t, ask(both, first+1, "")[1], "a_value")
	members := ask(both, first+1, "&text=true")
	require.Equal(t, "p1", members[1]["a_value"])
	require.Equal(t, "p2", members[1]["b_value"])
	require.NotContains(t, members[0], "a_value")
	require.Equal(t, []any{1.0, 2.0}, members[0]["b_value"])

	var effects struct{ Pairs, Changed uint64 }
	values := url.Values{"variable": {"/policy_hash"}, "a": {members[1]["a"].(string)}, "b": {members[1]["b"].(string)}}
	require.NoError(t, json.Unmarshal(g.ask(reader, http.MethodGet, atDefault+"/drift/effects?"+values.Encode(), "").want(http.StatusOK).body, &effects))
	require.EqualValues(t, 1, effects.Pairs)
	require.EqualValues(t, 1, effects.Changed)
	for _, wrong := range []string{"variable=/policy_hash&a=p1&b=p2", "variable=/a/b&a=0&b=1", "variable=/~2&a=0&b=1", "variable=policy_hash&a=0&b=1"} {
		g.ask(reader, http.MethodGet, atDefault+"/drift/effects?"+wrong, "").want(http.StatusBadRequest)
	}
	g.ask(reader, http.MethodGet, atDefault+"/member-secret", "").want(http.StatusForbidden)

	g.ask(g.admin(), http.MethodDelete, fmt.Sprintf("%s/records/%d/content", atDefault, first), because).want(http.StatusCreated)
	require.NotContains(t, ask(both, first+1, "&text=true")[1], "b_value", "one of the payloads is erased")
}
