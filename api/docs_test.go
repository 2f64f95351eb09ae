package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs/pack/browser"
)

func docsFile(name string) call {
	return call{method: http.MethodGet, route: "/docs/{file}", path: map[string]string{"file": name}}
}

// samples returns the commands that the page at /docs shows, keyed by "METHOD path".
func samples(t *testing.T, s *server) map[string]string {
	t.Helper()
	var c struct {
		Paths map[string]map[string]json.RawMessage
	}
	s.do(t, docsFile("openapi.json"), http.StatusOK).decode(t, &c)
	found := make(map[string]string)
	for path, item := range c.Paths {
		for method, raw := range item {
			var o struct {
				Samples []struct{ Source string } `json:"x-codeSamples"`
			}
			if method != "parameters" {
				require.NoError(t, json.Unmarshal(raw, &o))
				found[strings.ToUpper(method)+" "+path] = o.Samples[0].Source
			}
		}
	}
	return found
}

// The queries shown at /docs can be pasted into a shell. They address the server that served the
// page, and they succeed on ledgers with the data of the examples.
func TestQueriesOfTheDocsCanBePasted(t *testing.T) {
	query := regexp.MustCompile(`^curl -sS '([^']*)'$`)
	ledgers := map[string]*server{"/drift/": generated(t), "/run-dags/": answered(t), "/citation-sets": cited(t)}
	pasted := 0
	for place, s := range ledgers {
		head := map[string]string{"/drift/": "7", "/run-dags/": "5", "/citation-sets": "4"}[place]
		s.do(t, get(recordsOf).asking("?after="+head), http.StatusOK) // waits until the index contains all events
		for _, command := range samples(t, s) {
			m := query.FindStringSubmatch(command)
			if m == nil {
				continue
			}
			require.True(t, strings.HasPrefix(m[1], s.url+"/"), m[1])
			at, err := url.Parse(m[1])
			require.NoError(t, err)
			if !strings.HasPrefix(at.Path, "/v1/ledgers/default"+place) {
				continue
			}
			response, err := s.client.Get(m[1])
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode, m[1])
			pasted++
		}
	}
	require.Greater(t, pasted, 12)
}

// In a browser, /docs shows every operation with its command, gives each operation its own address,
// and loads no files other than those under /docs.
func TestDocsInABrowser(t *testing.T) {
	p := browser.Start(t).NewPage(t)
	s := newServer(t)
	all := samples(t, s)
	p.Navigate(t, s.url+"/docs#put-/v1/ledgers/-ledger-/sources/-source_id-")
	shown := make(map[string]string)
	// RapiDoc renders in the background, so wait for the commands.
	p.Eval(t, fmt.Sprintf(`new Promise((done) => {
		const look = () => {
			const operations = [...document.querySelector("rapi-doc").shadowRoot?.querySelectorAll(".section-endpoint[id], .observe-me[id]") ?? []];
			const shown = operations.filter((e) => e.innerText.includes("curl "));
			shown.length >= %d ? done(Object.fromEntries(shown.map((e) => [e.id, e.innerText]))) : setTimeout(look, 50);
		};
		look();
	})`, len(all)), &shown)
	for name, command := range all {
		method, path, _ := strings.Cut(name, " ")
		id := strings.ToLower(method) + "-" + strings.NewReplacer("{", "-", "}", "-").Replace(path)
		require.Contains(t, shown[id], strings.SplitN(command, "\n", 2)[0], name)
	}
	notes := p.Activity()
	notes.RequestedURLs = slices.DeleteFunc(notes.RequestedURLs, func(address string) bool { return strings.HasPrefix(address, "data:") })
	slices.Sort(notes.RequestedURLs)
	require.Equal(t, []string{s.url + "/docs", s.url + "/docs/openapi.json", s.url + "/docs/rapidoc-min.js", s.url + "/docs/theme.js"}, notes.RequestedURLs)
	require.Empty(t, notes.Errors)
	require.Empty(t, notes.Dialogs)
}

func TestDocsHaveNoOtherFiles(t *testing.T) {
	newServer(t).send(t, docsFile("index.html"), http.StatusNotFound)
}
