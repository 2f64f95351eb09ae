package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	questions "colophon/ledger/query"
	"colophon/proofs"
	"colophon/storage/memory"
)

// service is an HTTP server with an in-memory ledger.
type service struct {
	t        testing.TB
	database *memory.Database
	host     *ledger.Host
	http     *httptest.Server
	url      string // URL of the ledger "default"
}

func start(t testing.TB, change ...func(*Config)) *service {
	t.Helper()
	database := memory.New()
	host, err := ledger.OpenHost(t.Context(), database, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	_, err = host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	folded, err := questions.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	config := Config{Host: host, Index: folded, Version: "test"}
	config.ServerLimits.BadRequestRate = 1e6 // tests send many bad requests
	for _, f := range change {
		f(&config)
	}
	s, err := New(config)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(s)
	server.Config, server.Listener = s.HTTPServer(), s.LimitListener(server.Listener)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, folded.Close())
		require.NoError(t, host.Close())
	})
	return &service{t: t, database: database, host: host, http: server, url: server.URL + "/v1/ledgers/default"}
}

// answer is a response whose body has been read.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

func (s *service) do(method, url, body string, headers ...string) answer {
	s.t.Helper()
	if strings.HasPrefix(url, "/") {
		url = s.url + url
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(s.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.send(r)
}

func (s *service) send(r *http.Request) answer {
	s.t.Helper()
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return answer{s.t, response.StatusCode, response.Header, b}
}

func (s *service) get(url string, headers ...string) answer {
	s.t.Helper()
	return s.do(http.MethodGet, url, "", headers...)
}

func (s *service) post(url, body string, headers ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, url, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// want requires the response to have the given status, and returns the response.
func (a answer) want(status int) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	return a
}

// problem requires the response to be a problem with the given status, and returns the problem.
func (a answer) problem(status int) problem.Problem {
	a.t.Helper()
	a.want(status)
	require.Equal(a.t, "application/problem+json", a.header.Get("Content-Type"))
	var p problem.Problem
	a.json(&p)
	require.Equal(a.t, status, p.Status)
	require.NotEmpty(a.t, p.Title)
	require.NotEmpty(a.t, p.Detail)
	return p
}

func (a answer) json(to any) {
	a.t.Helper()
	require.NoError(a.t, json.Unmarshal(a.body, to), "%s", a.body)
}

// verified parses the answer as a receipt and verifies it.
func (s *service) verified(a answer) *proofs.Receipt {
	s.t.Helper()
	return s.verify(a.body)
}

func (s *service) verify(text []byte) *proofs.Receipt {
	s.t.Helper()
	r, err := proofs.ParseReceipt(text)
	require.NoError(s.t, err, "%s", text)
	require.NoError(s.t, r.Verify(s.verifier()))
	return r
}

func (s *service) ledger() *ledger.Ledger {
	s.t.Helper()
	l, err := s.host.Ledger(ledger.DefaultName)
	require.NoError(s.t, err)
	return l
}

func (s *service) verifier() *proofs.Verifier {
	s.t.Helper()
	v, err := proofs.ParseVerifier(s.ledger().VerifierKey())
	require.NoError(s.t, err)
	return v
}

func (s *service) size() uint64 { return s.ledger().Head().Size }

// ipcBody returns an IPC record with the given output, and with the given run_id unless it is
// empty.
func ipcBody(runID, output string) string {
	if runID != "" {
		runID = fmt.Sprintf(`"run_id":%q,`, runID)
	}
	return fmt.Sprintf(`{%s"payload":{"seed":1},"system_prompt":"Be brief.","output":%q,"model":"m","temperature":0.5,"max_tokens":10}`, runID, output)
}

func ipcLine(runID, output string) string {
	return `{"kind":"ipc_record","record":` + ipcBody(runID, output) + "}\n"
}

const claimedWrong = `{"payload":{"seed":1},"output":"o","model":"m","temperature":0.5,"max_tokens":10,"output_hash":"0000000000000000000000000000000000000000000000000000000000000000"}`

// lines splits an NDJSON answer into its lines.
func (a answer) lines() [][]byte {
	a.t.Helper()
	if len(a.body) == 0 {
		return nil
	}
	require.True(a.t, bytes.HasSuffix(a.body, []byte("\n")))
	return bytes.Split(bytes.TrimSuffix(a.body, []byte("\n")), []byte("\n"))
}

const patience = time.Minute

const eventStream = "text/event-stream"

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
