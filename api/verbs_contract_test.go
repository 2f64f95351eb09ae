package api_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	stateOf      = prefix + "/records/{seq}/state"
	noteOf       = prefix + "/records/{seq}/notes"
	validationOf = prefix + "/paths/{project}/{path_id}/validation"
	sourceOf     = prefix + "/sources/{source_id}"
)

// verb returns a request with a JSON body, such as a request to change a state. If body is
// empty, the request has no body.
func verb(method, route, body string, path ...string) call {
	k := get(route, path...)
	k.method, k.body = method, []byte(body)
	if body != "" {
		k.header = map[string]string{"Content-Type": "application/json"}
	}
	return k
}

// verbed returns a server that has an IPC record, a path fingerprint, a citation set, and one event
// for each kind of change. It also returns the requests for these changes.
func verbed(t *testing.T) (*server, []call) {
	s := newServer(t)
	s.do(t, post(ipc, goodIPC), http.StatusCreated)
	var path struct {
		Hashes struct {
			PathID string `json:"path_id"`
		}
	}
	s.do(t, s.record(t, "chapter"), http.StatusCreated).decode(t, &path)
	s.do(t, s.record(t, "answer"), http.StatusCreated)
	verbs := []call{
		verb(http.MethodPost, stateOf, `{"state":"failed","reason":"r","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"}`, "seq", "1"),
		verb(http.MethodPut, validationOf, `{"validated":false}`, "project", "harrow-vale", "path_id", path.Hashes.PathID),
		verb(http.MethodPut, sourceOf, `{"chunk_hashes":[],"title":null}`, "source_id", "x"),
		verb(http.MethodDelete, sourceOf, ``, "source_id", "x"),
		verb(http.MethodPost, noteOf, `{"topic":"review","text":"Good.","original_actor":"ana","timestamp":"2025-11-30T12:00:00Z"}`, "seq", "1"),
	}
	for _, k := range verbs {
		s.do(t, k, http.StatusCreated)
	}
	return s, verbs
}

func TestVerbsAreReadBackAsTheContractSays(t *testing.T) {
	s, verbs := verbed(t)
	for i := range verbs {
		seq := strconv.Itoa(4 + i)
		s.do(t, get(prefix+"/records/{seq}", "seq", seq), http.StatusOK)
		s.do(t, get(prefix+"/records/{seq}/receipt", "seq", seq), http.StatusOK)
	}
	s.do(t, get(prefix+"/events"), http.StatusOK)
	for _, asked := range []string{"", "&record_seq=1", "&topic=review&record_seq=1", "&events=true&proofs=true"} {
		s.do(t, get(prefix+"/records").asking("?after=8&kind=note"+asked), http.StatusOK)
	}
	s.do(t, get(prefix+"/records").asking("?topic=review&kind=ipc_record"), http.StatusBadRequest)
}

func TestAnswersToVerbsAreAsTheContractSays(t *testing.T) {
	s, verbs := verbed(t)
	others := []string{`{"state":"live","reason":"r"}`, `{"validated":true}`, `{"title":"t"}`, `{"reason":"r"}`, `{"topic":"step"}`}
	for i, k := range verbs {
		if k.method == http.MethodDelete {
			s.do(t, verb(http.MethodPut, sourceOf, `{}`, "source_id", "x"), http.StatusCreated)
		}
		keyed := k
		keyed.header = map[string]string{"Idempotency-Key": k.method + k.route, "Prefer": "return=minimal", "Content-Type": "application/json"}
		s.do(t, keyed, http.StatusCreated)
		s.do(t, keyed, http.StatusOK)
		keyed.body = []byte(others[i])
		s.do(t, keyed, http.StatusConflict)
	}
	s.disk.full.Store(true)
	s.do(t, verbs[0], http.StatusServiceUnavailable)
	s.disk.full.Store(false)
	s.do(t, call{method: http.MethodPost, route: prefix + "/freeze", path: map[string]string{"ledger": "default"}}, http.StatusOK)
	for _, k := range append(verbs[:3:3], verbs[4]) {
		s.do(t, k, http.StatusForbidden)
	}
}

