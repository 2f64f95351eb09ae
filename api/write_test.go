package api

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
)

func TestWriteAnswersAVerifiedReceipt(t *testing.T) {
	s := start(t)
	for path, body := range map[string]string{
		"/ipc-records":       ipcBody("r", "o"),
		"/run-dags":          `{"dag":{"root":"` + zeros + `","nodes":[{"stage":"question","hash":"` + zeros + `"}]}}`,
		"/citation-sets":     `{"subject":"s","citations":[{"source_id":"x","text":"t","weight":0.5}]}`,
		"/path-fingerprints": `{"project":"p","route":["a"],"content":"c"}`,
	} {
		a := s.post(path, body).want(http.StatusCreated)
		r := s.verified(a)
		require.Equal(t, s.size()-1, r.Seq)
		require.Equal(t, "/v1/ledgers/default/records/"+decimal(r.Seq), a.header.Get("Location"))
		again := s.get("/records/" + decimal(r.Seq) + "/receipt").want(http.StatusOK)
		require.Equal(t, r, s.verified(again))
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func TestMinimalReceipt(t *testing.T) {
	s := start(t)
	a := s.post("/ipc-records", ipcBody("r", "o"), "Prefer", "return=minimal").want(http.StatusCreated)
	require.NotContains(t, string(a.body), "checkpoint")
	require.NotContains(t, string(a.body), "inclusion")
	require.Contains(t, string(a.body), "ipc_id")
}

func TestBadRequestsRecordNothing(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxBodySize = 4096 })
	good := ipcBody("r", "o")
	for _, c := range []struct {
		name, path, body, contentType string
		status                        int
		pointer                       string
	}{
		{"not JSON", "/ipc-records", `{`, "application/json", 400, ""},
		{"empty", "/ipc-records", ``, "application/json", 400, ""},
		{"invalid UTF-8", "/ipc-records", strings.Replace(good, `"o"`, "\"\xff\"", 1), "application/json", 400, ""},
		{"lone surrogate", "/ipc-records", strings.Replace(good, `"o"`, `"\ud800"`, 1), "application/json", 422, "/output"},
		{"duplicate member", "/ipc-records", strings.Replace(good, `"model"`, `"output":"x","model"`, 1), "application/json", 400, ""},
		{"unknown member", "/ipc-records", strings.Replace(good, `"model"`, `"modell":"x","model"`, 1), "application/json", 400, "/modell"},
		{"wrong type", "/ipc-records", strings.Replace(good, `"m"`, `7`, 1), "application/json", 422, "/model"},
		{"too deep", "/ipc-records", strings.Replace(good, `{"seed":1}`, `{"x":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+`}`, 1), "application/json", 400, "*"},
		{"negative count", "/ipc-records", strings.Replace(good, `10}`, `-10}`, 1), "application/json", 422, "/max_tokens"},
		{"too long", "/ipc-records", ipcBody("r", strings.Repeat("x", 5000)), "application/json", 413, ""},
		{"media type", "/ipc-records", good, "text/plain", 415, ""},
		{"no media type", "/ipc-records", good, "", 415, ""},
		{"unknown parameter", "/ipc-records?on_mismach=reject", good, "application/json", 400, "/on_mismach"},
		{"bad parameter", "/ipc-records?on_mismatch=maybe", good, "application/json", 400, "/on_mismatch"},
		{"other kind", "/citation-sets", good, "application/json", 400, "/payload"},
		{"unknown route", "/poems", good, "application/json", 404, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.contentType != "" {
				headers = []string{"Content-Type", c.contentType}
			}
			p := s.do(http.MethodPost, c.path, c.body, headers...).problem(c.status)
			if c.pointer != "" {
				require.NotEmpty(t, p.Errors)
			}
			if c.pointer != "" && c.pointer != "*" {
				require.Equal(t, c.pointer, p.Errors[0].Pointer)
			}
			require.EqualValues(t, 1, s.size())
		})
	}
	require.EqualValues(t, 405, s.do(http.MethodDelete, "/ipc-records", "").problem(405).Status)
	s.do(http.MethodPost, s.http.URL+"/v1/ledgers/none/ipc-records", good, "Content-Type", "application/json").problem(404)
}

func TestMismatchIsFlaggedOrRefused(t *testing.T) {
	s := start(t)
	r := s.verified(s.post("/ipc-records", claimedWrong).want(http.StatusCreated))
	require.Contains(t, string(r.Checks), `"result":"mismatch"`)

	p := s.post("/ipc-records?on_mismatch=reject", claimedWrong).problem(http.StatusUnprocessableEntity)
	require.Len(t, p.Errors, 1)
	require.Equal(t, "/output_hash", p.Errors[0].Pointer)
	require.Equal(t, zeros, p.Errors[0].Claimed)
	require.Len(t, p.Errors[0].Computed, 64)
	refusal := s.verify(p.Receipt)
	require.Equal(t, "record_refused", refusal.Kind)
}

func TestLedgerCanRefuseMismatches(t *testing.T) {
	s := start(t)
	ledgers := s.http.URL + "/v1/ledgers"
	s.post(ledgers, `{"name":"strict","on_mismatch":"reject"}`).want(http.StatusCreated)
	s.post(ledgers+"/strict/ipc-records", claimedWrong).problem(http.StatusUnprocessableEntity)
	s.post(ledgers+"/strict/ipc-records?on_mismatch=accept", claimedWrong).want(http.StatusCreated)
}

func TestIdempotencyKey(t *testing.T) {
	s := start(t)
	first := s.post("/ipc-records", ipcBody("a", "o"), "Idempotency-Key", "k").want(http.StatusCreated)
	again := s.post("/ipc-records", ipcBody("a", "o"), "Idempotency-Key", "k").want(http.StatusOK)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, s.verified(first).EventHash, s.verified(again).EventHash)
	p := s.post("/ipc-records", ipcBody("b", "o"), "Idempotency-Key", "k").problem(http.StatusConflict)
	require.Equal(t, s.verified(first).Seq, *p.FirstSeq)
	require.Equal(t, "record_refused", s.verify(p.Receipt).Kind)
	s.post("/ipc-records", ipcBody("a", "o"), "Idempotency-Key", strings.Repeat("k", 2000)).problem(http.StatusBadRequest)
}

func TestTwoClientsWithOneKeyAtOnce(t *testing.T) {
	s := start(t)
	var mu sync.Mutex
	statuses := make(map[int]int)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			a := s.post("/ipc-records", ipcBody("same", "o"))
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	group.Wait()
	require.Equal(t, map[int]int{http.StatusCreated: 1, http.StatusOK: 15}, statuses)
	require.EqualValues(t, 2, s.size())
}

// A web page of another origin cannot make a browser write to a server on loopback.
func TestOtherOriginsAreRefused(t *testing.T) {
	s := start(t)
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Origin", "https://evil.example"},
	} {
		s.post("/ipc-records", ipcBody("r", "o"), headers...).problem(http.StatusForbidden)
		s.do(http.MethodPost, "/freeze", "", headers...).problem(http.StatusForbidden)
		s.get("/log/checkpoint", headers...).want(http.StatusOK)
	}
	require.False(t, s.ledger().Info().Frozen)
	s.post("/ipc-records", ipcBody("r", "o"), "Sec-Fetch-Site", "same-origin").want(http.StatusCreated)
}

// If a body does not arrive within BodyTimeout, the answer is 408.
func TestSlowBody(t *testing.T) {
	s := start(t, func(c *Config) { c.BodyTimeout = time.Millisecond })
	r, w := io.Pipe()
	defer w.Close()
	request, err := http.NewRequest(http.MethodPost, s.url+"/ipc-records", r)
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	s.send(request).problem(http.StatusRequestTimeout)
}

func TestComputeRecordsNothing(t *testing.T) {
	s := start(t)
	for _, kind := range []string{"ipc_record", "ipc-records"} {
		a := s.post(s.http.URL+"/v1/compute/"+kind, claimedWrong).want(http.StatusOK)
		require.Contains(t, string(a.body), `"result":"mismatch"`)
	}
	s.post(s.http.URL+"/v1/compute/poem", claimedWrong).problem(http.StatusNotFound)
	require.EqualValues(t, 1, s.size())
}

func TestFrozenLedgerIsReadOnly(t *testing.T) {
	s := start(t)
	s.post("/freeze", "").want(http.StatusOK)
	s.post("/ipc-records", ipcBody("r", "o")).problem(http.StatusForbidden)
	a := s.do(http.MethodPost, "/batch", ipcLine("r", "o"), "Content-Type", call.NDJSONMediaType).want(http.StatusOK)
	require.Contains(t, string(a.body), `"status":403`)
	s.get("/log/checkpoint").want(http.StatusOK)
	require.EqualValues(t, 1, s.size())
}

func TestCreatedLedgersAreIndependent(t *testing.T) {
	s := start(t)
	ledgers := s.http.URL + "/v1/ledgers"
	s.post(ledgers, `{"name":"other"}`).want(http.StatusCreated)
	s.post(ledgers, `{"name":"other"}`).problem(http.StatusConflict)
	s.post(ledgers, `{"name":"Other"}`).problem(http.StatusUnprocessableEntity)
	s.post(ledgers, `{"name":"third","origin":"has space"}`).problem(http.StatusUnprocessableEntity)
	s.post(ledgers, `{"name":"third","Origin":"x"}`).problem(http.StatusBadRequest)
	s.post(ledgers, `{"name":7}`).problem(http.StatusUnprocessableEntity)
	s.post(ledgers+"/other/ipc-records", ipcBody("r", "o")).want(http.StatusCreated)
	s.post("/ipc-records", ipcBody("r", "o")).want(http.StatusCreated)
	require.Len(t, s.host.Ledgers(), 2)
	require.NotEqual(t, s.host.Ledgers()[0].Info().Origin, s.host.Ledgers()[1].Info().Origin)
}
