package api

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/internal/testing/bodies"
)

// stocked returns a service whose ledger contains a few records of every kind.
func stocked(t testing.TB) *service {
	t.Helper()
	s := start(t)
	for i := range 3 {
		run := fmt.Sprintf(`"run_id":"r","labels":{"step":"a"},"producer":{"id":"p","seq":%d}`, 2*i)
		for path, record := range map[string]string{
			"/ipc-records":       fmt.Sprintf(`"payload":{"seed":1},"system_prompt":"Be brief.","model":"m%d","temperature":0,"max_tokens":9,"output":"o%d"`, i%2, i),
			"/run-dags":          fmt.Sprintf(`"reject_inputs":{"question_hash":"%064d","preflight_hash":"%064d","rejection_reason":"unbounded"}`, 0, i),
			"/citation-sets":     fmt.Sprintf(`"subject":"s","citations":[{"text":"a chunk","source_id":"b%d","weight":1},{"text":"chunk %d","source_id":"b","weight":1}]`, i, i),
			"/path-fingerprints": fmt.Sprintf(`"project":"p","build":"%d","route":["Start"],"content":"Once %d."`, i, i),
		} {
			s.post(path, "{"+strings.Replace(run, `"r"`, fmt.Sprintf(`"r%d"`, i), 1)+","+record+"}").want(http.StatusCreated)
		}
		s.post(fmt.Sprintf("/records/%d/state", 1+i), `{"state":"stale","reason":"a test"}`)
		s.do(http.MethodPut, fmt.Sprintf("/sources/b%d", i), `{"chunk_hashes":[]}`, "Content-Type", "application/json").want(http.StatusCreated)
	}
	return s
}

// handle passes a request to the server without using a connection. It requires that the status is
// 503 or below 500, and that every error response is a problem with a detail.
func (s *service) handle(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	defer func() { // a handler may abort only a response that has begun
		if failure := recover(); failure != nil {
			require.Equal(t, http.ErrAbortHandler, failure)
			require.True(t, w.Flushed || w.Body.Len() > 0)
		}
	}()
	r.RemoteAddr = "192.0.2.1:1234"
	s.http.Config.Handler.ServeHTTP(w, r)
	require.True(t, w.Code < 500 || w.Code == http.StatusServiceUnavailable, "%d %s", w.Code, w.Body)
	if w.Code >= 400 {
		var p problem.Problem
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), "%s", w.Body)
		require.Equal(t, w.Code, p.Status)
		require.NotEmpty(t, p.Detail)
	}
	return w
}

// FuzzRequest checks that every request gets a response, whatever its path, query, headers, and body are,
// and that no response reports an internal error.
func FuzzRequest(f *testing.F) {
	const l = "/v1/ledgers/default"
	for _, request := range []string{
		"GET " + l + "/records?kind=ipc_record&state=live&label:step=a&stage:question=x&since=2026-01-02T15:04:05%2B01:00&clock=occurred&limit=2&as_of=3&after=2&proofs=true HTTP/1.1\r\n\r\n",
		"GET " + l + "/records/1/receipt?tree_size=2 HTTP/1.1\r\nAccept: text/plain;q=0.5, application/json\r\nPrefer: wait=1, return=minimal\r\n\r\n",
		"GET " + l + "/log/tile/entries/000.p/2 HTTP/1.1\r\nAccept-Encoding: br, gzip;q=0\r\nX-Forwarded-For: 192.0.2.1, ::1\r\n\r\n",
		"GET " + l + "/records/1/content/output HTTP/1.1\r\nRange: bytes=0-\r\nAuthorization: Bearer x\r\n\r\n",
		"GET " + l + "/runs/a%2Fb HTTP/1.1\r\nHost: elsewhere.example:80\r\nOrigin: null\r\n\r\n",
		"GET " + l + "/drift/groups/label:step/a?outputs_cursor=AAAA HTTP/1.1\r\n\r\n",
		"GET " + l + "/drift/effects?variable=temperature&a=0&b=1e0 HTTP/1.1\r\n\r\n",
		"POST " + l + "/ipc-records?on_mismatch=reject&derive=true HTTP/1.1\r\nContent-Type: application/json; charset=utf-8\r\nIdempotency-Key: k\r\nContent-Length: 55\r\n\r\n" +
			`{"model":"m","temperature":1,"max_tokens":1,"payload":{}`,
		"POST " + l + "/batch HTTP/1.1\r\nContent-Type: application/x-ndjson\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST " + l + "/batch HTTP/1.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: 32\r\n\r\n{\"kind\":\"run_dag\",\"record\":{}}\n\n",
		"POST " + l + "/citation-sets/3/pinned-retrieval HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 61\r\n\r\n" + `{"sources":[{"id":"b","chunks":[{"text":"a chunk"}]}],"top_k":1}`,
		"POST " + l + "/drift/reproduce HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 23\r\n\r\n" + `{"seq":1,"output":"o0"}`,
		"POST " + l + "/redactions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 47\r\n\r\n" + `{"filter":{"label:step":"a"},"reason":"a test"}`,
		"POST /v1/ledgers HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n" + `{"name":"default"}`,
		"POST /v1/compute/path-fingerprints HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n" + `{"project":"p","route":["a"]}`,
		"DELETE " + l + "/sources/b0 HTTP/1.1\r\n\r\n",
		"OPTIONS " + l + "/log/key HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(request))
	}
	s := stocked(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil || strings.Contains(r.Header.Get("Accept"), "event-stream") {
			return // the request is not HTTP, or its response does not end
		}
		s.handle(t, r)
	})
}

