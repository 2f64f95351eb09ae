package doctor

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
	"colophon/internal/remote"
	"colophon/internal/server"
	"colophon/internal/testing/authority"
)

// connect returns a client of a test server that runs the handler.
func connect(t testing.TB, handler http.HandlerFunc) *remote.Connection {
	t.Helper()
	listener := httptest.NewServer(handler)
	t.Cleanup(listener.Close)
	s, err := remote.Options{URL: listener.URL}.Connect(newDeployment(t).console)
	require.NoError(t, err)
	return s
}

func TestAskNamesWhatAnswers(t *testing.T) {
	for words, handler := range map[string]http.HandlerFunc{
		"not a Colophon server": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"502":                   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		s := connect(t, handler)
		answers, err := ask(t.Context(), s, s)
		require.NoError(t, err)
		require.ErrorContains(t, answers.err, words)
	}
}

// askServer sends the token to the server, but not to the address of its metrics.
func TestAskSendsTheTokenToTheServerOnly(t *testing.T) {
	tokens := make(map[string][]string) // Authorization headers, keyed by path
	handler := func(w http.ResponseWriter, r *http.Request) {
		tokens[r.URL.Path] = append(tokens[r.URL.Path], r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"version":"v1.2.3","ledgers":[]}`)
	}
	main, metrics := httptest.NewServer(http.HandlerFunc(handler)), httptest.NewServer(http.HandlerFunc(handler))
	defer main.Close()
	defer metrics.Close()
	d := newDeployment(t, withConfig(func(c *server.Config) { c.MetricsListenAddress = metrics.Listener.Addr().String() }))
	d.console.LookupEnv = func(name string) (string, bool) { return "secret", name == "COLOPHON_TOKEN" }
	require.NoError(t, d.askServer(t.Context(), remote.Options{URL: main.URL}))
	require.NoError(t, d.server.err)
	require.Equal(t, map[string][]string{
		"/version": {"Bearer secret"}, "/readyz": {"Bearer secret"}, "/v1/ledgers": {"", "Bearer secret"}, "/metrics": {""},
	}, tokens)
}

func wireTime(t time.Time) wire.Time { return wire.Time(t.Format(time.RFC3339Nano)) }

func TestGrowthIsThatOfTheLastWeek(t *testing.T) {
	// slow events arrive at one per hour. Then quick events arrive at five per hour, for a week.
	const slow, quick = 1000, 840
	week := testNow.AddDate(0, 0, -7)
	timeOf := func(seq int) time.Time {
		if seq < slow {
			return week.Add(time.Duration(seq-slow) * time.Hour)
		}
		return week.Add(time.Duration(seq-slow) * time.Hour / 5)
	}
	requests := 0
	s := connect(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		seq, err := strconv.Atoi(r.URL.Query().Get("from"))
		if err != nil || r.URL.Path != "/v1/ledgers/default/events" || r.URL.Query().Get("limit") != "1" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"seq":%d,"event_hash":"","entry":"","event":{"time":%q}}`+"\n", seq, timeOf(seq).Format(time.RFC3339Nano))
	})
	l := ledgerAnswers{LedgerDescription: wire.LedgerDescription{Name: "default", TreeSize: slow + quick, Created: wireTime(timeOf(0))}}
	perDay, err := l.growth(t.Context(), s, testNow)
	require.NoError(t, err)
	require.InDelta(t, quick/7.0, perDay, 0.01)
	require.LessOrEqual(t, requests, 11, "a binary search must need few requests")

	l.Created = wireTime(testNow.Add(-time.Hour))
	perDay, err = l.growth(t.Context(), s, testNow)
	require.NoError(t, err)
	require.Zero(t, perDay, "a ledger that was just created must show no growth")

	l = ledgerAnswers{LedgerDescription: wire.LedgerDescription{Name: "other", TreeSize: 10, Created: wireTime(timeOf(0))}}
	_, err = l.growth(t.Context(), s, testNow)
	require.ErrorContains(t, err, "400")
}

func TestExamineTrustsTheServersOwnCertificate(t *testing.T) {
	s := authority.New(t)
	config := server.Config{DataDir: filepath.Join(s.Dir, "data")}.WithDefaults()
	config.TLSCertFile, config.TLSKeyFile = s.IssueServer("server")
	pair, err := tls.LoadX509KeyPair(config.TLSCertFile, config.TLSKeyFile)
	require.NoError(t, err)
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	other.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	other.StartTLS()
	defer other.Close()
	config.ListenAddress = other.Listener.Addr().String()
	d := newDeployment(t, func(d *deployment) { d.settings.config = config })
	require.NoError(t, d.askServer(t.Context(), remote.Options{}))
	require.ErrorContains(t, d.server.err, "not a Colophon server", "the handshake succeeds")

	require.NoError(t, d.askServer(t.Context(), remote.Options{URL: d.settings.serverURL()}))
	require.ErrorContains(t, d.server.err, "certificate")
	list := checkServer(d)
	requireFinding(t, list, VerdictNotChecked, "certificate")
	require.Contains(t, list[0].Advice, "--ca-file")
}

func TestClockDifferenceAllowsForTheRequest(t *testing.T) {
	at := func(milliseconds int) time.Time {
		return testNow.Add(time.Duration(milliseconds) * time.Millisecond)
	}
	require.Zero(t, clockDifference(at(0), at(300), at(800)), "the header has whole seconds")
	require.Zero(t, clockDifference(at(1000), at(300), at(1200)))
	require.Equal(t, -1300*time.Millisecond, clockDifference(at(-1000), at(300), at(800)))
	require.Equal(t, 4200*time.Millisecond, clockDifference(at(5000), at(300), at(800)))
}
