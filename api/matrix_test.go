package api

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/ledger"
	"colophon/proofs"
)

// lockedLog is a log that a test can read while the server writes to it.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startGated starts a server that requires credentials. It has a ledger with data of every
// kind, a spare ledger, and a ledger of another owner.
func startGated(t testing.TB) *gated {
	t.Helper()
	g := &gated{authority: newAuthority(t), issuer: newIssuer(t), log: new(lockedLog), clients: make(map[*tls.Certificate]*http.Client)}
	log := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	g.service = &service{t: t}
	g.tokens = access.TokenStore{Dir: accessDir(t), Now: time.Now}
	g.root = g.token("root", []string{access.AllLedgers}, scopeNames).Text
	who, err := access.Open(access.Config{Dir: g.tokens.Dir, Rules: g.rules(), Logger: log})
	require.NoError(t, err)
	t.Cleanup(who.Close)
	g.service = start(t, func(c *Config) {
		c.Authenticator, c.Logger = who, log
		c.ServerLimits.AuthFailureRate = 1e9 // the matrix sends many invalid credentials
	})
	g.tls = httptest.NewUnstartedServer(g.http.Config.Handler)
	g.tls.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: g.authority.pool}
	g.tls.Config.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	g.tls.StartTLS()
	t.Cleanup(g.tls.Close)
	for _, name := range []string{"spare", "other"} {
		_, err := g.host.Create(t.Context(), ledger.CreateOptions{Name: name})
		require.NoError(t, err)
	}
	g.fill()
	return g
}

// fill posts the data that the expectations rely on to the default ledger.
func (g *gated) fill() {
	g.t.Helper()
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/ipc-records", ipcBody("r", "o")},
		{"POST", "/run-dags", cachedDAG},
		{"POST", "/citation-sets", setBody},
		{"POST", "/path-fingerprints", strings.TrimSuffix(pathBody, "}") + `,"build":"b1"}`},
		{"POST", "/run-dags", dagBody},
		{"POST", "/ipc-records", strings.TrimSuffix(ipcBody("", "secret"), "}") + `,"producer":{"id":"w","seq":0}}`},
		{"PUT", "/sources/x", `{}`},
		{"DELETE", "/records/6/content", `{"reason":"r"}`},
	} {
		g.ask(caller{authorization: bearer(g.root)}, c.method, "/v1/ledgers/default"+c.path, c.body).want(http.StatusCreated)
	}
}

