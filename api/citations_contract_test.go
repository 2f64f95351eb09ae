package api_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

const (
	documentOf  = prefix + "/citation-sets/{seq}/document"
	retrievalOf = prefix + "/citation-sets/{seq}/pinned-retrieval"
	chunkDrift  = prefix + "/citation-sets/drift"
	conflictsOf = prefix + "/citation-sets/conflicts"
	staleOf     = prefix + "/citation-sets/stale"
	byChunkOf   = prefix + "/citation-sets/by-chunk/{hash}"
	bySourceOf  = prefix + "/citation-sets/by-source/{source_id}"
	sourcesOf   = prefix + "/sources"
)

// chunk returns the chunk hash of text, which must not contain repeated spaces.
func chunk(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

const (
	keeper   = "Ana Varga keeps the light."
	keeper2  = "Ana Varga kept the light."
	register = "Varga, Ana."
)

// strangeSource is a source_id that must be percent-encoded in a path.
const strangeSource = "records/4 ü"

// cited returns a server with three citation sets about one subject and one registered source:
//   - Set 1 cites keeper from strangeSource, and register.
//   - Set 2 cites keeper2 in place of keeper, and register from two sources.
//   - Event 3 registers strangeSource with keeper2 as its only chunk.
//   - Set 4 cites keeper again.
func cited(t *testing.T) *server {
	s := newServer(t)
	set := func(run string, citations ...string) {
		s.do(t, post(prefix+"/citation-sets", fmt.Sprintf(`{"run_id":%q,"subject":"question/311","citations":[%s]}`, run, strings.Join(citations, ","))), http.StatusCreated)
	}
	cite := func(source, text, section string) string {
		return fmt.Sprintf(`{"source_id":%q,"text":%q,"weight":0.5,"section":%s}`, source, text, section)
	}
	hash := func(source, text string) string {
		return fmt.Sprintf(`{"source_id":%q,"chunk_hash":%q,"weight":1}`, source, chunk(text))
	}
	set("answer/1", cite(strangeSource, keeper, `"Keeper"`), cite("register", register, `null`))
	set("answer/2", cite(strangeSource, keeper2, `"Keeper"`), hash("letters", register), hash("register", register))
	s.do(t, verb(http.MethodPut, sourceOf, fmt.Sprintf(`{"title":"Harbour","chunk_hashes":[%q]}`, chunk(keeper2)),
		"source_id", "records%2F4%20%C3%BC"), http.StatusCreated)
	set("answer/3", cite(strangeSource, keeper, `""`))
	return s
}

func TestCitationsAreAnsweredAsTheContractSays(t *testing.T) {
	s := cited(t)
	first, second, third := chunk(keeper), chunk(keeper2), chunk(register)
	for name, c := range map[string]struct {
		call call
		want string // response at tree size 5; TIME stands for any time
	}{
		"drift": {get(chunkDrift).asking("?subject=question%2F311&after=4"), fmt.Sprintf(
			`[{"seq":1,"run_id":"answer/1","time":TIME,"against":null,"added":[%[1]q,%[3]q],"removed":[],"kept":[],"jaccard":null},`+
				`{"seq":2,"run_id":"answer/2","time":TIME,"against":1,"added":[%[2]q],"removed":[%[1]q],"kept":[%[3]q],"jaccard":0.333333},`+
				`{"seq":4,"run_id":"answer/3","time":TIME,"against":2,"added":[%[1]q],"removed":[%[2]q,%[3]q],"kept":[],"jaccard":0}]`, first, second, third)},
		"conflicts": {get(conflictsOf).asking("?as_of=5"), fmt.Sprintf(`[{"seq":2,"chunk_hash":%q,"source_count":2,`+
			`"sources":[{"source_id":"register","seq":1},{"source_id":"letters","seq":2}]}]`, third)},
		"stale": {get(staleOf).asking("?as_of=5&source_id=records/4%20%C3%BC"), fmt.Sprintf(
			`[{"seq":4,"run_id":"answer/3","subject":"question/311","source_id":%[2]q,"chunk_hash":%[1]q,"superseded_by":4,"how":"not_listed"},`+
				`{"seq":1,"run_id":"answer/1","subject":"question/311","source_id":%[2]q,"chunk_hash":%[1]q,"superseded_by":2,"how":"recited"}]`, first, strangeSource)},
		"stale of every source": {get(staleOf).asking("?as_of=3"), fmt.Sprintf(
			`[{"seq":1,"run_id":"answer/1","subject":"question/311","source_id":%q,"chunk_hash":%q,"superseded_by":2,"how":"recited"}]`, strangeSource, first)},
		"by chunk": {get(byChunkOf, "hash", third).asking("?as_of=5"), fmt.Sprintf(
			`[{"seq":2,"run_id":"answer/2","subject":"question/311","time":TIME,"citations":[`+
				`{"chunk_hash":%[1]q,"source_id":"letters","weight":1,"section":null},{"chunk_hash":%[1]q,"source_id":"register","weight":1,"section":null}]},`+
				`{"seq":1,"run_id":"answer/1","subject":"question/311","time":TIME,"citations":[{"chunk_hash":%[1]q,"source_id":"register","weight":0.5,"section":null}]}]`, third)},
		"by source": {get(bySourceOf, "source_id", "records%2F4%20%C3%BC").asking("?as_of=2"), fmt.Sprintf(
			`[{"seq":1,"run_id":"answer/1","subject":"question/311","time":TIME,"citations":[{"chunk_hash":%q,"source_id":%q,"weight":0.5,"section":"Keeper"}]}]`, first, strangeSource)},
		"sources": {get(sourcesOf).asking("?as_of=5"), fmt.Sprintf(
			`[{"seq":3,"source_id":%q,"registered":true,"time":TIME,"title":"Harbour","reason":null,"chunk_count":1}]`, strangeSource)},
		"no sources yet": {get(sourcesOf).asking("?as_of=3"), `[]`},
	} {
		var list struct{ Rows json.RawMessage }
		s.do(t, c.call, http.StatusOK).decode(t, &list)
		require.Equal(t, c.want, times.ReplaceAllString(string(list.Rows), `"time":TIME`), name)
	}
	a := s.do(t, get(sourceOf, "source_id", "records%2F4%20%C3%BC").asking("?proofs=true"), http.StatusOK)
	require.Contains(t, string(a.body), fmt.Sprintf(`"chunk_count":1,"chunk_hashes":[%q]}`, second))
	s.do(t, verb(http.MethodDelete, sourceOf, `{"reason":"moved"}`, "source_id", "records%2F4%20%C3%BC"), http.StatusCreated)
	a = s.do(t, get(sourceOf, "source_id", "records%2F4%20%C3%BC").asking("?after=5"), http.StatusOK)
	require.Contains(t, string(a.body), `"registered":false`)
	require.Contains(t, string(a.body), `"reason":"moved","chunk_count":null,"chunk_hashes":null}`)
}

// Each list can be read one row per page, and each row comes with its proof on request.
func TestCitationsArePagedAndProved(t *testing.T) {
	s := cited(t)
	for _, c := range []struct {
		call call
		own  string
	}{
		{get(chunkDrift), "&subject=question/311"}, {get(conflictsOf), ""}, {get(staleOf), "&source_id=records/4%20%C3%BC"},
		{get(byChunkOf, "hash", chunk(register)), ""}, {get(bySourceOf, "source_id", "register"), ""}, {get(sourcesOf), ""},
	} {
		requirePages(t, s, c.call, "as_of=5", c.own)
	}
}

// requirePages requires that a list has the same rows whether it is read in one page or row by row,
// and that each row comes with its proof.
func requirePages(t *testing.T, s *server, k call, first, own string) {
	t.Helper()
	var all, page struct {
		Rows             []json.RawMessage
		Next, Checkpoint string
	}
	s.do(t, k.asking("?proofs=true&"+first+own), http.StatusOK).decode(t, &all)
	require.NotEmpty(t, all.Rows, k.route)
	require.NotEmpty(t, all.Checkpoint, k.route)
	query := first
	for _, want := range all.Rows {
		require.Contains(t, string(want), `"inclusion":{"leaf_index":`, k.route)
		page.Rows, page.Next = nil, ""
		s.do(t, k.asking("?proofs=true&limit=1&"+query+own), http.StatusOK).decode(t, &page)
		require.Equal(t, []json.RawMessage{want}, page.Rows, k.route)
		query = "cursor=" + page.Next
	}
	require.Empty(t, page.Next, k.route)
}

func TestCitationsDocuments(t *testing.T) {
	s := cited(t)
	a := s.do(t, get(documentOf, "seq", "2").asking("?after=4"), http.StatusOK)
	require.Equal(t, "5", a.header.Get("Colophon-As-Of"))
	letters := fmt.Sprintf(`{"chunk_hash":%q,"section":null,"source_id":"letters","text":null,"weight":1}`, chunk(register))
	kept := fmt.Sprintf(`{"chunk_hash":%q,"section":"Keeper","source_id":%q,"text":%q,"weight":0.5}`, chunk(keeper2), strangeSource, keeper2)
	again := strings.Replace(letters, "letters", "register", 1)
	require.Equal(t, fmt.Sprintf(`{"all_citations":[%[1]s,%[2]s,%[3]s],"by_section":{"Keeper":[%[1]s],"unknown":[%[2]s,%[3]s]},`+
		`"source_ids":["letters",%[4]q,"register"],"total_count":3}`, kept, letters, again, strangeSource), string(a.body))
	// The document omits the text of a redacted citation.
	s.do(t, verb(http.MethodDelete, contentsOf, `{"reason":"r"}`, "seq", "2"), http.StatusCreated)
	a = s.do(t, get(documentOf, "seq", "2"), http.StatusOK)
	require.Equal(t, "5", a.header.Get("Colophon-Redacted-By"))
	require.NotContains(t, string(a.body), keeper2)
	require.Contains(t, string(a.body), `"text":null`)
}

func TestPinnedRetrievalAsTheContractSays(t *testing.T) {
	s := cited(t)
	sources := fmt.Sprintf(`{"sources":[{"id":"a","chunks":[{"text":"Zzz."},{"text":%q}]},{"chunks":[{"text":%q}]}],"top_k":`, keeper2, keeper2)
	retrieve := func(topK string) string {
		k := post(retrievalOf, sources+topK+"}")
		k.path["seq"] = "2"
		return string(s.do(t, k.asking("?as_of=5"), http.StatusOK).body)
	}
	found := fmt.Sprintf(`{"hash":%q,"text":%q,"source_id":"a"}`, chunk(keeper2), keeper2)
	require.Equal(t, fmt.Sprintf(`{"as_of":5,"seq":2,"chunks":[%s,{"hash":%q,"text":"Zzz.","source_id":"a"}],"missing":[%q],"cut":[]}`+"\n",
		found, chunk("Zzz."), chunk(register)), retrieve("9"))
	require.Equal(t, fmt.Sprintf(`{"as_of":5,"seq":2,"chunks":[%s],"missing":[%q],"cut":[]}`+"\n", found, chunk(register)), retrieve("1"))
	require.Equal(t, fmt.Sprintf(`{"as_of":5,"seq":2,"chunks":[],"missing":[%q],"cut":[%q]}`+"\n", chunk(register), chunk(keeper2)), retrieve("0"))
}

// The API returns the recorded result for every case in pinned-retrieval.cases.json.gz.
func TestPinnedRetrievalOfRealInput(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "shared", "data", "pinned-retrieval.cases.json.gz"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	var cases []struct {
		Sources, Expected json.RawMessage
		Required          []string        `json:"required_chunk_hashes"`
		TopK              json.RawMessage `json:"top_k"`
	}
	require.NoError(t, json.NewDecoder(unzipped).Decode(&cases))
	require.NotEmpty(t, cases)
	s := newServer(t)
	for i, c := range cases {
		var citations []string
		for _, hash := range c.Required {
			citations = append(citations, fmt.Sprintf(`{"source_id":"s","chunk_hash":%q,"weight":1}`, hash))
		}
		s.do(t, post(prefix+"/citation-sets", `{"subject":"s","citations":[`+strings.Join(citations, ",")+`]}`), http.StatusCreated)
		k := post(retrievalOf, fmt.Sprintf(`{"sources":%s,"top_k":%s}`, c.Sources, c.TopK))
		k.path["seq"] = fmt.Sprint(i + 1)
		var answer struct{ Chunks json.RawMessage }
		s.do(t, k.asking(fmt.Sprintf("?after=%d", i+1)), http.StatusOK).decode(t, &answer)
		require.JSONEq(t, string(c.Expected), string(answer.Chunks), "case %d", i)
	}
}

func TestProblemsOfCitationsAreAsTheContractSays(t *testing.T) {
	s := cited(t)
	var page struct{ Next string }
	s.do(t, get(chunkDrift).asking("?as_of=5&limit=1&subject=question/311"), http.StatusOK).decode(t, &page)
	retrieval := func(seq, body string) call {
		k := post(retrievalOf, body)
		k.path["seq"] = seq
		return k.asking("?after=4")
	}
	for _, c := range []struct {
		name    string
		call    call
		status  int
		refused bool // whether the contract also rejects the request
		names   string
	}{
		{"no subject", get(chunkDrift), 400, true, "/subject"},
		{"empty source", get(staleOf).asking("?source_id="), 400, true, "/source_id"},
		{"cursor of one source for all", get(staleOf).asking("?cursor=" + page.Next), 400, false, "/cursor"},
		{"no hash", get(byChunkOf, "hash", "x"), 400, true, "/hash"},
		{"long id", get(bySourceOf, "source_id", strings.Repeat("x", 1025)), 400, true, "/source_id"},
		{"cursor of another query", get(staleOf).asking("?source_id=x&cursor=" + page.Next), 400, false, "/cursor"},
		{"proofs of a document", get(documentOf, "seq", "1").asking("?proofs=true"), 400, true, "/proofs"},
		{"what is required", retrieval("1", `{"sources":[],"required_chunk_hashes":[],"top_k":1}`), 400, true, "/required_chunk_hashes"},
		{"not JSON", retrieval("1", `{`), 400, true, ""},
		{"top_k", retrieval("1", `{"sources":[],"top_k":-1}`), 422, true, "/top_k"},
		{"no document", get(documentOf, "seq", "3"), 404, false, ""},
		{"beyond the head", get(documentOf, "seq", "9"), 404, false, ""},
		{"no set", retrieval("3", `{"sources":[],"top_k":1}`), 404, false, ""},
		{"no such source", get(sourceOf, "source_id", "register"), 404, false, ""},
		{"no such ledger", get(conflictsOf).of("nowhere"), 404, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.send(t, c.call, c.status)
			if c.names != "" {
				require.Contains(t, string(a.body), `"pointer":"`+c.names+`"`)
			}
			err := s.checkRequest(c.call, c.call.request(t, s.url))
			require.Equal(t, c.refused, err != nil, "%v", err)
		})
	}
}
