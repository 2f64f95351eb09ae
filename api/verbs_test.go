package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/storeaudit"
	"colophon/proofs"
	"colophon/proofs/audit"
)

func (s *service) put(url, body string, headers ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPut, url, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// recordOf verifies a receipt and returns the record member of its event, without the digest.
func (s *service) recordOf(a answer) map[string]any {
	s.t.Helper()
	var event struct {
		Record map[string]any `json:"record"`
	}
	require.NoError(s.t, json.Unmarshal(s.verified(a).Proof.Event, &event))
	delete(event.Record, "digest")
	return event.Record
}

// audited requires that an audit of the whole log finds no damage.
func (s *service) audited() {
	s.t.Helper()
	report, err := audit.WalkLog(context.Background(), storeaudit.NewSource(s.ledger().Reader()),
		audit.Options{Verifiers: []*proofs.Verifier{s.verifier()}, Ledger: ledger.DefaultName})
	require.NoError(s.t, err)
	require.Nil(s.t, report.Damage)
	require.Equal(s.t, s.size(), report.Size)
}

const (
	dagBody  = `{"dag":{"root":"` + zeros + `","nodes":[{"stage":"question","hash":"` + zeros + `"}]}}`
	setBody  = `{"subject":"s","citations":[{"source_id":"x","text":"t","weight":0.5}]}`
	pathBody = `{"project":"p","route":["a"],"content":"c"}`
)

func TestStateIsChanged(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	s.post("/run-dags", dagBody).want(http.StatusCreated)
	for _, c := range []struct{ seq, state string }{{"1", "failed"}, {"2", "quarantined"}, {"1", "stale"}, {"1", "live"}, {"1", "live"}} {
		a := s.post("/records/"+c.seq+"/state", `{"state":"`+c.state+`","reason":"because"}`).want(http.StatusCreated)
		r := s.verified(a)
		require.Equal(t, "record_state_changed", r.Kind)
		require.Equal(t, "{}", string(r.Hashes))
		require.Equal(t, "{}", string(r.Checks))
		require.Equal(t, s.size()-1, r.Seq)
		require.Equal(t, "/v1/ledgers/default/records/"+decimal(r.Seq), a.header.Get("Location"))
		seq := map[string]float64{"1": 1, "2": 2}[c.seq]
		require.Equal(t, map[string]any{"record_seq": seq, "state": c.state, "reason": "because"}, s.recordOf(a))
		require.Equal(t, r, s.verified(s.get("/records/"+decimal(r.Seq)+"/receipt").want(http.StatusOK)))
	}
	s.audited()
}

func TestOnlyRecordsThatCanHaveAStateHaveOne(t *testing.T) {
	s := start(t)
	s.post("/citation-sets", setBody).want(http.StatusCreated)
	s.post("/path-fingerprints", pathBody).want(http.StatusCreated)
	s.put("/sources/x", `{}`).want(http.StatusCreated)
	size := s.size()
	const change = `{"state":"stale","reason":"r"}`
	for seq := range size + 2 {
		s.post("/records/"+decimal(seq)+"/state", change).problem(http.StatusNotFound)
	}
	s.post("/records/x/state", change).problem(http.StatusBadRequest)
	require.Equal(t, size, s.size())
}

// A record of any kind can have notes. Notes can be found by their record and by their topic.
func TestNotes(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	s.post("/citation-sets", setBody).want(http.StatusCreated)
	const origin = `"original_actor":"Ana Varga","timestamp":"2025-11-30T12:00:00.5+01:00"`
	a := s.post("/records/2/notes", `{"topic":"review","text":"Good.",`+origin+`}`).want(http.StatusCreated)
	r := s.verified(a)
	require.Equal(t, "note", r.Kind)
	require.Equal(t, map[string]any{"record_seq": 2.0, "topic": "review", "text": "Good.", "original_actor": "Ana Varga", "timestamp": "2025-11-30T12:00:00.5+01:00"}, s.recordOf(a))
	s.post("/records/1/notes", `{"topic":"step"}`).want(http.StatusCreated)
	s.post("/records/1/state", `{"state":"stale","reason":"r",`+origin+`}`).want(http.StatusCreated)
	for asked, want := range map[string][]uint64{"&kind=note": {4, 3}, "": {2, 1}, "&kind=note&topic=step": {4}, "&record_seq=1": {4}, "&topic=review": {3}, "&topic=step&record_seq=2": nil, "&record_seq=7": nil} {
		var list struct{ Rows []struct{ Seq uint64 } }
		s.get("/records?after=5" + asked).want(http.StatusOK).json(&list)
		var seqs []uint64
		for _, row := range list.Rows {
			seqs = append(seqs, row.Seq)
		}
		require.Equal(t, want, seqs, asked)
	}
	s.get("/records?record_seq=1&kind=run_dag").problem(http.StatusBadRequest)
	s.get("/records?kind=note&record_seq=01").problem(http.StatusBadRequest)
	s.audited()
}

func TestPathIsValidated(t *testing.T) {
	s := start(t)
	var first struct {
		Hashes struct {
			PathID  string `json:"path_id"`
			Content string `json:"content_fingerprint"`
		}
	}
	s.post("/path-fingerprints", pathBody).want(http.StatusCreated).json(&first)
	url := "/paths/p/" + first.Hashes.PathID + "/validation"
	r := s.put(url, `{"validated":true,"reason":"read"}`).want(http.StatusCreated)
	require.Equal(t, "path_validated", s.verified(r).Kind)
	require.Equal(t, map[string]any{"project": "p", "path_id": first.Hashes.PathID, "validated": true, "reason": "read",
		"content_fingerprint": first.Hashes.Content, "record_seq": 1.0}, s.recordOf(r))

	second := s.verified(s.post("/path-fingerprints", `{"project":"p","route":["a"]}`).want(http.StatusCreated))
	r = s.put(url, `{"validated":false}`).want(http.StatusCreated)
	require.Equal(t, map[string]any{"project": "p", "path_id": first.Hashes.PathID, "validated": false,
		"content_fingerprint": nil, "record_seq": float64(second.Seq)}, s.recordOf(r))

	size := s.size()
	s.put("/paths/q/"+first.Hashes.PathID+"/validation", `{"validated":true}`).problem(http.StatusNotFound)
	s.put("/paths/p/00000000/validation", `{"validated":true}`).problem(http.StatusNotFound)
	require.Equal(t, size, s.size())
	s.audited()
}

func TestSourceIsRegisteredAndRevoked(t *testing.T) {
	s := start(t)
	chunk := "sha256:" + zeros
	a := s.put("/sources/x", `{"chunk_hashes":["`+chunk+`"],"title":"t","reason":"r"}`).want(http.StatusCreated)
	require.Equal(t, "source_registered", s.verified(a).Kind)
	require.Equal(t, map[string]any{"source_id": "x", "chunk_hashes": []any{chunk}, "title": "t", "reason": "r"}, s.recordOf(a))
	a = s.put("/sources/x", `{"chunk_hashes":[]}`).want(http.StatusCreated)
	require.Equal(t, map[string]any{"source_id": "x", "chunk_hashes": []any{}}, s.recordOf(a))

	a = s.do(http.MethodDelete, "/sources/x", "").want(http.StatusCreated)
	require.Equal(t, "source_revoked", s.verified(a).Kind)
	require.Equal(t, map[string]any{"source_id": "x"}, s.recordOf(a))
	s.do(http.MethodDelete, "/sources/x", "").problem(http.StatusNotFound)
	s.do(http.MethodDelete, "/sources/y", "").problem(http.StatusNotFound)
	s.put("/sources/", `{}`).problem(http.StatusNotFound)
	s.do(http.MethodDelete, "/sources/", "").problem(http.StatusNotFound)

	s.put("/sources/x", `{}`).want(http.StatusCreated)
	a = s.do(http.MethodDelete, "/sources/x", `{"reason":"gone"}`, "Content-Type", "application/json").want(http.StatusCreated)
	require.Equal(t, map[string]any{"source_id": "x", "reason": "gone"}, s.recordOf(a))
	s.audited()
}

// Path elements are decoded exactly once.
func TestNamesInPaths(t *testing.T) {
	s := start(t)
	for escaped, id := range map[string]string{
		"a%2Fb":                   "a/b",
		"a%2fb%2Fc%25":            "a/b/c%",
		"a%2541":                  "a%41",
		"a%252Fb%2F":              "a%2Fb/",
		"harbour%20records%234":   "harbour records#4",
		"a+b":                     "a+b",
		"caf%C3%A9":               "café",
		"%00":                     "\x00",
		"%2E%2E":                  "..",
		"a;b=c,d:@&$!*'()":        "a;b=c,d:@&$!*'()",
		"%3Areceipt%3F":           ":receipt?",
		strings.Repeat("x", 1024): strings.Repeat("x", 1024),
	} {
		a := s.put("/sources/"+escaped, `{}`).want(http.StatusCreated)
		require.Equal(t, map[string]any{"source_id": id}, s.recordOf(a), escaped)
		s.do(http.MethodDelete, "/sources/"+escaped, "").want(http.StatusCreated)

		project, err := json.Marshal(id)
		require.NoError(t, err)
		r := s.verified(s.post("/path-fingerprints", `{"project":`+string(project)+`,"route":["`+"é/b"+`"]}`).want(http.StatusCreated))
		var hashes struct {
			PathID string `json:"path_id"`
		}
		require.NoError(t, json.Unmarshal(r.Hashes, &hashes))
		a = s.put("/paths/"+escaped+"/"+hashes.PathID+"/validation", `{"validated":true}`).want(http.StatusCreated)
		require.Equal(t, id, s.recordOf(a)["project"])
	}
	size := s.size()
	for _, escaped := range []string{"%FF", "a%2F%ED%A0%80", strings.Repeat("x", 1025)} {
		require.Equal(t, "/source_id", s.put("/sources/"+escaped, `{}`).problem(http.StatusBadRequest).Errors[0].Pointer)
	}
	s.put("/sources/", `{}`).problem(http.StatusNotFound)
	s.put("/paths/%FF/00000000/validation", `{"validated":true}`).problem(http.StatusBadRequest)
	require.Equal(t, size, s.size())
	s.audited()
}

func TestBadVerbsRecordNothing(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxBodySize = 200 << 10 })
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	s.put("/sources/x", `{}`).want(http.StatusCreated)
	chunks := make([]string, 1000)
	for i := range chunks {
		chunks[i] = `"sha256:` + zeros[:60] + string([]byte{'0' + byte(i/1000), '0' + byte(i/100%10), '0' + byte(i/10%10), '0' + byte(i%10)}) + `"`
	}
	const state, good = "/records/1/state", `{"state":"stale","reason":"r"}`
	size := s.size()
	for _, c := range []struct {
		name, method, url, body string
		status                  int
		pointer                 string
	}{
		{"no reason", "POST", state, `{"state":"stale"}`, 422, "/reason"},
		{"empty reason", "POST", state, `{"state":"stale","reason":""}`, 422, "/reason"},
		{"state", "POST", state, `{"state":"gone","reason":"r"}`, 422, "/state"},
		{"unknown member", "POST", state, `{"state":"stale","reason":"r","seq":1}`, 400, "/seq"},
		{"not JSON", "POST", state, `{`, 400, ""},
		{"no body", "POST", state, ``, 400, ""},
		{"parameter", "POST", state + "?on_mismatch=accept", good, 400, "/on_mismatch"},
		{"too long", "POST", state, `{"state":"stale","reason":"` + strings.Repeat("x", 300<<10) + `"}`, 413, ""},
		{"chunk", "PUT", "/sources/x", `{"chunk_hashes":["x"]}`, 422, "/chunk_hashes/0"},
		{"chunk twice", "PUT", "/sources/x", `{"chunk_hashes":["sha256:` + zeros + `","sha256:` + zeros + `"]}`, 422, "/chunk_hashes/1"},
		{"too many chunks", "PUT", "/sources/x", `{"chunk_hashes":[` + strings.Join(chunks, ",") + `]}`, 422, "/chunk_hashes"},
		{"no body to register", "PUT", "/sources/x", ``, 400, ""},
		{"reason to revoke", "DELETE", "/sources/x", `{"reason":7}`, 422, "/reason"},
		{"title to revoke", "DELETE", "/sources/x", `{"title":"t"}`, 400, "/title"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.do(c.method, c.url, c.body, "Content-Type", "application/json").problem(c.status)
			if c.pointer != "" {
				require.Equal(t, c.pointer, p.Errors[0].Pointer)
			}
		})
	}
	s.do("POST", state, good, "Content-Type", "text/plain").problem(http.StatusUnsupportedMediaType)
	s.do("DELETE", "/sources/x", `{}`).problem(http.StatusUnsupportedMediaType)
	s.post(s.http.URL+"/v1/ledgers/none/records/1/state", good).problem(http.StatusNotFound)
	s.post(state, good, "Idempotency-Key", strings.Repeat("k", 2000)).problem(http.StatusBadRequest)
	s.post(state, good, "Origin", "https://evil.example").problem(http.StatusForbidden)
	require.Equal(t, size, s.size())
}

