package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// raw sends a request line and headers unchanged over a new connection, and returns the response.
func (g *gated) raw(method, target string, headers ...string) answer {
	g.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.http.URL, "http://"))
	require.NoError(g.t, err)
	defer conn.Close()
	require.NoError(g.t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, method+" "+target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+strings.Join(append(headers, "\r\n"), "\r\n"))
	require.NoError(g.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(g.t, err, "%s %s", method, target)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(g.t, err)
	return answer{g.t, response.StatusCode, response.Header, body}
}

// Even if a proxy and the server interpret a path differently, no method reveals anything that the
// caller is not allowed to see. No client is redirected.
func TestPathsHaveOneMeaning(t *testing.T) {
	g := startGated(t)
	only := "Authorization: " + g.callerWith("only", scopeNames...).authorization[0] // every scope on default, none on other
	targets := []string{"*", "/v1", "/v1/", "/v1/ledgers/", "v1/ledgers", "?", "/%"}
	for _, name := range []string{"other", "Default", "DEFAULT", "default.", "default%00", "default%20", "%20default", "defa\u00fclt", "default%2F", "default%2Fother",
		"default%2f..%2fother", "default%2F%2E%2E%2Fother", "default%252F..%252Fother", "default/../other", "default/./../other", "default/%2e%2e/other", "default/..%2Fother",
		"..%2Fledgers%2Fother", "other;default", "other%3Fdefault", "default%5C..%5Cother", `default\..\other`, "%6Fther", "%6fther", "%25%36%66ther", "oth%65r", "other%0A", "*", "%2A", ":ledger", ""} {
		for _, rest := range []string{"", "/stats", "/log/../stats", "/events?from=0"} {
			targets = append(targets, "/v1/ledgers/"+name+rest)
			if rest != "/stats" {
				continue
			}
			targets = append(targets, "//v1/ledgers/"+name+rest, "/v1//ledgers/"+name+rest, "/V1/ledgers/"+name+rest,
				"/./v1/ledgers/"+name+rest, "/docs/../v1/ledgers/"+name+rest, "http://localhost/v1/ledgers/"+name+rest, "/%76%31/ledgers/"+name+rest)
		}
	}
	tip := "other" // the name that appears in every response about the ledger other
	for i, target := range targets {
		methods := []string{"GET"}
		if i%7 == 0 {
			methods = []string{"GET", "HEAD", "OPTIONS", "POST", "TRACE", "PROPFIND", "get"}
		}
		for _, method := range methods {
			for _, headers := range [][]string{nil, {only}} {
				a := g.raw(method, target, headers...)
				require.NotContains(t, []int{201, 301, 302, 303, 307, 308, 500}, a.status, "%s %s", method, target)
				require.Empty(t, a.header.Get("Location"), "%s %s", method, target)
				if a.status/100 != 2 || method == "OPTIONS" {
					continue
				}
				require.NotNil(t, headers, "%s %s is answered without credentials: %s", method, target, a.body)
				var of struct{ Name, Ledger string }
				_ = json.Unmarshal(a.body, &of) // fails if the body is a checkpoint
				require.NotContains(t, []string{of.Name, of.Ledger}, tip, "%s %s", method, target)
				require.NotContains(t, string(a.body), `"ledger":"other"`, "%s %s", method, target)
				require.NotContains(t, string(a.body), "/other/", "%s %s", method, target)
			}
		}
	}
	// A ledger cannot be addressed by a percent-encoded spelling of its name.
	g.raw("GET", "/v1/ledgers/default", only).want(http.StatusOK)
	g.raw("GET", "/v1/ledgers/%64efault", only).want(http.StatusNotFound)
}

// Only a single Authorization header can carry credentials.
func TestCredentialsComeInOnePlace(t *testing.T) {
	g := startGated(t)
	const target = "/v1/ledgers/default/stats"
	token := strings.TrimPrefix(bearer(g.root)[0], "Bearer ")
	for _, good := range []string{"Authorization: Bearer " + token, "authorization: bearer " + token, "AUTHORIZATION:   BEARER  " + token + "  "} {
		g.raw("GET", target, good).want(http.StatusOK)
	}
	for name, headers := range map[string][]string{
		"twice":              {"Authorization: Bearer " + token, "Authorization: Bearer " + token},
		"twice, one wrong":   {"Authorization: Bearer " + token, "authorization: Bearer x"},
		"twice, one empty":   {"Authorization:", "Authorization: Bearer " + token},
		"joined":             {"Authorization: Bearer " + token + ", Bearer " + token},
		"two words":          {"Authorization: Bearer " + token + " x"},
		"a tab":              {"Authorization: Bearer\t" + token},
		"no scheme":          {"Authorization: " + token},
		"token":              {"Authorization: Token " + token},
		"basic":              {"Authorization: Basic " + token},
		"of a proxy":         {"Proxy-Authorization: Bearer " + token},
		"forwarded":          {"X-Forwarded-Authorization: Bearer " + token, "X-Original-Authorization: Bearer " + token},
		"cookie":             {"Cookie: Authorization=Bearer " + token + "; token=" + token},
		"own header":         {"X-Api-Key: " + token},
		"upper-case token":   {"Authorization: Bearer " + strings.ToUpper(token)},
		"longer":             {"Authorization: Bearer " + token + "a"},
		"shorter":            {"Authorization: Bearer " + token[:len(token)-1]},
		"padded":             {"Authorization: Bearer " + token + "="},
		"long":               {"Authorization: Bearer " + strings.Repeat("a", 20<<10)},
		"user of the client": {"X-Remote-User: root", "X-Forwarded-User: root", "X-Client-Cert: root", "Forwarded: by=root"},
	} {
		t.Run(name, func(t *testing.T) { g.raw("GET", target, headers...).want(http.StatusUnauthorized) })
	}
	for _, query := range []string{"?access_token=" + token, "?token=" + token, "?authorization=Bearer%20" + token} {
		g.raw("GET", target+query).want(http.StatusUnauthorized)
	}
	g.raw("GET", target, "Authorization: Bearer "+strings.Repeat("a", 1<<20)).want(http.StatusRequestHeaderFieldsTooLarge)
	g.raw("GET", target, "Authorization : Bearer "+token).want(http.StatusBadRequest)
	g.raw("GET", target, "X-Method: GET", "X-HTTP-Method-Override: POST", "Authorization: Bearer "+token).want(http.StatusOK)
}