// pagedQueries lists the queries whose results are paged. A query that returns two lists has a
// cursor parameter for each of them.
var pagedQueries = []struct{ url, cursor string }{
	{"/records?", "cursor"}, {"/records?kind=ipc_record&", "cursor"}, {"/records?clock=occurred&", "cursor"}, {"/records?label:step=a&state=stale&", "cursor"},
	{"/runs/r1?", "cursor"}, {"/paths?", "cursor"}, {"/paths/p?", "cursor"}, {"/paths/p?status=modified&", "cursor"}, {"/paths/p/a6122a65?", "cursor"}, {"/paths/p/builds?", "cursor"},
	{"/paths/p/builds/1/gone?", "cursor"}, {"/paths/p/collisions?", "cursor"}, {"/drift/groups?by=model&", "cursor"}, {"/drift/groups?by=model&sort=runs&", "cursor"},
	{"/drift/groups?by=label:step&sort=stability&", "cursor"}, {"/drift/groups/model/m0?", "cursor"}, {"/drift/groups/model/m0?", "outputs_cursor"}, {"/drift/timeline?model=m0&", "cursor"},
	{"/drift/effects?variable=model&a=m0&b=m1&", "cursor"}, {fmt.Sprintf("/run-dags/divergence?question_hash=%064d&", 0), "cursor"}, {"/citation-sets/drift?subject=s&", "cursor"},
	{"/run-dags/groups?by=question_hash&", "cursor"}, {"/run-dags/groups?by=question_hash&since=2020-01-01T00:00:00Z&", "cursor"}, {"/drift/effects?variable=label:step&a=a&b=b&", "cursor"},
	{"/citation-sets/conflicts?", "cursor"}, {"/citation-sets/stale?source_id=b0&", "cursor"}, {"/citation-sets/by-source/b?", "cursor"},
	{"/citation-sets/by-chunk/sha256:abbe7862de7660b333d1862141746d1d6d0e23c8cf49227bbd0d16add97bc71e?", "cursor"}, {"/sources?", "cursor"}, {"/producers?", "cursor"}, {"/producers/p?", "cursor"},
}

// FuzzCursor checks that the server refuses a forged cursor or returns a page for it, even if the
// cursor contains a tree size beyond the head. The seeds include the cursors of real pages.
func FuzzCursor(f *testing.F) {
	s := stocked(f)
	given := 0
	for i, q := range pagedQueries {
		var page map[string]any
		s.get(q.url + "limit=1&after=12").want(http.StatusOK).json(&page)
		next, _ := page[strings.TrimSuffix(q.cursor, "cursor")+"next"].(string)
		if raw, err := base64.RawURLEncoding.DecodeString(next); err == nil && len(raw) > 0 {
			size, n := binary.Uvarint(raw)
			f.Add(uint8(i), size, raw[n:])
			given++
		}
		f.Add(uint8(i), uint64(5), []byte{0, 0, 0, 0, 0, 0, 0, 1})
	}
	require.Greater(f, given, len(pagedQueries)/2)
	f.Fuzz(func(t *testing.T, which uint8, size uint64, position []byte) {
		q := pagedQueries[int(which)%len(pagedQueries)]
		cursor := base64.RawURLEncoding.EncodeToString(append(binary.AppendUvarint(nil, size), position...))
		w := s.handle(t, httptest.NewRequest(http.MethodGet, "/v1/ledgers/default"+q.url+"limit=3&"+q.cursor+"="+cursor, nil))
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound}, w.Code, "%s", w.Body)
	})
}

// FuzzDecompressor checks that text that was compressed in two parts decompresses to the original.
// It also checks that decompressing arbitrary input terminates, with or without an error.
func FuzzDecompressor(f *testing.F) {
	f.Add([]byte("a line\n"), uint8(0))
	f.Add([]byte("\x1f\x8b\x08\x00"), uint8(3))
	f.Add([]byte("\x28\xb5\x2f\xfd\x00\xff\x01\x00\x00"), uint8(7))
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(f, err)
	compress := map[string]func([]byte) []byte{
		"gzip": func(text []byte) []byte {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(text) // writing to memory cannot fail, and neither can Close
			_ = z.Close()
			return b.Bytes()
		},
		"zstd":     func(text []byte) []byte { return encoder.EncodeAll(text, nil) },
		"identity": func(text []byte) []byte { return text },
	}
	f.Fuzz(func(t *testing.T, text []byte, how uint8) {
		encoding := []string{"gzip", "zstd", "identity"}[how%3]
		open, err := limits.Decompressor(encoding, bodies.HoldWithoutLimit)
		require.NoError(t, err)
		read := func(body []byte) ([]byte, error) {
			r, err := open(bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			plain, err := io.ReadAll(io.LimitReader(r, 1<<20))
			return plain, errors.Join(err, r.Close()) // closing a broken body fails too
		}
		_, _ = read(text) // must return, whatever text is
		cut := int(how) % (len(text) + 1)
		got, err := read(append(compress[encoding](text[:cut]), compress[encoding](text[cut:])...))
		require.NoError(t, err)
		require.Equal(t, string(text), string(got))
	})
}