// An Idempotency-Key applies to changes of states, paths, and sources in the same way as to
// records. A repeated request is replayed even if it can no longer be applied. A different request
// with the same key is refused.
func TestKeysOfVerbs(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o"), "Idempotency-Key", "record").want(http.StatusCreated)
	r := s.verified(s.post("/path-fingerprints", pathBody).want(http.StatusCreated))
	var hashes struct {
		PathID string `json:"path_id"`
	}
	require.NoError(t, json.Unmarshal(r.Hashes, &hashes))
	for _, c := range []struct{ method, url, body, otherURL, otherBody string }{
		{"POST", "/records/1/state", `{"state":"stale","reason":"r"}`, "/records/1/state", `{"state":"failed","reason":"r"}`},
		{"PUT", "/paths/p/" + hashes.PathID + "/validation", `{"validated":true}`, "/paths/p/" + hashes.PathID + "/validation", `{"validated":false}`},
		{"PUT", "/sources/x", `{}`, "/sources/y", `{}`},
		{"DELETE", "/sources/x", `{}`, "/sources/y", `{"reason":"r"}`},
	} {
		send := func(url, body, key string, headers ...string) answer {
			return s.do(c.method, url, body, append(headers, "Content-Type", "application/json", "Idempotency-Key", key)...)
		}
		key := c.method + c.url
		first := send(c.url, c.body, key).want(http.StatusCreated)
		size := s.size()
		again := send(c.url, c.body, key).want(http.StatusOK)
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
		require.Equal(t, s.verified(first).EventHash, s.verified(again).EventHash)
		require.Equal(t, size, s.size())

		minimal := send(c.url, c.body, key, "Prefer", "return=minimal").want(http.StatusOK)
		require.NotContains(t, string(minimal.body), "checkpoint")
		require.Contains(t, string(minimal.body), `"replayed":true`)

		p := send(c.otherURL, c.otherBody, key).problem(http.StatusConflict)
		require.Equal(t, s.verified(first).Seq, *p.FirstSeq)
		require.Equal(t, "record_refused", s.verify(p.Receipt).Kind)
		require.Equal(t, size+1, s.size())
		send(c.url, c.body, "record").problem(http.StatusConflict)
		s.post("/ipc-records", ipcBody("", "o"), "Idempotency-Key", key).problem(http.StatusConflict)
	}
	s.audited()
}

