package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

const because = `{"reason":"because"}`

func (s *service) remove(url, body string, headers ...string) answer {
	s.t.Helper()
	return s.do(http.MethodDelete, url, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// redaction is the response to a request for a redaction, with the receipts exactly as the server
// sent them.
type redaction struct {
	wire.RedactionResult
	Receipts []json.RawMessage `json:"receipts"`
}

// redacting requests a redaction and returns the response.
func (s *service) redacting(body string) redaction {
	s.t.Helper()
	var r redaction
	s.post("/redactions", body).want(http.StatusOK).json(&r)
	return r
}

// contentOf requires the given status for each named piece of a record's content.
func (s *service) contentOf(seq uint64, status int, names ...string) {
	s.t.Helper()
	for _, name := range names {
		a := s.get("/records/" + decimal(seq) + "/content/" + name)
		if status == http.StatusOK {
			a.want(status)
			continue
		}
		p := a.problem(status)
		require.NotNil(s.t, p.RedactedBy)
		head := s.do(http.MethodHead, "/records/"+decimal(seq)+"/content/"+name, "").want(status)
		require.Empty(s.t, head.body)
	}
}

func TestRecordIsRedacted(t *testing.T) {
	s := start(t)
	before := s.verified(s.post("/ipc-records", ipcBody("run", "first")).want(http.StatusCreated))
	s.post("/ipc-records", ipcBody("", "second")).want(http.StatusCreated)
	all := []string{"payload", "system_prompt", "output"}
	s.contentOf(1, http.StatusOK, all...)

	a := s.remove("/records/1/content", because).want(http.StatusCreated)
	r := s.verified(a)
	require.Equal(t, "content_redacted", r.Kind)
	require.EqualValues(t, 3, r.Seq)
	require.Equal(t, "/v1/ledgers/default/records/3", a.header.Get("Location"))
	require.Equal(t, map[string]any{"reason": "because", "seqs": []any{1.0}}, s.recordOf(a))

	// The payload and the system prompt stay readable, but only through the other record.
	s.contentOf(1, http.StatusGone, all...)
	s.contentOf(2, http.StatusOK, all...)
	s.get("/records/1/content/usage").problem(http.StatusNotFound)
	require.EqualValues(t, 3, *s.get("/records/1/content/output").problem(http.StatusGone).RedactedBy)

	// The record itself is unchanged and can still be proved.
	again := s.verified(s.get("/records/1/receipt").want(http.StatusOK))
	require.Equal(t, before.EventHash, again.EventHash)
	s.verified(s.get("/records/1/receipt?tree_size=2").want(http.StatusOK))
	replayed := s.post("/ipc-records", ipcBody("run", "first")).want(http.StatusOK)
	require.Equal(t, before.EventHash, s.verified(replayed).EventHash)
	s.contentOf(1, http.StatusGone, "output")
	s.audited()

	// A repeated request adds no event and returns the first receipt again.
	size := s.size()
	a = s.remove("/records/1/content", `{"reason":"another"}`).want(http.StatusOK)
	require.Equal(t, "true", a.header.Get("Idempotent-Replayed"))
	require.Equal(t, r.EventHash, s.verified(a).EventHash)
	require.NotContains(t, string(s.remove("/records/1/content", because, "Prefer", "return=minimal").want(http.StatusOK).body), "checkpoint")
	require.Equal(t, size, s.size())
}

func TestRedactionsShowLive(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("run", "o")).want(http.StatusCreated)
	s.remove("/records/1/content", because).want(http.StatusCreated)
	var row struct {
		RedactedBy *uint64 `json:"redacted_by"`
		Links      struct{ Content map[string]string }
	}
	s.get("/records/1?as_of=2").want(http.StatusOK).json(&row)
	require.EqualValues(t, 2, *row.RedactedBy, "redacted_by does not depend on as_of")
	type page struct {
		Rows []struct {
			Seq        uint64
			RedactedBy *uint64 `json:"redacted_by"`
			Links      struct{ Content map[string]string }
		}
	}
	for _, url := range []string{"/records?as_of=2", "/runs/run?as_of=2", "/records?run_id=run&after=2"} {
		var list page
		s.get(url).want(http.StatusOK).json(&list)
		require.Len(t, list.Rows, 1, url)
		require.EqualValues(t, 2, *list.Rows[0].RedactedBy)
		require.Empty(t, list.Rows[0].Links.Content)
	}
	var list page
	s.get("/records?kind=content_redacted&after=2&events=true").want(http.StatusOK).json(&list)
	require.Len(t, list.Rows, 1)
	require.EqualValues(t, 2, list.Rows[0].Seq)
	require.Nil(t, list.Rows[0].RedactedBy)
	s.get("/records?kind=content_redacted&as_of=2").want(http.StatusOK).json(&list)
	require.Empty(t, list.Rows)
	require.Contains(t, string(s.get("/events").want(http.StatusOK).body), `"kind":"content_redacted"`)
}

func TestDocumentOfARedactedSet(t *testing.T) {
	s := start(t)
	s.post("/citation-sets", setBody).want(http.StatusCreated)
	s.post("/citation-sets", setBody).want(http.StatusCreated)
	require.Contains(t, string(s.get("/citation-sets/1/document").want(http.StatusOK).body), `"text":"t"`)
	s.remove("/records/1/content", because).want(http.StatusCreated)
	a := s.get("/citation-sets/1/document").want(http.StatusOK)
	require.Contains(t, string(a.body), `"text":null`)
	require.NotContains(t, string(a.body), `"text":"t"`)
	require.Equal(t, "3", a.header.Get("Colophon-Redacted-By"))
	a = s.get("/citation-sets/2/document").want(http.StatusOK)
	require.Contains(t, string(a.body), `"text":"t"`, "another set still needs the text")
	require.Empty(t, a.header.Get("Colophon-Redacted-By"))
}

// The content of all four kinds can be erased.
func TestEveryKindIsRedacted(t *testing.T) {
	s := start(t)
	dag := strings.Replace(dagBody, "{", `{"question":"Who?","question_mode":"strict","answer_text":"Nobody.","messages":[{"role":"user","content":"Who?"}],`, 1)
	for url, body := range map[string]string{"/ipc-records": ipcBody("", "o"), "/run-dags": dag, "/citation-sets": setBody, "/path-fingerprints": pathBody} {
		var posted struct{ Seq uint64 }
		s.post(url, body).want(http.StatusCreated).json(&posted)
		var row struct {
			Event struct {
				Record struct{ Content map[string]any }
			}
		}
		s.get("/records/" + decimal(posted.Seq)).want(http.StatusOK).json(&row)
		require.NotEmpty(t, row.Event.Record.Content, url)
		s.remove("/records/"+decimal(posted.Seq)+"/content", because).want(http.StatusCreated)
		for name := range row.Event.Record.Content {
			s.contentOf(posted.Seq, http.StatusGone, name)
		}
	}
	s.audited()
}

func TestBadRedactionsOfOneRecord(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	s.post("/run-dags", dagBody).want(http.StatusCreated)
	s.post("/path-fingerprints", `{"project":"p","route":["a"]}`).want(http.StatusCreated)
	size := s.size()
	const one = "/records/1/content"
	for _, c := range []struct {
		name, url, body string
		status          int
		pointer         string
	}{
		{"no body", one, ``, 400, ""},
		{"no reason", one, `{}`, 422, "/reason"},
		{"empty reason", one, `{"reason":""}`, 422, "/reason"},
		{"long reason", one, `{"reason":"` + strings.Repeat("x", 4097) + `"}`, 422, "/reason"},
		{"unknown member", one, `{"reason":"r","seqs":[1]}`, 400, "/seqs"},
		{"parameter", one + "?dry_run=true", because, 400, "/dry_run"},
		{"seq", "/records/x/content", because, 400, "/seq"},
		{"no such event", "/records/99/content", because, 404, ""},
		{"the ledger's own", "/records/0/content", because, 404, ""},
		{"hashes alone", "/records/3/content", because, 404, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.remove(c.url, c.body).problem(c.status)
			if c.pointer != "" {
				require.Equal(t, c.pointer, p.Errors[0].Pointer)
			}
		})
	}
	s.do(http.MethodDelete, one, because).problem(http.StatusUnsupportedMediaType)
	require.Equal(t, size, s.size())
	s.contentOf(1, http.StatusOK, "output")
}

