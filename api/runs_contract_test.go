package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

const (
	compareRunsOf         = prefix + "/runs/compare"
	unregisteredSourcesOf = prefix + "/unregistered-sources"
)

// cite returns the citation set of a run as JSON. Each citation is given as a source and a text,
// separated by a space.
func cite(run string, citations ...string) string {
	var list []string
	for _, c := range citations {
		source, text, _ := strings.Cut(c, " ")
		list = append(list, fmt.Sprintf(`{"source_id":%q,"text":%q,"weight":1}`, source, text))
	}
	return fmt.Sprintf(`{"run_id":%q,"subject":"q","citations":[%s]}`, run, strings.Join(list, ","))
}

func chunkOf(word string) string {
	sum := sha256.Sum256([]byte(word))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func runRecord(run, model, output string) string {
	return fmt.Sprintf(`{"run_id":%q,"payload":{"q":1},"output":%q,"model":%q,"temperature":0,"max_tokens":9,"seed":1}`, run, output, model)
}

// listing returns a request that registers a source with a list of chunks.
func listing(source string, words ...string) call {
	hashes := make([]string, len(words))
	for i, word := range words {
		hashes[i] = fmt.Sprintf("%q", chunkOf(word))
	}
	return verb(http.MethodPut, sourceOf, `{"chunk_hashes":[`+strings.Join(hashes, ",")+`]}`, "source_id", source)
}

// serverWithEvidence returns a server with two runs that differ only in their evidence: events 1 and 2 belong
// to run a, events 3 and 4 to run b.
func serverWithEvidence(t *testing.T) *server {
	s := newServer(t)
	for _, k := range []call{
		post(prefix+"/citation-sets", cite("a", "s one", "s two")), post(ipc, runRecord("a", "m", "yes")),
		post(prefix+"/citation-sets", cite("b", "s two", "s three")), post(ipc, runRecord("b", "m", "no")),
	} {
		s.do(t, k, http.StatusCreated)
	}
	return s
}

func (s *server) compareRuns(t *testing.T, query string) (x wire.RunsComparison) {
	t.Helper()
	s.do(t, get(compareRunsOf).asking(query), http.StatusOK).decode(t, &x)
	return x
}

// If two runs differ only in their citation sets, every answer that compares their records says
// that the evidence is the cause.
func TestEvidenceIsACause(t *testing.T) {
	s := serverWithEvidence(t)
	x := s.compareRuns(t, "?a=a&b=b&after=4&proofs=true")
	require.Equal(t, wire.DriftCauseEvidence, *x.Cause)
	require.Equal(t, []wire.VariableDifference{{Variable: "evidence", A: []byte("1"), B: []byte("3")}}, x.IPCChange.Differences)
	require.Nil(t, x.RunDAGChange)
	require.Equal(t, []string{chunkOf("three")}, x.CitationSetChange.Added)
	require.Equal(t, []string{chunkOf("one")}, x.CitationSetChange.Removed)
	require.Equal(t, []string{chunkOf("two")}, x.CitationSetChange.Kept)
	require.Equal(t, 0.333333, x.CitationSetChange.Jaccard)
	require.NotNil(t, x.CitationSetChange.B.Inclusion)
	require.False(t, x.SourcesChanged)
	require.Equal(t, "The output changed because the citation set differs (event 1, then event 3); no other variable differs. "+
		"The citation sets differ. Chunks added: 1, removed: 1, kept: 1, kept from other sources: 0.", x.Summary)

	cause := func(query string) (cause wire.DriftCause) {
		var a wire.DriftAttribution
		s.do(t, get(prefix+"/drift/attribution").asking(query), http.StatusOK).decode(t, &a)
		return a.Cause
	}
	require.Equal(t, wire.DriftCauseEvidence, cause("?a=2&b=4"))
	var timeline wire.RunPage[wire.TimelineRow]
	s.do(t, get(prefix+"/drift/timeline").asking("?model=m"), http.StatusOK).decode(t, &timeline)
	require.Equal(t, wire.DriftCauseEvidence, *timeline.Rows[1].Cause)
	derived := func() string {
		var r wire.RecordAnswer
		s.do(t, get(prefix+"/records/{seq}", "seq", "4").asking("?derive=true"), http.StatusOK).decode(t, &r)
		return string(r.Drift.Cause)
	}
	counted := func() string {
		return string(s.do(t, call{method: http.MethodGet, route: "/metrics"}, http.StatusOK).body)
	}
	require.Equal(t, "evidence", derived())
	require.Contains(t, counted(), `colophon_ledger_drift_total{cause="evidence",ledger="default"} 1`)

	// A citation set that arrives later becomes the latest one of its run, but it changes neither
	// the derived drift nor the metric.
	s.do(t, post(prefix+"/citation-sets", cite("a", "s two", "s three")).with("Idempotency-Key", "late"), http.StatusCreated)
	require.Equal(t, wire.DriftCauseStochasticOrModelInternal, cause("?a=2&b=4&after=5"))
	require.Equal(t, wire.DriftCauseEvidence, cause("?a=2&b=4&as_of=5"))
	require.Equal(t, "evidence", derived())
	require.Contains(t, counted(), `colophon_ledger_drift_total{cause="evidence",ledger="default"} 1`)
	x = s.compareRuns(t, "?a=a&b=b")
	require.Equal(t, []wire.Kind{wire.KindCitationSet}, x.A.More)
	require.Equal(t, uint64(5), *x.A.CitationSetSeq)

	s.do(t, post(prefix+"/citation-sets", cite("c", "t two", "s three")), http.StatusCreated)
	s.do(t, post(ipc, runRecord("c", "n", "never")), http.StatusCreated)
	x = s.compareRuns(t, "?a=b&b=c&after=7")
	require.Equal(t, wire.DriftCauseConfounded, *x.Cause)
	require.Equal(t, "evidence", x.IPCChange.Differences[1].Variable)
	require.Equal(t, []wire.ChunkSources{{ChunkHash: chunkOf("two"), A: []string{"s"}, B: []string{"t"}}}, x.CitationSetChange.OtherSources)
	require.Equal(t, wire.DriftCauseIdentical, *s.compareRuns(t, "?a=b&b=b").Cause)
}

// A comparison reports a changed source if the current registration lacks a cited chunk, or if a
// different list of chunks was registered between the two citation sets.
func TestSourcesThatChangeUnderRuns(t *testing.T) {
	s := serverWithEvidence(t)
	s.do(t, listing("s", "two", "three"), http.StatusCreated) // seq 5
	x := s.compareRuns(t, "?a=a&b=b&after=5")
	require.True(t, x.SourcesChanged)
	require.Equal(t, []wire.LostChunk{{RowMembers: wire.RowMembers{Seq: 1}, SourceID: "s", ChunkHash: chunkOf("one"), Registration: 5}}, x.LostChunks)
	require.Empty(t, x.Reregistrations, "no registration listed chunks before")
	require.Contains(t, x.Summary, "A cited source no longer has the same chunks.")
	require.False(t, s.compareRuns(t, "?a=a&b=b&as_of=5").SourcesChanged)
	require.Len(t, s.compareRuns(t, "?a=a&b=a").LostChunks, 1, "a lost chunk is listed once if both runs have the same set")

	s.do(t, post(prefix+"/citation-sets", cite("c", "s two")), http.StatusCreated)
	require.False(t, s.compareRuns(t, "?a=b&b=c&after=6").SourcesChanged)
	s.do(t, listing("s", "one", "two", "three"), http.StatusCreated)               // seq 7
	s.do(t, post(prefix+"/citation-sets", cite("d", "s two")), http.StatusCreated) // seq 8
	x = s.compareRuns(t, "?a=c&b=d&after=8")
	require.Nil(t, x.Cause)
	require.Empty(t, x.LostChunks)
	require.Equal(t, []wire.Reregistration{{SourceID: "s", A: 5, B: 7}}, x.Reregistrations)
	require.True(t, x.SourcesChanged)
	require.Equal(t, []wire.Reregistration{{SourceID: "s", A: 7, B: 5}}, s.compareRuns(t, "?a=d&b=c").Reregistrations)
	s.do(t, listing("s", "three", "one", "two"), http.StatusCreated) // seq 9, with the same chunks
	s.do(t, post(prefix+"/citation-sets", cite("e", "s two")), http.StatusCreated)
	require.False(t, s.compareRuns(t, "?a=d&b=e&after=10").SourcesChanged)
}

// The comparison uses the latest live record of each kind.
func TestWhichRecordsOfRunsAreCompared(t *testing.T) {
	s := newServer(t)
	s.do(t, post(ipc, runRecord("a", "m", "yes")), http.StatusCreated)                               // seq 1
	s.do(t, post(ipc, runRecord("a", "m", "no")).with("Idempotency-Key", "2"), http.StatusCreated)   // seq 2
	s.do(t, post(ipc, runRecord("a", "m", "well")).with("Idempotency-Key", "3"), http.StatusCreated) // seq 3
	s.do(t, post(ipc, runRecord("compare", "m", "no")), http.StatusCreated)                          // seq 4
	s.do(t, post(prefix+"/run-dags", `{"run_id":"compare","dag":{"root":"`+digit("0")+`","nodes":[{"stage":"question","hash":"`+digit("0")+`"}]}}`), http.StatusCreated)
	s.do(t, post(prefix+"/citation-sets", cite("compare", "s one")), http.StatusCreated)
	s.do(t, verb(http.MethodPost, stateOf, `{"state":"stale","reason":"r"}`, "seq", "3"), http.StatusCreated)
	x := s.compareRuns(t, "?a=a&b=compare&after=7")
	require.Equal(t, uint64(2), *x.A.IPCRecordSeq)
	require.Equal(t, []wire.Kind{wire.KindIPCRecord}, x.A.More)
	require.Equal(t, wire.DriftCauseIdentical, *x.Cause)
	require.Empty(t, x.B.More)
	require.Equal(t, uint64(5), *x.B.RunDAGSeq)
	require.Nil(t, x.RunDAGChange)
	require.Nil(t, x.CitationSetChange)
	require.Equal(t, uint64(3), *s.compareRuns(t, "?a=a&b=compare&state=any").A.IPCRecordSeq)
	require.Equal(t, "No stage differs; at least one run has no cache dimensions.", s.compareRuns(t, "?a=compare&b=compare").RunDAGChange.Summary)

	for _, query := range []string{"", "?a=a", "?b=a", "?a=a&b="} {
		s.send(t, get(compareRunsOf).asking(query), http.StatusBadRequest)
	}
	s.do(t, post(prefix+"/path-fingerprints", `{"run_id":"p","project":"p","route":["a"]}`), http.StatusCreated)
	for _, run := range []string{"none", "p", strings.Repeat("0", 16)} {
		a := s.do(t, get(compareRunsOf).asking("?a=a&b="+run), http.StatusNotFound)
		require.Contains(t, string(a.body), `no live IPC record, live run-DAG, or citation set has the run_id \"`+run+`\"`)
	}
	var page wire.Page[wire.ListedRecord]
	s.do(t, get(prefix+"/runs/{run_id}", "run_id", wire.EscapeRunID("compare")), http.StatusOK).decode(t, &page)
	require.Len(t, page.Rows, 3)
}

// A comparison is refused if a run has too many records that are newer than its latest live record,
// because the server does not search all of them.
func TestLongRunsAreNotSearched(t *testing.T) {
	s := newServer(t)
	s.do(t, post(ipc, runRecord("b", "m", "yes")), http.StatusCreated)
	const most = 16 * 64
	var lines strings.Builder
	for i := range most + 1 {
		fmt.Fprintf(&lines, `{"kind":"ipc_record","idempotency_key":"k%d","record":%s}`+"\n", i, runRecord("a", "m", "yes"))
	}
	s.do(t, post(prefix+"/batch", lines.String()).with("Content-Type", ndjson), http.StatusOK)
	lines.Reset()
	for i := range most {
		fmt.Fprintf(&lines, `{"kind":"record_state_changed","record":{"record_seq":%d,"state":"stale","reason":"r"}}`+"\n", i+3)
	}
	s.do(t, post(prefix+"/batch", lines.String()).with("Content-Type", ndjson), http.StatusOK)
	a := s.do(t, get(compareRunsOf).asking(fmt.Sprintf("?a=a&b=b&after=%d", 2*most+2)), http.StatusBadRequest)
	require.Contains(t, string(a.body), "too many records to search for a live record of kind ipc_record")
	require.Equal(t, uint64(most+2), *s.compareRuns(t, "?a=a&b=b&state=any").A.IPCRecordSeq)
}

// If unregistered_sources is "reject", the ledger refuses citation sets with sources that are not
// registered, both alone and in batches. It accepts all other records.
func TestUnregisteredSourcesAreRejected(t *testing.T) {
	s := newServer(t)
	set := func(policy string) {
		a := s.do(t, verb(http.MethodPut, unregisteredSourcesOf, `{"unregistered_sources":"`+policy+`"}`), http.StatusOK)
		require.Contains(t, string(a.body), `"unregistered_sources":"`+policy+`"`)
	}
	sets := prefix + "/citation-sets"
	s.do(t, post(sets, cite("first", "s one")), http.StatusCreated) // seq 1; allowed by default
	set("reject")
	a := s.do(t, post(sets, cite("a", "s one", "t two", "s three")), http.StatusUnprocessableEntity)
	require.Contains(t, string(a.body), `"detail":"the ledger refuses citations of unregistered sources, such as \"s\" (affected citations: 3); `+
		`register each source, then send the citation set again"`)
	require.Contains(t, string(a.body), `{"pointer":"/citations/1/source_id","detail":"source \"t\" is not registered; register it with PUT /v1/ledgers/default/sources/t"}`)
	s.do(t, post(sets, cite("first", "s one")), http.StatusOK) // replayed
	s.do(t, post(sets, cite("first", "s two")), http.StatusConflict)
	s.do(t, post(sets, cite("none")), http.StatusCreated)
	s.do(t, post(ipc, runRecord("a", "m", "yes")), http.StatusCreated)

	s.do(t, verb(http.MethodPut, sourceOf, `{}`, "source_id", "s"), http.StatusCreated)
	s.do(t, post(sets, cite("a", "s one")), http.StatusCreated) // accepted immediately after the registration of its source
	lines := []string{cite("b", "s one"), cite("c", "s one", "t two"), cite("first", "s one"), cite("d", "t three")}
	for i := range lines {
		lines[i] = `{"kind":"citation_set","record":` + lines[i] + `}`
	}
	lines = append(lines, `{"kind":"ipc_record","record":`+runRecord("b", "m", "yes")+`}`)
	a = s.do(t, post(prefix+"/batch", strings.Join(lines, "\n")+"\n").with("Content-Type", ndjson), http.StatusOK)
	answers := strings.Split(strings.TrimSpace(string(a.body)), "\n")
	require.Len(t, answers, 5)
	for i, want := range []string{`"kind":"citation_set"`, `"pointer":"/record/citations/1/source_id"`, `"replayed":true`, `such as \"t\" (affected citations: 1)`, `"kind":"ipc_record"`} {
		require.Contains(t, answers[i], want)
	}
	s.do(t, verb(http.MethodDelete, sourceOf, "", "source_id", "s"), http.StatusCreated)
	s.do(t, post(sets, cite("e", "s one")), http.StatusUnprocessableEntity)
	set("accept")
	s.do(t, post(sets, cite("e", "s one")), http.StatusCreated)

	for body, status := range map[string]int{`{"unregistered_sources":"refuse"}`: 422, `{}`: 422, `{"log":"public"}`: 400} {
		s.send(t, verb(http.MethodPut, unregisteredSourcesOf, body), status)
	}
}
