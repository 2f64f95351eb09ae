package api_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	contentsOf = prefix + "/records/{seq}/content"
	redactions = prefix + "/redactions"
	because    = `{"reason":"because"}`
)

// redacted returns a server with three records, the first of which is redacted.
func redacted(t *testing.T) *server {
	s := newServer(t)
	for range 2 {
		s.do(t, post(ipc, `{"output":"o",`+goodIPC[1:]), http.StatusCreated)
	}
	s.do(t, s.record(t, "answer"), http.StatusCreated)
	s.do(t, verb(http.MethodDelete, contentsOf, because, "seq", "1"), http.StatusCreated)
	return s
}

func TestRedactionsAreAsTheContractSays(t *testing.T) {
	s := redacted(t)
	one := verb(http.MethodDelete, contentsOf, because, "seq", "1")
	s.do(t, one, http.StatusOK)
	s.do(t, one.with("Prefer", "return=minimal"), http.StatusOK)
	keyed := verb(http.MethodDelete, contentsOf, because, "seq", "2").with("Idempotency-Key", "k")
	s.do(t, keyed, http.StatusCreated)
	s.do(t, keyed, http.StatusOK)
	keyed.body = []byte(`{"reason":"another"}`)
	s.do(t, keyed, http.StatusConflict)
	s.do(t, get(prefix+"/records/{seq}/content/{path}", "seq", "1", "path", "output"), http.StatusGone)
	for _, seq := range []string{"1", "4"} {
		s.do(t, get(prefix+"/records/{seq}", "seq", seq), http.StatusOK)
		s.do(t, get(prefix+"/records/{seq}/receipt", "seq", seq), http.StatusOK)
	}
	s.do(t, get(prefix+"/records").asking("?after=4"), http.StatusOK)
	s.do(t, get(prefix+"/records").asking("?after=4&kind=content_redacted&events=true&proofs=true"), http.StatusOK)
	s.do(t, get(prefix+"/events"), http.StatusOK)

	for _, body := range []string{
		`{"reason":"r","filter":{"kind":"citation_set","subject":"x","producer":"p","producer_seq":7}}`,
		`{"reason":"r","filter":{"kind":null,"model":"gemma2:2b"},"seqs":null,"as_of":null,"dry_run":null}`,
		`{"reason":"r","seqs":[3,0,1]}`,
		`{"reason":"r","seqs":[3,0,1],"dry_run":false,"as_of":4}`,
	} {
		s.do(t, post(redactions, body), http.StatusOK)
		s.do(t, post(redactions, body).with("Prefer", "return=minimal"), http.StatusOK)
	}
	s.disk.full.Store(true)
	s.do(t, keyed.with("Idempotency-Key", "other"), http.StatusOK) // already redacted, so nothing is written
	s.disk.full.Store(false)
	s.do(t, call{method: http.MethodPost, route: prefix + "/freeze", path: map[string]string{"ledger": "default"}}, http.StatusOK)
	s.do(t, post(redactions, `{"reason":"r","seqs":[2]}`), http.StatusForbidden)
	s.do(t, verb(http.MethodDelete, contentsOf, because, "seq", "3"), http.StatusOK)
}

func TestProblemsOfRedactionsAreAsTheContractSays(t *testing.T) {
	s := redacted(t)
	remove := func(body, seq string) call { return verb(http.MethodDelete, contentsOf, body, "seq", seq) }
	tooMany := "0" + strings.Repeat(",1", 1000)
	for _, c := range []struct {
		name    string
		call    call
		status  int
		refused bool // whether the contract also rejects the request
	}{
		{"unknown member", remove(`{"reason":"r","seqs":[2]}`, "2"), 400, true},
		{"parameter", remove(because, "2").asking("?dry_run=true"), 400, true},
		{"seq", remove(because, "x"), 400, true},
		{"no such ledger", remove(because, "2").of("nowhere"), 404, false},
		{"no such record", remove(because, "99"), 404, false},
		{"media type", remove(because, "2").with("Content-Type", "text/plain"), 415, true},
		{"body too long", remove(`{"reason":"`+strings.Repeat("x", maxBody)+`"}`, "2"), 413, true},
		{"no reason", remove(`{}`, "2"), 422, true},
		{"empty reason", remove(`{"reason":""}`, "2"), 422, true},
		{"no content", remove(because, "0"), 404, false},
		{"many: unknown member", post(redactions, `{"reason":"r","seqs":[2],"seq":2}`), 400, true},
		{"many: unknown filter", post(redactions, `{"reason":"r","filter":{"colour":"red"}}`), 400, false},
		{"many: no such ledger", post(redactions, `{"reason":"r","seqs":[2]}`).of("nowhere"), 404, false},
		{"many: media type", post(redactions, `{"reason":"r","seqs":[2]}`).with("Content-Type", "text/plain"), 415, true},
		{"many: neither", post(redactions, because), 422, false},
		{"many: empty filter", post(redactions, `{"reason":"r","filter":{}}`), 422, true},
		{"many: filter", post(redactions, `{"reason":"r","filter":{"run_id":true}}`), 422, true},
		{"many: value", post(redactions, `{"reason":"r","filter":{"kind":"x"}}`), 422, false},
		{"many: seqs", post(redactions, `{"reason":"r","seqs":[[1,2]]}`), 422, true},
		{"many: seq twice", post(redactions, `{"reason":"r","seqs":[2,2]}`), 422, true},
		{"many: too many", post(redactions, `{"reason":"r","seqs":[`+tooMany+`]}`), 422, true},
		{"many: dry run", post(redactions, `{"reason":"r","seqs":[2],"dry_run":"no"}`), 422, true},
		{"many: no as_of", post(redactions, `{"reason":"r","seqs":[2],"dry_run":false}`), 422, false},
		{"many: as_of", post(redactions, `{"reason":"r","seqs":[2],"as_of":99}`), 422, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.send(t, c.call, c.status)
			err := s.checkRequest(c.call, c.call.request(t, s.url))
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
	s.disk.full.Store(true)
	s.do(t, remove(because, "2"), http.StatusServiceUnavailable)
	s.do(t, post(redactions, `{"reason":"r","seqs":[2],"dry_run":false,"as_of":5}`), http.StatusServiceUnavailable)
}

// If a full disk interrupts a redaction, repeating the request resumes it.
func TestInterruptedRedactionContinues(t *testing.T) {
	s := newServer(t)
	var lines strings.Builder
	const records = 3000
	const first = 2048 // number of records, with two pieces each, that a single event can redact
	for i := range records {
		fmt.Fprintf(&lines, `{"kind":"ipc_record","record":{"output":"%d",%s}`+"\n", i, goodIPC[1:])
	}
	k := post(prefix+"/batch", lines.String()).with("Content-Type", ndjson)
	s.do(t, k, http.StatusOK)
	s.disk.room.Store(1)
	k = post(redactions, fmt.Sprintf(`{"reason":"r","filter":{"kind":"ipc_record"},"dry_run":false,"as_of":%d}`, records+1))
	var p struct{ Detail string }
	s.do(t, k, http.StatusServiceUnavailable).decode(t, &p)
	require.Contains(t, p.Detail, strconv.Itoa(first)+" of the records were redacted before the request failed: the server is short of disk space; repeat the request")
	s.disk.full.Store(false)
	var rest struct {
		Records         int
		AlreadyRedacted int `json:"already_redacted"`
	}
	s.do(t, k, http.StatusOK).decode(t, &rest)
	require.Equal(t, records-first, rest.Records)
	require.Equal(t, first, rest.AlreadyRedacted)
}