func TestMinimalReceiptOfAVerb(t *testing.T) {
	s := start(t)
	a := s.put("/sources/x", `{}`, "Prefer", "return=minimal").want(http.StatusCreated)
	require.NotContains(t, string(a.body), "checkpoint")
	require.Contains(t, string(a.body), `"kind":"source_registered"`)
}

// Many concurrent requests with one key write one event.
func TestConcurrentRevocationsWriteOneEvent(t *testing.T) {
	s := start(t)
	s.put("/sources/x", `{}`).want(http.StatusCreated)
	var mu sync.Mutex
	statuses := make(map[int]int)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			a := s.do(http.MethodDelete, "/sources/x", "", "Idempotency-Key", "k")
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	group.Wait()
	require.Equal(t, map[int]int{http.StatusCreated: 1, http.StatusOK: 15}, statuses)
	require.EqualValues(t, 3, s.size())
	s.audited()
}

func TestVerbsOnAFrozenLedger(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	r := s.verified(s.post("/path-fingerprints", pathBody).want(http.StatusCreated))
	var hashes struct {
		PathID string `json:"path_id"`
	}
	require.NoError(t, json.Unmarshal(r.Hashes, &hashes))
	s.put("/sources/x", `{}`).want(http.StatusCreated)
	s.post("/freeze", "").want(http.StatusOK)
	s.post("/records/1/state", `{"state":"stale","reason":"r"}`).problem(http.StatusForbidden)
	s.put("/paths/p/"+hashes.PathID+"/validation", `{"validated":true}`).problem(http.StatusForbidden)
	s.put("/sources/y", `{}`).problem(http.StatusForbidden)
	s.do(http.MethodDelete, "/sources/x", "").problem(http.StatusForbidden)
	require.EqualValues(t, 4, s.size())
}
