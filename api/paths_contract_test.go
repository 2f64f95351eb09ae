package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	projectsOf      = prefix + "/paths"
	pathsOf         = prefix + "/paths/{project}"
	historyOf       = prefix + "/paths/{project}/{path_id}"
	buildsOf        = prefix + "/paths/{project}/builds"
	goneOf          = prefix + "/paths/{project}/builds/{build}/gone"
	compareBuildsOf = prefix + "/paths/{project}/compare"
	collisionsOf    = prefix + "/paths/{project}/collisions"
)

// strange is a name that must be percent-encoded in a path.
const strange = "a/b c%2F?ü"

// startWithPaths returns a server with paths of two projects, one of which has a name that
// needs escaping.
func startWithPaths(t *testing.T) *server {
	s := newServer(t)
	fingerprint := func(build, route, content string) {
		body := fmt.Sprintf(`{"project":%q,"build":%s,"route":%s,"content":%s}`, strange, build, route, content)
		s.do(t, post(prefix+"/path-fingerprints", body), http.StatusCreated)
	}
	fingerprint(`"1/a"`, `["Start","Day 18555"]`, `"It rained."`)             // seq 1
	fingerprint(`"1/a"`, `["Start","Day 42885"]`, `"It snowed."`)             // seq 2
	fingerprint(`"2"`, `["Start","Day 42885"]`, `"It snowed. [[Day 18555]]"`) // seq 3
	s.do(t, verb(http.MethodPut, validationOf, `{"validated":true,"reason":"cold"}`,
		"project", url.PathEscape(strange), "path_id", "d2f2e1184115c4dd"), http.StatusCreated) // seq 4
	fingerprint(`null`, `["Start"]`, `null`)            // seq 5
	s.do(t, s.record(t, "chapter"), http.StatusCreated) // seq 6
	return s
}

// asked sends a query that the contract allows, and returns the body of the answer. A call
// without parameters waits until the index has folded the events of startWithPaths.
func asked(t *testing.T, s *server, k call) string {
	t.Helper()
	if k.query == "" {
		k.query = "?after=6"
	}
	return string(s.do(t, k, http.StatusOK).body)
}

func TestPathsAreAnsweredAsTheContractSays(t *testing.T) {
	s := startWithPaths(t)
	project := func(route string, more ...string) call {
		return get(route, append([]string{"project", url.PathEscape(strange)}, more...)...)
	}
	require.Regexp(t, `^{"as_of":7,"rows":\[{"seq":6,"project":"harrow-vale","paths":1,"builds":1,"collisions":0},`+
		`{"seq":1,"project":"a/b c%2F\?ü","paths":3,"builds":2,"collisions":1}\]}\n$`, asked(t, s, get(projectsOf)))
	start := `{"seq":5,"path_id":"a6122a65","route":["Start"],"category":"new","validated":false,"links_changed":false,` +
		`"content_fingerprint":null,"raw_content_fingerprint":null,"build":null,"time":"`
	snow := `{"seq":3,"path_id":"d2f2e1184115c4dd","route":["Start","Day 42885"],"category":"unchanged","validated":true,"links_changed":true,`
	rain := `{"seq":1,"path_id":"d2f2e118",`
	for query, want := range map[string][]string{
		"?after=6":                               {start, snow, rain},
		"?after=6&status=new":                    {start, rain},
		"?after=6&validated=true":                {snow},
		"?after=6&validated=false&build=1%2Fa":   {`{"seq":2,"path_id":"d2f2e1184115c4dd",`, rain},
		"?after=6&validated=true&build=2":        {snow},
		"?after=6&status=modified":               {},
		"?as_of=6&status=unchanged&proofs=false": {snow},
	} {
		answer := s.do(t, project(pathsOf).asking(query), http.StatusOK)
		var list struct{ Rows []struct{} }
		answer.decode(t, &list)
		require.Len(t, list.Rows, len(want), query)
		for _, row := range want {
			require.Contains(t, string(answer.body), row, query)
		}
	}
	history := asked(t, s, project(historyOf, "path_id", "d2f2e1184115c4dd"))
	require.Regexp(t, `"seq":2,"kind":"path_fingerprint",.*"build":"1/a"},{"seq":3,.*},{"seq":4,"kind":"path_validated",`+
		`"time":"[^"]*","record_seq":3,"category":"unchanged","validated":true,.*"reason":"cold"}\]}`, history)
	require.Regexp(t, `"build":"1/a","branch":null,"base":null,"time":"[^"]*","new":2,"modified":0,"unchanged":0,"gone":0,"paths":2,"other_bases":0},`+
		`{"seq":3,"build":"2","branch":null,"base":"1/a","time":"[^"]*","new":0,"modified":0,"unchanged":1,"gone":1,"paths":1,"other_bases":0}\]}`, asked(t, s, project(buildsOf)))
	require.Contains(t, asked(t, s, project(goneOf, "build", "2")), `"rows":[`+rain)
	require.Contains(t, asked(t, s, project(goneOf, "build", "1%2Fa")), `"rows":[]}`)
	compared := project(compareBuildsOf).asking("?after=6&a=1%2Fa&b=2")
	require.Regexp(t, `"rows":\[{"seq":3,"path_id":"d2f2e1184115c4dd",.*"status":"unchanged","links_changed":true,"a":{"seq":2,"validated":false,.*},"b":{"seq":3,"validated":true,.*}`+
		`,"renamed":\[\]}\],"next":`, asked(t, s, compared))
	require.Regexp(t, `"rows":\[{"seq":1,"path_id":"d2f2e118",.*"status":"gone",.*"b":null,"renamed":\[\]}\]}`, asked(t, s, compared.asking("?a=1%2Fa&b=2&status=gone")))
	require.Contains(t, asked(t, s, project(collisionsOf)),
		`"rows":[{"seq":2,"path_id":"d2f2e1184115c4dd","route":["Start","Day 42885"],"holder":{"seq":1,"path_id":"d2f2e118","route":["Start","Day 18555"]}}]}`)
}

