package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
	"colophon/proofs"
)

// exported exports the answer to a query. It returns the rows, the verified manifest, and the other
// members of the answer as JSON. An asOf of 0 means the head.
func (s *service) exported(question string, asOf uint64) (rows []string, m *proofs.ExportManifest, rest string) {
	s.t.Helper()
	path := "/export?question=" + url.QueryEscape(question)
	if asOf > 0 {
		path += fmt.Sprintf("&as_of=%d", asOf)
	}
	lines := s.get(path).want(http.StatusOK).lines()
	var leaves []proofs.Hash
	for i, text := range lines {
		var line wire.ExportLine
		require.NoError(s.t, json.Unmarshal(text, &line))
		if i < len(lines)-1 {
			rows, leaves = append(rows, string(line.Row)), append(leaves, proofs.LeafHash(line.Row))
			continue
		}
		var err error
		m, err = proofs.OpenExport([]byte(line.Manifest), s.verifier())
		require.NoError(s.t, err)
		require.NoError(s.t, m.VerifyRows(leaves, line.Rest))
		rest = string(line.Rest)
	}
	return rows, m, rest
}

// pagesOf returns all rows of a query, read in pages of three rows. separator, "?" or "&", precedes
// the parameters that pagesOf adds.
func (s *service) pagesOf(question, separator string) (rows []string) {
	s.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Rows []json.RawMessage
			Next string
		}
		s.get(question + separator + "limit=3" + cursor).want(http.StatusOK).json(&page)
		for _, row := range page.Rows {
			rows = append(rows, string(row))
		}
		if page.Next == "" {
			return rows
		}
		cursor = "&cursor=" + url.QueryEscape(page.Next)
	}
}

func TestExportsHaveAllRows(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxPageRows = 4 })
	for i := range 30 {
		s.post("/ipc-records", ipcBody(fmt.Sprintf("run/%d", i), fmt.Sprintf("<output> & %d", i%7))).want(http.StatusCreated)
	}
	size := s.size()
	for _, question := range []string{"/records?kind=ipc_record", "/drift/groups?by=output_hash", "/producers?", "/records?run_id=run%2F7"} {
		rows, m, rest := s.exported(question, size)
		require.Equal(t, s.pagesOf(question, "&"), rows, question)
		require.Equal(t, uint64(len(rows)), m.RowCount)
		require.Equal(t, size, m.Size)
		require.Contains(t, rest, fmt.Sprintf(`"as_of":%d`, size))
	}

	// An answer that is not a list is exported as a single row.
	rows, m, rest := s.exported("/records/3", 0)
	require.Len(t, rows, 1)
	require.JSONEq(t, string(s.get("/records/3").body), rows[0])
	require.Equal(t, "{}", rest)
	require.Equal(t, "/records/3", m.Question)
	require.Equal(t, proofs.Hash(sha256.Sum256([]byte("{}"))), m.DigestWithoutRows)

	// Neither later events nor the order of the parameters change an export at an earlier size.
	before, manifest, _ := s.exported("/records?kind=ipc_record&model=m", size)
	s.post("/ipc-records", ipcBody("later", "later")).want(http.StatusCreated)
	after, again, _ := s.exported("/records?model=m&kind=ipc_record", size)
	require.Equal(t, before, after)
	require.Equal(t, manifest.Digest(), again.Digest())
	_, now, _ := s.exported("/records?kind=ipc_record&model=m", 0)
	require.NotEqual(t, manifest.Digest(), now.Digest())
}

func TestBadExports(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("one", "o")).want(http.StatusCreated)
	for _, test := range []struct {
		query, detail string
		status        int
	}{
		{"", "question: is missing", 400},
		{"?question=", "must not be empty", 400},
		{"?question=/nothing", "is not an exportable list or question", 400},
		{"?question=/drift/reproduce", "is not an exportable list or question", 400},
		{"?question=/log/checkpoint", "is not an exportable list or question", 400},
		{"?question=/records%3Flimit=2", `must not have the parameter "limit"`, 400},
		{"?question=/records%3Fas_of=1", `must not have the parameter "as_of"`, 400},
		{"?question=/records%3Fcolour=red", "unknown query parameter", 400},
		{"?question=/drift/groups%3Fby=model%26sort=runs", `cannot be exported with the parameter "sort"`, 400},
		{"?question=/records%3Fx=%25zz", "malformed", 400},
		{"?question=/records&as_of=0", "must be at least 1", 400},
		{"?question=/records&as_of=99", "beyond the head", 400},
		{"?question=/records/77", "there is no event 77", 404},
	} {
		require.Contains(t, s.get("/export"+test.query).problem(test.status).Detail, test.detail, test.query)
	}
}