func TestKeyOfARedaction(t *testing.T) {
	s := start(t)
	for range 2 {
		s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	}
	key := []string{"Idempotency-Key", "k"}
	first := s.verified(s.remove("/records/1/content", because, key...).want(http.StatusCreated))
	again := s.remove("/records/1/content", because, key...).want(http.StatusOK)
	require.Equal(t, first.EventHash, s.verified(again).EventHash)
	for url, body := range map[string]string{"/records/1/content": `{"reason":"another"}`, "/records/2/content": because} {
		p := s.remove(url, body, key...).problem(http.StatusConflict)
		require.Equal(t, first.Seq, *p.FirstSeq)
		require.Equal(t, "record_refused", s.verify(p.Receipt).Kind)
	}
	s.contentOf(2, http.StatusOK, "output")
	s.audited()
}

func TestRedactionByFilter(t *testing.T) {
	s := start(t)
	labelled := func(label, output string) string {
		return strings.Replace(ipcBody("", output), "{", `{"labels":{"user":"`+label+`"},`, 1)
	}
	for i := range 6 { // seqs 1 to 6: three for each user, all with the same payload and system prompt
		s.post("/ipc-records", labelled([]string{"ann", "bob"}[i%2], fmt.Sprint("output ", i))).want(http.StatusCreated)
	}
	s.remove("/records/3/content", because).want(http.StatusCreated) // event 7
	dry := s.redacting(`{"reason":"because","filter":{"label:user":"ann"}}`)
	require.Equal(t, redaction{RedactionResult: wire.RedactionResult{
		AsOf: 8, DryRun: true, Records: 2, AlreadyRedacted: 1,
		Erased: wire.ContentCount{Pieces: 2, Bytes: 16}, Kept: wire.ContentCount{Pieces: 2, Bytes: uint64(len(`{"seed":1}`) + len("Be brief."))}, NeededBy: 3,
		FirstSeqs: []uint64{1, 5}, FirstAlreadyRedacted: []wire.RedactedRecord{{Seq: 3, RedactedBy: 7}},
	}}, dry)
	require.EqualValues(t, 8, s.size(), "a dry run records nothing")

	// A record that was written after the dry run is not redacted, although the filter matches it.
	s.post("/ipc-records", labelled("ann", "output 6")).want(http.StatusCreated)
	done := s.redacting(`{"reason":"because","filter":{"label:user":"ann"},"dry_run":false,"as_of":8}`)
	require.EqualValues(t, 1, *done.Events)
	require.Len(t, done.Receipts, 1)
	r := s.verify(done.Receipts[0])
	require.Equal(t, "content_redacted", r.Kind)
	require.Contains(t, string(r.Proof.Event), `"reason":"because","seqs":[1,5]`)
	done.Receipts, done.Events, done.DryRun = nil, nil, true
	dry.NeededBy++ // counts the record that was written after the dry run
	require.Equal(t, dry, done, "the redaction did what the dry run reported")
	for seq, status := range map[uint64]int{1: 410, 2: 200, 3: 410, 4: 200, 5: 410, 6: 200, 8: 200} {
		s.contentOf(seq, status, "output")
	}
	s.audited()

	again := s.redacting(`{"reason":"because","filter":{"label:user":"ann"},"dry_run":false,"as_of":8}`)
	require.Zero(t, again.Records)
	require.Zero(t, *again.Events)
	require.Empty(t, again.Receipts)
	require.EqualValues(t, 3, again.AlreadyRedacted)
	rest := s.redacting(`{"reason":"because","seqs":[8,0,7,2,4,6,9,1]}`)
	require.EqualValues(t, 4, rest.Records)
	require.EqualValues(t, 3, rest.WithoutContent)
	require.EqualValues(t, 1, rest.AlreadyRedacted)
	require.EqualValues(t, 6, rest.Erased.Pieces, "no other record needs payload and system prompt any more")
	require.Zero(t, rest.Kept.Pieces+rest.NeededBy)
}