// Each list can be paged one row at a time, and each row includes its inclusion proof.
func TestPathsArePagedAndProved(t *testing.T) {
	s := startWithPaths(t)
	p := []string{"project", url.PathEscape(strange)}
	for route, k := range map[string]call{
		projectsOf: get(projectsOf), pathsOf: get(pathsOf, p...), buildsOf: get(buildsOf, p...), collisionsOf: get(collisionsOf, p...),
		historyOf: get(historyOf, append(p, "path_id", "d2f2e1184115c4dd")...), goneOf: get(goneOf, append(p, "build", "2")...),
	} {
		var all, page struct {
			Rows []struct {
				Seq       uint64
				Inclusion struct{ Hashes []string }
			}
			Next, Checkpoint string
		}
		s.do(t, k.asking("?as_of=7&proofs=true"), http.StatusOK).decode(t, &all)
		require.NotEmpty(t, all.Rows, route)
		require.NotEmpty(t, all.Checkpoint, route)
		query := "?as_of=7&proofs=true&limit=1"
		for _, want := range all.Rows {
			page.Rows, page.Next = nil, ""
			s.do(t, k.asking(query), http.StatusOK).decode(t, &page)
			require.Len(t, page.Rows, 1, route)
			require.Equal(t, want, page.Rows[0], route)
			require.NotEmpty(t, want.Inclusion.Hashes, route)
			query = "?proofs=true&limit=1&cursor=" + page.Next
		}
		require.Empty(t, page.Next, route)
	}
}

func TestProblemsOfPathsAreAsTheContractSays(t *testing.T) {
	s := startWithPaths(t)
	var page struct{ Next string }
	s.do(t, get(projectsOf).asking("?as_of=7&limit=1"), http.StatusOK).decode(t, &page)
	const known = "harrow-vale"
	for _, c := range []struct {
		name    string
		call    call
		status  int
		refused bool // whether the contract also rejects the request
	}{
		{"status", get(pathsOf, "project", known).asking("?status=gone"), 400, true},
		{"validated", get(pathsOf, "project", known).asking("?validated=yes"), 400, true},
		{"unknown parameter", get(buildsOf, "project", known).asking("?status=new"), 400, true},
		{"cursor of another query", get(buildsOf, "project", known).asking("?cursor=" + page.Next), 400, false},
		{"no such project", get(pathsOf, "project", "x"), 404, false},
		{"no such build of a path", get(pathsOf, "project", known).asking("?build=x"), 404, false},
		{"no builds", get(buildsOf, "project", "x"), 404, false},
		{"no such build", get(goneOf, "project", known, "build", "x"), 404, false},
		{"one build", get(compareBuildsOf, "project", known).asking("?a=6cc14170965c"), 400, true},
		{"comparison of no such build", get(compareBuildsOf, "project", known).asking("?a=6cc14170965c&b=x"), 404, false},
		{"unknown difference", get(compareBuildsOf, "project", known).asking("?a=x&b=x&status=other"), 400, true},
		{"no collisions", get(collisionsOf, "project", "x"), 404, false},
		{"no such path", get(historyOf, "project", known, "path_id", "00000000"), 404, false},
		{"no such ledger", get(projectsOf).of("nowhere"), 404, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.send(t, c.call, c.status)
			err := s.checkRequest(c.call, c.call.request(t, s.url))
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
}
