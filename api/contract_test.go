package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"colophon/api/otlp"
	"colophon/proofs"
)

func TestContractIsValid(t *testing.T) {
	c := loadContract(t)
	require.NoError(t, c.Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaFormatValidation()))
	var tags []string
	for _, tag := range c.Tags {
		tags = append(tags, tag.Name)
	}
	for route, item := range c.Paths.Map() {
		for method, o := range item.Operations() {
			name := method + " " + route
			require.NotEmpty(t, o.Summary, name)
			require.Len(t, o.Tags, 1, name)
			require.Contains(t, tags, o.Tags[0], name)
			if o.RequestBody != nil {
				for media, content := range o.RequestBody.Value.Content {
					require.NotEmpty(t, content.Examples, "%s %s", name, media)
				}
			}
		}
	}
}

func TestContractNamesEveryRoute(t *testing.T) {
	s := newServer(t)
	var routes []string
	for route, item := range s.Paths.Map() {
		for method := range item.Operations() {
			routes = append(routes, method+" "+route)
		}
	}
	require.ElementsMatch(t, s.api.Routes(), routes)
}

// example is a request example from the contract.
type example struct {
	call
	name     string
	response *openapi3.Example // the response example with the same name; nil if the contract has none
}

// requestExamples returns the request examples in the contract, ordered by route.
func (c contract) requestExamples(t testing.TB) []example {
	t.Helper()
	var list []example
	paths := c.Paths.Map()
	for _, route := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} { // DELETE comes last, because the tests delete what PUT has created
			o := paths[route].GetOperation(method)
			if o == nil || o.RequestBody == nil {
				continue
			}
			path := make(map[string]string)
			for _, p := range slices.Concat(o.Parameters, paths[route].Parameters) {
				if p.Value.In == openapi3.ParameterInPath {
					path[p.Value.Name] = fmt.Sprint(p.Value.Example)
				}
			}
			for media, content := range o.RequestBody.Value.Content {
				for _, name := range slices.Sorted(maps.Keys(content.Examples)) {
					e := example{name: name, response: answerExample(o, media, name)}
					e.call = call{method: method, route: route, path: path,
						header: map[string]string{"Content-Type": media}, body: encode(t, media, content.Examples[name].Value.Value)}
					list = append(list, e)
				}
			}
		}
	}
	require.NotEmpty(t, list)
	return list
}

// answerExample returns the example with the given name from a successful response, or nil if there
// is none.
func answerExample(o *openapi3.Operation, media, name string) *openapi3.Example {
	for _, status := range []int{http.StatusCreated, http.StatusOK} {
		if r := o.Responses.Status(status); r != nil && r.Value.Content[media] != nil {
			if e := r.Value.Content[media].Examples[name]; e != nil {
				return e.Value
			}
		}
	}
	return nil
}

