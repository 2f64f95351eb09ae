package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
)

// Every response states which caches may store it.
func TestEveryAnswerStatesItsCaching(t *testing.T) {
	g := startGated(t)
	for _, c := range []caller{g.admin(), g.callerWith("writer", "write"), g.callerWith("reader", "read"), {name: "anonymous"}} {
		for _, e := range expectations() {
			method, path, _ := strings.Cut(e.route, " ")
			a := g.asks(c, method, e, ledger.DefaultName)
			kept := a.header.Get("Cache-Control")
			switch {
			case a.status >= http.StatusBadRequest:
				require.Contains(t, []string{"private, no-cache", "no-store"}, kept, "%s %d", e.route, a.status)
			case strings.Contains(path, "/log/tile/"):
				require.Equal(t, "private, max-age=31536000, immutable", kept)
			case strings.HasPrefix(path, "/ui/"):
				require.Equal(t, "public, max-age=31536000, immutable", kept)
			case strings.Contains(path, "/content/"), strings.HasSuffix(path, "/document"), strings.HasSuffix(path, "/diff"), strings.HasSuffix(path, "/member-secret"), strings.HasSuffix(path, "/run-dags/lookup"):
				require.Equal(t, "no-store", kept, e.route)
			case strings.HasSuffix(path, "/search") && c.name != "reader": // callers with the content scope get prompts, which must not be stored
				require.Equal(t, "no-store", kept, e.route)
			default:
				require.Equal(t, "private, no-cache", kept, "%s %d", e.route, a.status)
			}
		}
	}
	for _, path := range []string{"/v1/nonsense", atDefault + "/nonsense"} {
		a := g.ask(g.admin(), http.MethodGet, path, "").want(http.StatusNotFound)
		require.Equal(t, "private, no-cache", a.header.Get("Cache-Control"))
	}
}

// No cache may store content, or a response saying that the content has been erased.
func TestContentIsNotCached(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	s.post("/citation-sets", `{"subject":"s","citations":[{"source_id":"x","text":"t","weight":0.5}]}`).want(http.StatusCreated)
	for _, path := range []string{"/records/1/content/output", "/records/2/content/citations/0/text", "/citation-sets/2/document"} {
		require.Equal(t, "no-store", s.get(path).want(http.StatusOK).header.Get("Cache-Control"), path)
	}
	s.remove("/records/1/content", because).want(http.StatusCreated)
	require.Equal(t, "no-store", s.get("/records/1/content/output").want(http.StatusGone).header.Get("Cache-Control"))
	require.Equal(t, "private, no-cache", s.get("/records/1").want(http.StatusOK).header.Get("Cache-Control"))
}

// The response for a private tile has Vary: Authorization, so that a cache does not serve it to
// another caller.
func TestPrivateTilesVaryByCaller(t *testing.T) {
	g := startGated(t)
	hashes, entries := atDefault+"/log/tile/0/000.p/1", atDefault+"/log/tile/entries/000.p/1"
	vary := func(path string) []string {
		return g.ask(g.admin(), http.MethodGet, path, "").want(http.StatusOK).header.Values("Vary")
	}
	require.Equal(t, []string{"Authorization"}, vary(hashes))
	require.Equal(t, []string{"Authorization", "Accept-Encoding"}, vary(entries))
	g.ask(g.admin(), http.MethodPut, atDefault+"/visibility", `{"log":"public"}`).want(http.StatusOK)
	require.Empty(t, vary(hashes))
	require.Equal(t, "no-cache", g.ask(g.admin(), http.MethodGet, atDefault+"/log/checkpoint", "").want(http.StatusOK).header.Get("Cache-Control"))
	require.Equal(t, []string{"Accept-Encoding"}, vary(entries))
}

// Text in a record's usage member is content: it is not in the log, and it can be erased.
func TestTextInUsageIsErased(t *testing.T) {
	const usage = `{"note": "marker-of-usage", "tokens": 7}`
	s := start(t)
	body := strings.Replace(ipcBody("", "o"), `{"payload"`, `{"usage":`+usage+`,"payload"`, 1)
	created := s.post("/ipc-records", body).want(http.StatusCreated)
	s.verified(created)
	for _, path := range []string{"/records/1", "/events", "/log/tile/entries/000.p/2"} {
		require.NotContains(t, string(s.get(path).want(http.StatusOK).body), "marker", path)
	}
	require.Equal(t, usage, string(s.get("/records/1/content/usage").want(http.StatusOK).body))
	s.remove("/records/1/content", because).want(http.StatusCreated)
	s.get("/records/1/content/usage").problem(http.StatusGone)
	s.audited()
}