// ask sends a request with the caller's credentials.
func (g *gated) ask(c caller, method, path, body string) answer {
	g.t.Helper()
	if c.query != "" {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		path += separator + c.query
	}
	r, err := http.NewRequest(method, g.tls.URL+path, strings.NewReader(body))
	require.NoError(g.t, err)
	for _, value := range c.authorization {
		r.Header.Add("Authorization", value)
	}
	switch {
	case strings.Contains(path, "/batch"):
		r.Header.Set("Content-Type", call.NDJSONMediaType)
	case body != "":
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := g.client(c.certificate).Do(r)
	require.NoError(g.t, err)
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	require.NoError(g.t, err)
	return answer{g.t, response.StatusCode, response.Header, b}
}

// client returns an HTTP client that presents the given certificate, or no certificate if it is
// nil.
func (g *gated) client(certificate *tls.Certificate) *http.Client {
	if g.clients[certificate] == nil {
		transport := g.tls.Client().Transport.(*http.Transport).Clone()
		if certificate != nil {
			transport.TLSClientConfig.Certificates = []tls.Certificate{*certificate}
		}
		g.t.Cleanup(transport.CloseIdleConnections)
		g.clients[certificate] = &http.Client{Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return g.clients[certificate]
}

// asks sends the request that an expectation describes to the named ledger, using the given method.
func (g *gated) asks(c caller, method string, e expectation, name string) answer {
	g.t.Helper()
	g.number++
	number := decimal(uint64(g.number))
	path := strings.ReplaceAll(e.url, "~", "/v1/ledgers/"+name)
	path = strings.ReplaceAll(strings.ReplaceAll(path, "NUMBER", number), "EVENT", g.event())
	if method == http.MethodDelete && strings.Contains(path, "/sources/") && name == ledger.DefaultName {
		g.ask(caller{authorization: bearer(g.root)}, http.MethodPut, path, "{}").want(http.StatusCreated)
	}
	return g.ask(c, method, path, strings.ReplaceAll(e.body, "NUMBER", number))
}

// event returns the event_hash of event 1.
func (g *gated) event() string {
	g.t.Helper()
	entry, err := g.ledger().Reader().Entry(g.t.Context(), 1)
	require.NoError(g.t, err)
	prev, body, err := proofs.SplitEntry(entry)
	require.NoError(g.t, err)
	hash := proofs.EventHash(prev, body)
	return hex.EncodeToString(hash[:])
}

// seen returns everything that a caller can see in a response, except for the Date header.
func (a answer) seen() string {
	header := a.header.Clone()
	header.Del("Date")
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return decimal(uint64(a.status)) + string(text) + string(a.body)
}

// Every kind of caller gets the expected status on every route.
func TestMatrix(t *testing.T) {
	g := startGated(t)
	lines := expectations()
	var names []string
	for _, e := range lines {
		names = append(names, e.route)
	}
	require.ElementsMatch(t, g.http.Config.Handler.(*Server).Routes(), names, "every route has a line in expectations, and every line has a route")

	refusals, ofOTLP := make(map[string]bool), make(map[string]bool) // distinct 401 responses
	for _, c := range append(append(g.callers(), g.badTokens()...), g.outsiders()...) {
		t.Run(c.name, func(t *testing.T) {
			for _, e := range lines {
				method, _, _ := strings.Cut(e.route, " ")
				a := g.asks(c, method, e, ledger.DefaultName)
				want := e.want(c)
				require.Equal(t, want, a.status, "%s: %.500s", e.route, a.body)
				switch want {
				case http.StatusUnauthorized:
					if e.isOTLP() {
						ofOTLP[a.seen()] = true
					} else {
						refusals[a.seen()] = true
					}
				case http.StatusForbidden:
					g.namesWhatIsNeeded(a, e)
				}
			}
		})
	}
	require.Len(t, refusals, 1, "a 401 reveals neither the reason nor what exists")
	require.Len(t, ofOTLP, 1, "OTLP has its own form of failures")
	for _, secret := range g.secrets {
		require.NotContains(t, g.log.String(), secret[len(secret)-20:], "no token is logged")
	}
	require.Contains(t, g.log.String(), "credentials refused", "the log contains the refusals")
}

// namesWhatIsNeeded checks that a 403 response names the required scopes, and says so if they are
// required on any ledger or on all ledgers.
func (g *gated) namesWhatIsNeeded(a answer, e expectation) {
	g.t.Helper()
	var detail string
	if e.isOTLP() {
		var status struct{ Message string }
		a.json(&status)
		detail = status.Message
	} else {
		detail = a.problem(http.StatusForbidden).Detail
	}
	place, scopes, all := e.place()
	named := 0
	for _, name := range scopes {
		if strings.Contains(detail, name) {
			named++
		}
	}
	require.True(g.t, named == len(scopes) || all && named > 0, "%s: %s", e.route, detail)
	if place == onAll || place == onAnyLedger {
		require.Contains(g.t, detail, place)
	}
}

// A caller without a grant on a ledger cannot find out whether that ledger exists.
func TestLedgersWithoutAGrantLookAbsent(t *testing.T) {
	g := startGated(t)
	stranger := caller{authorization: bearer(g.token("stranger", []string{"other"}, scopeNames).Text)}
	anonymous := caller{}
	for _, e := range expectations() {
		if place, _, _ := e.place(); place != onLedger && place != unlessPublic {
			continue
		}
		e.url = strings.Replace(e.url, "/v1/ledgers/spare", "~", 1)
		method, _, _ := strings.Cut(e.route, " ")
		for _, method := range []string{method, http.MethodHead, http.MethodOptions, http.MethodPatch} {
			for _, c := range []caller{stranger, anonymous} {
				there, nowhere := g.asks(c, method, e, "default"), g.asks(c, method, e, "nowhere")
				require.Equal(t, nowhere.seen(), there.seen(), "%s %s", method, e.route)
			}
		}
		found := g.asks(stranger, method, e, "default")
		require.Equal(t, http.StatusNotFound, found.status, e.route)
	}
}
