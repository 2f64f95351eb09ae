package api_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

func post(route, body string) call {
	return call{method: http.MethodPost, route: route, path: map[string]string{"ledger": "default"},
		header: map[string]string{"Content-Type": "application/json"}, body: []byte(body)}
}

func get(route string, path ...string) call {
	k := call{method: http.MethodGet, route: route, path: map[string]string{"ledger": "default"}}
	for i := 0; i < len(path); i += 2 {
		k.path[path[i]] = path[i+1]
	}
	return k
}

func (k call) asking(query string) call {
	k.query = query
	return k
}

func (k call) of(ledger string) call {
	k.path = maps.Clone(k.path)
	k.path["ledger"] = ledger
	return k
}

const (
	prefix = "/v1/ledgers/{ledger}"
	ipc    = prefix + "/ipc-records"
	// goodIPC is a minimal valid IPC record.
	goodIPC = `{"payload":{},"model":"m","temperature":0,"max_tokens":1}`
)

func TestProblemsAreAsTheContractSays(t *testing.T) {
	s := newServer(t)
	s.do(t, post(ipc, goodIPC), http.StatusCreated)
	for _, c := range []struct {
		name    string
		call    call
		status  int
		refused bool // whether the contract also rejects the request
	}{
		{"unknown member", post(ipc, `{"modle":"m","payload":{},"model":"m","temperature":0,"max_tokens":1}`), 400, true},
		{"not JSON", post(ipc, `{"payload"`), 400, true},
		{"duplicate member", post(ipc, `{"model":"m",`+goodIPC[1:]), 400, false},
		{"unknown parameter", post(ipc, goodIPC).asking("?colour=blue"), 400, true},
		{"parameter value", post(ipc, goodIPC).asking("?on_mismatch=perhaps"), 400, true},
		{"long key", post(ipc, goodIPC).with("Idempotency-Key", strings.Repeat("k", 1025)), 400, true},
		{"page too long", get(prefix + "/events").asking("?limit=1001"), 400, true},
		{"page beyond the head", get(prefix + "/events").asking("?from=9"), 400, false},
		{"seq", get(prefix+"/records/{seq}", "seq", "x"), 400, true},
		{"negative seq", get(prefix+"/records/{seq}", "seq", "-1"), 400, true},
		{"tree size beyond the head", get(prefix+"/records/{seq}/receipt", "seq", "1").asking("?tree_size=9"), 400, false},
		{"event hash", get(prefix+"/events/{hash}", "hash", "ABC"), 400, true},
		{"no seq to prove", get(prefix + "/proofs/inclusion"), 400, true},
		{"no first size", get(prefix + "/proofs/consistency"), 400, true},
		{"first size 0", get(prefix + "/proofs/consistency").asking("?first=0"), 400, true},
		{"batch with a key", post(prefix+"/batch", "").with("Content-Type", ndjson).with("Idempotency-Key", "k"), 400, true},
		{"ledger of unknown member", post("/v1/ledgers", `{"name":"a","colour":"blue"}`), 400, true},

		{"no such ledger", post(ipc, goodIPC).of("nowhere"), 404, false},
		{"no such ledger to read", get(prefix).of("nowhere"), 404, false},
		{"no such record", get(prefix+"/records/{seq}", "seq", "9"), 404, false},
		{"no such receipt", get(prefix+"/records/{seq}/receipt", "seq", "9"), 404, false},
		{"no such content", get(prefix+"/records/{seq}/content/{path}", "seq", "1", "path", "output"), 404, false},
		{"no such event", get(prefix+"/events/{hash}", "hash", strings.Repeat("0", 64)), 404, false},
		{"no such tile", get(prefix+"/log/tile/{path}", "path", "0/000"), 404, false},
		{"no tile path", get(prefix+"/log/tile/{path}", "path", "0/0"), 404, true},
		{"no such kind", call{method: http.MethodPost, route: "/v1/compute/{kind}", path: map[string]string{"kind": "poem"},
			header: map[string]string{"Content-Type": "application/json"}, body: []byte(goodIPC)}, 404, true},

		{"body too long", post(ipc, `{"output":"`+strings.Repeat("x", maxBody)+`",`+goodIPC[1:]), 413, false},
		{"media type", post(ipc, goodIPC).with("Content-Type", "text/plain"), 415, true},
		{"batch as JSON", post(prefix+"/batch", goodIPC), 415, true},
		{"batch encoding", post(prefix+"/batch", "").with("Content-Type", ndjson).with("Content-Encoding", "br"), 415, true},
		{"encoded body", post(ipc, goodIPC).with("Content-Encoding", "gzip"), 415, false},

		{"missing member", post(ipc, `{"payload":{},"temperature":0}`), 422, true},
		{"no payload", post(ipc, `{"model":"m","temperature":0,"max_tokens":1}`), 422, true},
		{"type", post(ipc, strings.Replace(goodIPC, `0`, `"0"`, 1)), 422, true},
		{"null in place of a value", post(ipc, strings.Replace(goodIPC, `"m"`, `null`, 1)), 422, true},
		{"negative count", post(ipc, strings.Replace(goodIPC, `1}`, `-1}`, 1)), 422, true},
		{"upper-case hash", post(ipc, `{"output_hash":"`+strings.Repeat("A", 64)+`",`+goodIPC[1:]), 422, true},
		{"lone surrogate", post(ipc, `{"output":"\ud800",`+goodIPC[1:]), 422, false},
		{"label", post(ipc, `{"labels":{"a":1},`+goodIPC[1:]), 422, true},
		{"schema", post(ipc, `{"payload_schema":"axis-payload-2",`+goodIPC[1:]), 422, true},
		{"no DAG", post(prefix+"/run-dags", `{"run_id":"r"}`), 422, true},
		{"two shapes", post(prefix+"/run-dags", `{"inputs":{},"reject_inputs":{}}`), 422, true},
		{"DAG without stages", post(prefix+"/run-dags", `{"dag":{"root":"`+strings.Repeat("0", 64)+`","nodes":[]}}`), 422, true},
		{"weight", post(prefix+"/citation-sets", `{"subject":"s","citations":[{"source_id":"x","text":"t","weight":1.5}]}`), 422, true},
		{"citation of nothing", post(prefix+"/citation-sets", `{"subject":"s","citations":[{"source_id":"x","weight":1}]}`), 422, true},
		{"fingerprint", post(prefix+"/path-fingerprints", `{"project":"p","route":["a"],"path_id":"123"}`), 422, true},
		{"ledger name", post("/v1/ledgers", `{"name":"Not Good"}`), 422, true},
		{"ledger origin", post("/v1/ledgers", `{"name":"a","origin":"with space"}`), 422, true},
		{"ledger setting", post("/v1/ledgers", `{"name":"a","on_mismatch":"ignore"}`), 422, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.send(t, c.call, c.status)
			err := s.checkRequest(c.call, c.call.request(t, s.url))
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
}

func TestConflictsAndRefusals(t *testing.T) {
	s := newServer(t)
	s.do(t, s.record(t, "mismatch"), http.StatusCreated)
	other := s.record(t, "mismatch")
	other.body = bytes.Replace(other.body, []byte("0.7"), []byte("0.8"), 1)
	s.do(t, other, http.StatusConflict)
	s.do(t, s.record(t, "mismatch").asking("?on_mismatch=reject"), http.StatusOK) // replayed
	s.do(t, s.record(t, "mismatch").asking("?on_mismatch=reject").with("Idempotency-Key", "another"), http.StatusUnprocessableEntity)

	s.do(t, post("/v1/ledgers", `{"name":"second","origin":null}`), http.StatusCreated)
	s.do(t, post("/v1/ledgers", `{"name":"second"}`), http.StatusConflict)
	freeze := call{method: http.MethodPost, route: prefix + "/freeze", path: map[string]string{"ledger": "second"}}
	s.do(t, freeze, http.StatusOK)
	s.do(t, freeze, http.StatusOK)
	s.do(t, post(ipc, goodIPC).of("second"), http.StatusForbidden)
}

func TestTroubleWithTheDisk(t *testing.T) {
	s := newServer(t)
	s.do(t, s.record(t, "complete"), http.StatusCreated)
	s.disk.full.Store(true)
	s.do(t, s.record(t, "mismatch"), http.StatusServiceUnavailable)
	s.do(t, get("/readyz"), http.StatusServiceUnavailable)
	s.disk.lost.Store(true)
	s.do(t, get(prefix+"/records/{seq}/content/{path}", "seq", "1", "path", "output"), http.StatusInternalServerError)
}

func TestBatchAnswersAreAsTheContractSays(t *testing.T) {
	s := newServer(t)
	line := func(record string) string { return `{"kind":"ipc_record","record":` + record + "}\n" }
	body := line(goodIPC) + // 201
		line(`{"run_id":"r",`+goodIPC[1:]) + // 201
		line(`{"run_id":"r","output":"other",`+goodIPC[1:]) + // 409
		line(`{"output":"o","output_hash":"`+strings.Repeat("0", 64)+`",`+goodIPC[1:]) + // a mismatch: 422 with on_mismatch=reject, otherwise 201
		line(`{"modle":"m",`+goodIPC[1:]) + // 400
		line(`{"output":"`+strings.Repeat("x", maxBody)+`",`+goodIPC[1:]) + // 413
		"\n" + // an empty line has no result
		`{"kind":"poem","record":{}}` + "\n" + // 422
		line(`{"run_id":"r",`+goodIPC[1:]) // 200
	for _, c := range []struct {
		query, prefer string
		want          []int // statuses of the problems, in order; 0 for a receipt
	}{
		{"", "", []int{0, 0, 409, 0, 400, 413, 422, 0}},
		{"?on_mismatch=reject", "return=representation", []int{0, 0, 409, 422, 400, 413, 422, 0}},
	} {
		k := post(prefix+"/batch", body).with("Content-Type", ndjson).asking(c.query)
		if c.prefer != "" {
			k = k.with("Prefer", c.prefer)
		}
		a := s.send(t, k, http.StatusOK)
		var got []int
		for _, r := range results(t, a.body) {
			got = append(got, r.Status)
		}
		require.Equal(t, c.want, got)
		require.Equal(t, c.prefer != "", bytes.Contains(bytes.SplitAfter(a.body, []byte("\n"))[0], []byte(`"inclusion"`)))
	}
}

// TestContractCheckerCanFail alters valid requests and responses. The checker must report each
// alteration.
func TestContractCheckerCanFail(t *testing.T) {
	s := newServer(t)
	k := s.record(t, "complete")
	a := s.do(t, k, http.StatusCreated)
	events := get(prefix + "/events")
	lines := s.do(t, events, http.StatusOK)
	problem := s.send(t, get(prefix+"/records/{seq}", "seq", "9"), http.StatusNotFound)
	for name, spoil := range map[string]func() (call, reply){
		"status":         func() (call, reply) { a := a.clone(); a.status = http.StatusTeapot; return k, a },
		"header":         func() (call, reply) { a := a.clone(); a.header.Set("X-Surprise", "1"); return k, a },
		"missing header": func() (call, reply) { a := a.clone(); a.header.Del("Location"); return k, a },
		"media type":     func() (call, reply) { a := a.clone(); a.header.Set("Content-Type", "text/html"); return k, a },
		"member":         func() (call, reply) { return k, a.set("surprise", "1") },
		"member missing": func() (call, reply) { return k, a.set("inclusion", "") },
		"inner member": func() (call, reply) {
			return k, a.set("inclusion", `{"leaf_index":1,"tree_size":2,"hashes":[],"depth":1}`)
		},
		"hash":      func() (call, reply) { return k, a.set("leaf_hash", `"`+strings.Repeat("F", 64)+`"`) },
		"hash name": func() (call, reply) { return k, a.set("hashes", `{"ipc":"`+strings.Repeat("0", 64)+`"}`) },
		"check":     func() (call, reply) { return k, a.set("checks", `{"ipc_id":{"result":"maybe"}}`) },
		"type":      func() (call, reply) { return k, a.set("seq", `"1"`) },
		"line":      func() (call, reply) { return events, lines.edit(`"entry"`, `"bytes"`) },
		"line end":  func() (call, reply) { return events, reply{lines.status, lines.header, lines.body[:len(lines.body)-1]} },
		"problem": func() (call, reply) {
			return get(prefix+"/records/{seq}", "seq", "9"), problem.set("trace", `"api.go:1"`)
		},
		"route":  func() (call, reply) { return post(prefix+"/poems", goodIPC), a },
		"method": func() (call, reply) { return post(prefix+"/stats", ""), a },
	} {
		k, a := spoil()
		require.Error(t, s.checkResponse(k, k.request(t, s.url), a), name)
	}
	undocumented := k.with("Content-Type", "application/json").asking("?colour=blue")
	require.Error(t, s.checkRequest(undocumented, undocumented.request(t, s.url)))
	example := s.Components.Examples["ReceiptMinimal"].Value.Value.(map[string]any)
	example["surprise"] = true
	require.Error(t, s.Validate(t.Context(), openapi3.EnableExamplesValidation()), "an example with an unknown member")
	delete(example, "surprise")
	require.NoError(t, s.Validate(t.Context(), openapi3.EnableExamplesValidation()), "the unchanged example")
	require.NoError(t, s.checkResponse(k, k.request(t, s.url), a), "the unchanged answer")
	require.NoError(t, s.checkResponse(events, events.request(t, s.url), lines), "the unchanged lines")
}

func (a reply) clone() reply { return reply{a.status, a.header.Clone(), bytes.Clone(a.body)} }

// edit returns a copy of the reply with every occurrence of from in the body replaced by to.
func (a reply) edit(from, to string) reply {
	a = a.clone()
	a.body = bytes.ReplaceAll(a.body, []byte(from), []byte(to))
	return a
}

// set returns a copy of the reply in which the named member of the body has a new value. An empty
// value removes the member.
func (a reply) set(name, value string) reply {
	a = a.clone()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &members); err != nil {
		panic(err)
	}
	members[name] = json.RawMessage(value)
	if value == "" {
		delete(members, name)
	}
	var err error
	if a.body, err = json.Marshal(members); err != nil {
		panic(err)
	}
	return a
}