func TestFiltersOfRedactions(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", strings.Replace(ipcBody("run", "o"), "{", `{"timestamp":"2024-05-01T00:00:00Z","producer":{"id":"p","seq":7},`, 1)).want(http.StatusCreated)
	s.post("/citation-sets", setBody).want(http.StatusCreated)
	s.post("/path-fingerprints", pathBody).want(http.StatusCreated)
	s.post("/records/1/state", `{"state":"failed","reason":"r"}`).want(http.StatusCreated)
	for filter, seqs := range map[string][]uint64{
		`{"run_id":"run"}`:                                    {1},
		`{"subject":"s"}`:                                     {2},
		`{"project":"p"}`:                                     {3},
		`{"kind":"path_fingerprint"}`:                         {3},
		`{"model":"m","kind":"run_dag"}`:                      {},
		`{"state":"failed"}`:                                  {1},
		`{"producer":"p","producer_seq":7}`:                   {1},
		`{"producer":"p","producer_seq":"8"}`:                 {},
		`{"since":"2000-01-01T00:00:00Z"}`:                    {1, 2, 3},
		`{"until":"2000-01-01T00:00:00Z"}`:                    {},
		`{"clock":"occurred","since":"2024-05-01T00:00:00Z"}`: {1},
		`{"clock":"occurred","since":"2024-05-01T00:00:00Z","until":"2024-05-01T00:00:00Z"}`: {},
		`{"content_fingerprint":"4a8a08f0"}`:                                                 {3},
	} {
		r := s.redacting(`{"reason":"r","filter":` + filter + `}`)
		require.Equal(t, seqs, r.FirstSeqs, filter)
	}
}

func TestBadRedactionRequests(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	size := s.size()
	for _, c := range []struct {
		name, body string
		status     int
		pointer    string
	}{
		{"nothing", `{}`, 422, "/reason"},
		{"no filter", `{"reason":"r"}`, 422, ""},
		{"both", `{"reason":"r","filter":{"run_id":"x"},"seqs":[1]}`, 422, ""},
		{"empty filter", `{"reason":"r","filter":{}}`, 422, "/filter"},
		{"everything", `{"reason":"r","filter":{"state":"any","clock":"occurred"}}`, 422, "/filter"},
		{"unknown filter", `{"reason":"r","filter":{"colour":"red"}}`, 400, "/filter/colour"},
		{"what is not a filter", `{"reason":"r","filter":{"events":"true","run_id":"x"}}`, 400, "/filter/events"},
		{"limit", `{"reason":"r","filter":{"limit":"1","run_id":"x"}}`, 400, "/filter/limit"},
		{"hash", `{"reason":"r","filter":{"output_hash":"x"}}`, 422, "/filter/output_hash"},
		{"stage", `{"reason":"r","filter":{"stage:a/b":"x"}}`, 422, "/filter/stage:a~1b"},
		{"kind", `{"reason":"r","filter":{"kind":"ledger_created"}}`, 422, "/filter/kind"},
		{"time", `{"reason":"r","filter":{"since":"yesterday"}}`, 422, "/filter/since"},
		{"producer", `{"reason":"r","filter":{"producer_seq":1}}`, 422, "/filter/producer_seq"},
		{"too many", `{"reason":"r","filter":{"label:1":"","label:2":"","label:3":"","label:4":"","label:5":"","label:6":"","label:7":"","label:8":"","label:9":""}}`, 422, "/filter/label:9"},
		{"real without as_of", `{"reason":"r","seqs":[1],"dry_run":false}`, 422, "/as_of"},
		{"as_of beyond the head", `{"reason":"r","seqs":[1],"as_of":9}`, 422, "/as_of"},
		{"seq beyond as_of", `{"reason":"r","seqs":[0,1],"as_of":1}`, 422, "/seqs/1"},
		{"unknown member", `{"reason":"r","seqs":[1],"force":true}`, 400, "/force"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.post("/redactions", c.body).problem(c.status)
			require.Equal(t, c.pointer, p.Errors[0].Pointer, p.Detail)
		})
	}
	s.post("/redactions?dry_run=false", `{"reason":"r","seqs":[1]}`).problem(http.StatusBadRequest)
	s.post(s.http.URL+"/v1/ledgers/none/redactions", `{"reason":"r","seqs":[1]}`).problem(http.StatusNotFound)
	require.Equal(t, size, s.size())
}

