package api_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// snippet is a command of the page at /docs that reads.
var snippet = regexp.MustCompile(`<pre tabindex="0">curl -sS '([^']*)'</pre>`)

// The queries on the page at /docs can be pasted: they go to the server that was asked
// for the page, and are answered by the ledgers of the examples.
func TestQueriesOfTheDocsCanBePasted(t *testing.T) {
	ledgers := map[string]*server{"/drift/": generated(t), "/run-dags/": answered(t), "/citation-sets": cited(t)}
	pasted := 0
	for place, s := range ledgers {
		head := map[string]string{"/drift/": "7", "/run-dags/": "5", "/citation-sets": "4"}[place]
		s.do(t, get(recordsOf).asking("?after="+head), http.StatusOK) // the index has it all
		page := html.UnescapeString(string(s.send(t, get("/docs"), http.StatusOK).body))
		for _, m := range snippet.FindAllStringSubmatch(page, -1) {
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