func TestProblemsOfVerbsAreAsTheContractSays(t *testing.T) {
	s, verbs := verbed(t)
	s.do(t, verbs[2], http.StatusCreated)
	const reason = `{"state":"stale","reason":"r"}`
	chunk := `"sha256:` + strings.Repeat("0", 64) + `"`
	for _, c := range []struct {
		name    string
		call    call
		status  int
		refused bool // whether the contract also rejects the request
	}{
		{"unknown member", verb("POST", stateOf, `{"state":"stale","reason":"r","actor":"me"}`, "seq", "1"), 400, true},
		{"parameter", verb("POST", stateOf, reason, "seq", "1").asking("?derive=true"), 400, true},
		{"seq", verb("POST", stateOf, reason, "seq", "x"), 400, true},
		{"long key", verbs[0].with("Idempotency-Key", strings.Repeat("k", 1025)), 400, true},
		{"long id", verb("PUT", sourceOf, `{}`, "source_id", strings.Repeat("x", 1025)), 400, true},
		{"no such ledger", verbs[0].of("nowhere"), 404, false},
		{"no such record", verb("POST", stateOf, reason, "seq", "99"), 404, false},
		{"no such path", verb("PUT", validationOf, `{"validated":true}`, "project", "harrow-vale", "path_id", "00000000"), 404, false},
		{"no such source", verb("DELETE", sourceOf, ``, "source_id", "y"), 404, false},
		{"body too long", verb("POST", stateOf, `{"state":"stale","reason":"`+strings.Repeat("x", maxBody)+`"}`, "seq", "1"), 413, true},
		{"media type", verbs[1].with("Content-Type", "text/plain"), 415, true},
		{"media type of a revocation", verb("DELETE", sourceOf, `{}`, "source_id", "x").with("Content-Type", "text/plain"), 415, true},
		{"kind", verb("POST", stateOf, reason, "seq", "3"), 404, false},
		{"state", verb("POST", stateOf, `{"state":"lost","reason":"r"}`, "seq", "1"), 422, true},
		{"no reason", verb("POST", stateOf, `{"state":"stale"}`, "seq", "1"), 422, true},
		{"empty reason", verb("POST", stateOf, `{"state":"stale","reason":""}`, "seq", "1"), 422, true},
		{"long reason", verb("POST", stateOf, `{"state":"stale","reason":"`+strings.Repeat("x", 4097)+`"}`, "seq", "1"), 422, true},
		{"not validated or not", verb("PUT", validationOf, `{}`, "project", "harrow-vale", "path_id", "811d1f03"), 422, true},
		{"chunk", verb("PUT", sourceOf, `{"chunk_hashes":["0"]}`, "source_id", "x"), 422, true},
		{"chunk twice", verb("PUT", sourceOf, `{"chunk_hashes":[`+chunk+","+chunk+`]}`, "source_id", "x"), 422, true},
		{"title", verb("PUT", sourceOf, `{"title":7}`, "source_id", "x"), 422, true},
		{"type", verb("DELETE", sourceOf, `[]`, "source_id", "x"), 422, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.send(t, c.call, c.status)
			err := s.checkRequest(c.call, c.call.request(t, s.url))
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
}

func TestProducersAreAsTheContractSays(t *testing.T) {
	s := newServer(t)
	with := func(producer string) call { return post(ipc, `{"producer":`+producer+`,`+goodIPC[1:]) }
	s.do(t, with(`{"id":"web/7","seq":9223372036854775807}`), http.StatusCreated)
	s.do(t, with(`null`), http.StatusCreated)
	s.do(t, get(prefix+"/records/{seq}", "seq", "1"), http.StatusOK)
	for _, bad := range []string{`{}`, `{"id":"a"}`, `{"id":"","seq":1}`, `{"id":"a","seq":-1}`, `{"id":"a","seq":1.5}`, `7`} {
		k := with(bad)
		s.send(t, k, http.StatusUnprocessableEntity)
		require.Error(t, s.checkRequest(k, k.request(t, s.url)), bad)
	}
	for _, name := range []string{"inputs", "answer", "chapter"} {
		k := s.record(t, name)
		k.body = []byte(strings.Replace(string(k.body), `{`, `{"producer":{"id":"p","seq":0},`, 1))
		s.do(t, k, http.StatusCreated)
	}
	s.do(t, get(prefix+"/events"), http.StatusOK)
}
