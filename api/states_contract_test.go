package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const stateChanges = prefix + "/state-changes"

func TestStateChangesAreAsTheContractSays(t *testing.T) {
	s := redacted(t)
	for _, body := range []string{
		`{"state":"stale","reason":"r","filter":{"kind":"run_dag"},"original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"}`,
		`{"state":"stale","reason":"r","filter":{"kind":null,"model":"gemma2:2b"},"seqs":null,"as_of":null,"dry_run":null,"original_actor":null}`,
		`{"state":"failed","reason":"r","seqs":[3,0,1],"dry_run":false,"as_of":4}`,
		`{"state":"live","reason":"r","seqs":[3,0,1],"dry_run":false,"as_of":4}`,
	} {
		s.do(t, post(stateChanges, body), http.StatusOK)
		s.do(t, post(stateChanges, body).with("Prefer", "return=minimal"), http.StatusOK)
	}
	for _, c := range []struct {
		name, body string
		status     int
		refused    bool // whether the contract also rejects the request
	}{
		{"unknown member", `{"state":"live","reason":"r","seqs":[2],"record_seq":2}`, 400, true},
		{"unknown filter", `{"state":"live","reason":"r","filter":{"colour":"red"}}`, 400, false},
		{"state", `{"state":"gone","reason":"r","seqs":[2]}`, 422, true},
		{"no reason", `{"state":"live","seqs":[2]}`, 422, true},
		{"neither", `{"state":"live","reason":"r"}`, 422, false},
		{"empty filter", `{"state":"live","reason":"r","filter":{}}`, 422, true},
		{"too much", `{"state":"live","reason":"r","filter":{"clock":"recorded"}}`, 422, false},
		{"no as_of", `{"state":"live","reason":"r","seqs":[2],"dry_run":false}`, 422, false},
		{"seq", `{"state":"live","reason":"r","seqs":[99]}`, 422, false},
		{"time", `{"state":"live","reason":"r","seqs":[2],"timestamp":"2025"}`, 422, true},
		{"actor", `{"state":"live","reason":"r","seqs":[2],"original_actor":""}`, 422, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := post(stateChanges, c.body)
			s.send(t, k, c.status)
			err := s.checkRequest(k, k.request(t, s.url))
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
	s.do(t, call{method: http.MethodPost, route: prefix + "/freeze", path: map[string]string{"ledger": "default"}}, http.StatusOK)
	s.do(t, post(stateChanges, `{"state":"live","reason":"r","seqs":[2]}`), http.StatusForbidden)
}

// If a full disk interrupts a bulk state change, repeating the request resumes it.
func TestInterruptedStateChangesContinue(t *testing.T) {
	s := newServer(t)
	var lines strings.Builder
	const records = 3000
	for i := range records {
		fmt.Fprintf(&lines, `{"kind":"ipc_record","record":{"output":"%d",%s}`+"\n", i, goodIPC[1:])
	}
	s.do(t, post(prefix+"/batch", lines.String()).with("Content-Type", ndjson), http.StatusOK)
	s.disk.room.Store(1)
	k := post(stateChanges, fmt.Sprintf(`{"state":"stale","reason":"r","filter":{"kind":"ipc_record"},"dry_run":false,"as_of":%d}`, records+1))
	var p struct{ Detail string }
	s.do(t, k, http.StatusServiceUnavailable).decode(t, &p)
	require.Regexp(t, `^[1-9]\d* of the records were changed before the request failed: the server is short of disk space; repeat the request to change the rest$`, p.Detail)
	s.disk.full.Store(false)
	var rest struct{ Records, Already int }
	s.do(t, k, http.StatusOK).decode(t, &rest)
	require.Equal(t, records, rest.Records+rest.Already)
	require.Positive(t, rest.Already)
	require.Contains(t, p.Detail, fmt.Sprintf("%d of the records", rest.Already))
	s.do(t, k, http.StatusOK).decode(t, &rest)
	require.Zero(t, rest.Records)
}
