package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Requests that cannot be applied get the same response, whatever the reason. Requests with invalid
// values are refused before any lookup. A caller without the read scope therefore cannot learn
// anything without creating an event.
func TestVerbsRevealNothing(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)                                                        // seq 1
	s.post("/citation-sets", setBody).want(http.StatusCreated)                                                               // seq 2
	s.post("/path-fingerprints", pathBody).want(http.StatusCreated)                                                          // seq 3
	s.put("/sources/x", `{}`).want(http.StatusCreated)                                                                       // seq 4
	s.post("/ipc-records", `{"input_hash":"`+zeros+`","model":"m","temperature":0,"max_tokens":1}`).want(http.StatusCreated) // seq 5, without content
	size := s.size()
	var path struct {
		Paths []struct {
			PathID string `json:"path_id"`
		} `json:"rows"`
	}
	s.get("/paths/p?after=" + decimal(size-1)).want(http.StatusOK).json(&path)
	require.Len(t, path.Paths, 1)
	id := path.Paths[0].PathID
	for _, c := range []struct {
		name, method, url, body string
		subjects                []string
		status                  int
	}{
		{"state of what has none", "POST", "/records/*/state", `{"state":"stale","reason":"r"}`, []string{"0", "2", "3", "4", "6", "99"}, 404},
		{"state with a bad body", "POST", "/records/*/state", `{"state":"gone","reason":"r"}`, []string{"0", "1", "2", "6", "99"}, 422},
		{"note on what is no record", "POST", "/records/*/notes", `{"topic":"review"}`, []string{"0", "4", "6", "99"}, 404},
		{"note with a bad body", "POST", "/records/*/notes", `{"topic":""}`, []string{"0", "1", "4", "6", "99"}, 422},
		{"content of what has none", "DELETE", "/records/*/content", `{"reason":"r"}`, []string{"0", "4", "5", "6", "99"}, 404},
		{"content with a bad body", "DELETE", "/records/*/content", `{}`, []string{"0", "1", "5", "6", "99"}, 422},
		{"revocation with a bad body", "DELETE", "/sources/*", `{"reason":1}`, []string{"x", "y"}, 422},
		{"validation with a bad body", "PUT", "/paths/p/*/validation", `{"validated":1}`, []string{id, "00000000"}, 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers := make(map[string]string)
			for _, subject := range c.subjects {
				a := s.do(c.method, strings.Replace(c.url, "*", subject, 1), c.body, "Content-Type", "application/json").want(c.status)
				answers[strings.ReplaceAll(string(a.body), "event "+subject+" is", "event * is")] = subject
			}
			require.Len(t, answers, 1)
		})
	}
	require.Equal(t, size, s.size())
	s.post("/freeze", "").want(http.StatusOK)
	for _, seq := range []string{"1", "2", "99"} {
		s.post("/records/"+seq+"/state", `{"state":"stale","reason":"r"}`).problem(http.StatusForbidden)
	}
	for _, id := range []string{"x", "y"} {
		s.do(http.MethodDelete, "/sources/"+id, "").problem(http.StatusForbidden)
	}
}