// encode encodes an example in the given media type.
func encode(t testing.TB, media string, value any) []byte {
	t.Helper()
	if media == otlp.ProtobufMediaType {
		return []byte(value.(string))
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	if media != ndjson {
		require.NoError(t, encoder.Encode(value))
		return b.Bytes()
	}
	for _, line := range value.([]any) {
		require.NoError(t, encoder.Encode(line))
	}
	return b.Bytes()
}

// result decodes the members of a response that the tests compare with the examples.
type result struct {
	Kind   string            `json:"kind"`
	Hashes map[string]string `json:"hashes"`
	Checks map[string]struct {
		Result   string `json:"result"`
		Claimed  string `json:"claimed"`
		Computed string `json:"computed"`
	} `json:"checks"`
	Name     string `json:"name"` // name of a ledger
	Status   int    `json:"status"`
	FirstSeq uint64 `json:"first_seq"`
}

// results decodes a response body that has one JSON object per line.
func results(t testing.TB, body []byte) []result {
	t.Helper()
	var list []result
	for line := range bytes.Lines(body) {
		var r result
		require.NoError(t, json.Unmarshal(line, &r), "%s", line)
		list = append(list, r)
	}
	return list
}

func TestRequestExamplesAreAnsweredAsTheContractSays(t *testing.T) {
	s := newServer(t)
	compared := 0
	for _, e := range s.requestExamples(t) {
		t.Run(e.route+" "+e.name, func(t *testing.T) {
			status := http.StatusCreated
			if strings.HasSuffix(e.route, "/batch") || strings.HasSuffix(e.route, "/visibility") || strings.HasSuffix(e.route, "/unregistered-sources") || strings.Contains(e.route, "/otlp") || strings.HasSuffix(e.route, "/pinned-retrieval") ||
				strings.HasSuffix(e.route, "/drift/reproduce") || strings.HasSuffix(e.route, "/redactions") || strings.HasSuffix(e.route, "/state-changes") || strings.HasSuffix(e.route, "/validations") || strings.HasPrefix(e.route, "/v1/compute/") {
				status = http.StatusOK
			}
			if strings.HasSuffix(e.route, "/run-dags/lookup") {
				status = http.StatusNotFound // the ledger contains no run that matches the example
			}
			a := s.do(t, e.call, status)
			if e.response == nil || status == http.StatusNotFound {
				return
			}
			media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
			want, got := results(t, encode(t, media, e.response.Value)), results(t, a.body)
			for i := range got {
				got[i].FirstSeq, want[i].FirstSeq = 0, 0 // these depend on earlier requests
			}
			require.Equal(t, want, got)
			compared++
		})
	}
	require.GreaterOrEqual(t, compared, 8)
}

// record returns a call that posts the request example with the given name.
func (s *server) record(t testing.TB, name string) call {
	t.Helper()
	for _, e := range s.requestExamples(t) {
		if e.name == name && strings.HasPrefix(e.route, "/v1/ledgers/{ledger}/") {
			return e.call
		}
	}
	t.Fatalf("no request example %q", name)
	return call{}
}

func (k call) with(name, value string) call {
	k.header = maps.Clone(k.header)
	k.header[name] = value
	return k
}

func TestWritesUnderAKey(t *testing.T) {
	s := newServer(t)
	for _, name := range []string{"complete", "inputs", "answer", "chapter"} {
		k := s.record(t, name).with("Idempotency-Key", name)
		s.do(t, k, http.StatusCreated)
		a := s.do(t, k.with("Prefer", "return=minimal"), http.StatusOK)
		require.Equal(t, "true", a.header.Get("Idempotent-Replayed"))
		require.NotContains(t, string(a.body), "checkpoint")
		k.body = bytes.Replace(k.body, []byte(`{`), []byte(`{"labels":{"again":"yes"},`), 1)
		k.body = bytes.Replace(k.body, []byte(`"labels":{"project":"harrow-vale","step":"dialogue"},`), nil, 1)
		s.do(t, k, http.StatusConflict)
	}
}

func TestReadsOfWhatWasWritten(t *testing.T) {
	s := newServer(t)
	var written struct {
		EventHash string `json:"event_hash"`
	}
	s.do(t, s.record(t, "complete"), http.StatusCreated).decode(t, &written)
	s.do(t, s.record(t, "answer"), http.StatusCreated)
	s.do(t, s.record(t, "inputs"), http.StatusCreated)
	mismatch := s.record(t, "mismatch")
	mismatch.query = "?on_mismatch=reject"
	s.do(t, mismatch, http.StatusUnprocessableEntity)

	const l = "/v1/ledgers/{ledger}"
	in := func(more ...string) map[string]string {
		path := map[string]string{"ledger": "default"}
		for i := 0; i < len(more); i += 2 {
			path[more[i]] = more[i+1]
		}
		return path
	}
	for _, k := range []call{
		{route: "/v1/ledgers"}, {route: "/docs"}, {route: "/docs/{file}", path: map[string]string{"file": "openapi.json"}},
		{route: "/docs/{file}", path: map[string]string{"file": "rapidoc-min.js"}}, {route: "/openapi.yaml"}, {route: "/healthz"}, {route: "/readyz"},
		{route: "/version"}, {route: "/metrics"},
		{route: l, path: in()},
		{route: l + "/stats", path: in()},
		{route: l + "/records/{seq}", path: in("seq", "0")},
		{route: l + "/records/{seq}", path: in("seq", "1")},
		{route: l + "/records/{seq}", path: in("seq", "2")},
		{route: l + "/records/{seq}", path: in("seq", "3")},
		{route: l + "/records/{seq}", path: in("seq", "4")},
		{route: l + "/records/{seq}/receipt", path: in("seq", "1")},
		{route: l + "/records/{seq}/receipt", path: in("seq", "1"), query: "?tree_size=2"},
		{route: l + "/records/{seq}/receipt", path: in("seq", "1"), header: map[string]string{"Prefer": "return=minimal"}},
		{route: l + "/records/{seq}/receipt", path: in("seq", "4"), header: map[string]string{"Accept": "text/plain"}},
		{route: l + "/records/{seq}/content/{path}", path: in("seq", "1", "path", "output")},
		{route: l + "/records/{seq}/content/{path}", path: in("seq", "2", "path", "citations/0/text")},
		{route: l + "/events", path: in()},
		{route: l + "/events", path: in(), query: "?from=1&limit=2"},
		{route: l + "/events", path: in(), query: "?from=5"},
		{route: l + "/events/{hash}", path: in("hash", written.EventHash)},
		{route: l + "/proofs/inclusion", path: in(), query: "?seq=1"},
		{route: l + "/proofs/inclusion", path: in(), query: "?seq=1&tree_size=3"},
		{route: l + "/proofs/consistency", path: in(), query: "?first=2&second=5"},
		{route: l + "/proofs/consistency", path: in(), query: "?first=5"},
		{route: l + "/log/checkpoint", path: in()},
		{route: l + "/log/key", path: in()},
		{route: l + "/log/tile/{path}", path: in("path", "0/000.p/5")},
		{route: l + "/log/tile/{path}", path: in("path", "entries/000.p/5")},
		{route: l + "/log/tile/{path}", path: in("path", "entries/000.p/2"), header: map[string]string{"Accept-Encoding": "gzip"}},
	} {
		k.method = http.MethodGet
		s.do(t, k, http.StatusOK)
	}
	s.do(t, call{method: http.MethodGet, route: "/"}, http.StatusFound)
	page := s.do(t, call{method: http.MethodGet, route: "/", header: map[string]string{"Accept": "text/html,*/*;q=0.8"}}, http.StatusOK)
	version := regexp.MustCompile(`"ui/([^/]+)/app.js"`).FindStringSubmatch(string(page.body))[1]
	for _, file := range []string{"app.js", "style.css", "icon.svg", "licences.txt"} {
		s.do(t, call{method: http.MethodGet, route: "/ui/{version}/{file}", path: map[string]string{"version": version, "file": file}}, http.StatusOK)
	}
	s.do(t, call{method: http.MethodGet, route: "/ui/{version}/{file}", path: map[string]string{"version": "other", "file": "app.js"}}, http.StatusNotFound)
}

func TestExamplesOfReceiptsVerify(t *testing.T) {
	c := loadContract(t)
	key := c.Components.Examples["LogKey"].Value.Value.(map[string]any)["verifier_key"].(string)
	verifier, err := proofs.ParseVerifier(key)
	require.NoError(t, err)
	verified := 0
	for name, e := range c.Components.Examples {
		value, _ := e.Value.Value.(map[string]any)
		if logged, ok := value["receipt"].(map[string]any); ok {
			value = logged
		}
		if value["inclusion"] == nil {
			continue
		}
		r, err := proofs.ParseReceipt(encode(t, "", value))
		require.NoError(t, err, name)
		require.NoError(t, r.Verify(verifier), name)
		verified++
	}
	require.GreaterOrEqual(t, verified, 8)
	_, err = proofs.OpenCheckpoint([]byte(c.Components.Examples["Checkpoint"].Value.Value.(string)), verifier)
	require.NoError(t, err)
	proof, err := proofs.ParseTlogProof([]byte(c.Components.Examples["TlogProof"].Value.Value.(string)))
	require.NoError(t, err)
	require.NoError(t, proof.Verify(verifier))
}