func TestFrozenLedgerIsNotRedacted(t *testing.T) {
	s := start(t)
	for range 2 {
		s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	}
	first := s.verified(s.remove("/records/2/content", because).want(http.StatusCreated))
	s.post("/freeze", "").want(http.StatusOK)
	s.remove("/records/1/content", because).problem(http.StatusForbidden)
	s.post("/redactions", `{"reason":"r","seqs":[1]}`).problem(http.StatusForbidden)
	s.post("/redactions", `{"reason":"r","seqs":[1],"dry_run":false,"as_of":2}`).problem(http.StatusForbidden)
	s.contentOf(1, http.StatusOK, "output")
	again := s.remove("/records/2/content", because).want(http.StatusOK)
	require.Equal(t, first.EventHash, s.verified(again).EventHash)
}

// If several clients redact the same records at the same time, in bulk or one by one, every client
// gets a correct answer.
func TestRedactionsAtOnce(t *testing.T) {
	s := start(t)
	for i := range 20 {
		s.post("/ipc-records", ipcBody("", fmt.Sprint(i))).want(http.StatusCreated)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if i%2 == 0 {
				s.redacting(`{"reason":"r","filter":{"model":"m"},"dry_run":false,"as_of":21}`)
				return
			}
			for seq := range uint64(20) {
				a := s.remove("/records/"+decimal(1+seq)+"/content", because)
				require.Contains(t, []int{http.StatusCreated, http.StatusOK}, a.status, "%s", a.body)
			}
		})
	}
	group.Wait()
	for seq := range uint64(20) {
		s.contentOf(1+seq, http.StatusGone, "output")
	}
	s.audited()
}

// A large redaction writes several events.
func TestLargeRedaction(t *testing.T) {
	s := start(t)
	var lines strings.Builder
	const records = 2000 // three pieces each, so that one event cannot redact them all
	for i := range records {
		lines.WriteString(ipcLine("", fmt.Sprint(i)))
	}
	s.do(http.MethodPost, "/batch", lines.String(), "Content-Type", "application/x-ndjson").want(http.StatusOK)
	r := s.redacting(fmt.Sprintf(`{"reason":"r","filter":{"kind":"ipc_record"},"dry_run":false,"as_of":%d}`, records+1))
	require.EqualValues(t, records, r.Records)
	require.EqualValues(t, 2, *r.Events)
	require.Len(t, r.Receipts, 2)
	require.Len(t, r.FirstSeqs, 100)
	require.EqualValues(t, records+2, r.Erased.Pieces)
	for _, receipt := range r.Receipts {
		s.verify(receipt)
	}
	s.audited()
}
