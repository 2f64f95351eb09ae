package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/client/wire"
	questions "colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/proofs"
)

func filled(t *testing.T, records int) *service {
	s := start(t)
	var batch strings.Builder
	for i := range records {
		batch.WriteString(ipcLine(fmt.Sprint(i), fmt.Sprint("output ", i)))
	}
	a := s.do(http.MethodPost, "/batch", batch.String(), "Content-Type", call.NDJSONMediaType).want(http.StatusOK)
	require.Len(t, a.lines(), records)
	require.EqualValues(t, records+1, s.size())
	return s
}

func TestRecordAndContent(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("r", "o<script>")).want(http.StatusCreated)
	var r questions.RecordAnswer
	s.get("/records/1").want(http.StatusOK).json(&r)
	require.Equal(t, record.StateLive, r.State)
	require.EqualValues(t, 2, r.AsOf)
	a := s.get("/records/1/content/output").want(http.StatusOK)
	require.Equal(t, "o<script>", string(a.body))
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
	require.NotContains(t, a.header.Get("Content-Type"), "html")
	require.Equal(t, `{"seed":1}`, string(s.get("/records/1/content/payload").want(http.StatusOK).body))
	s.get("/records/1/content/nothing").problem(http.StatusNotFound)
	s.get("/records/2").problem(http.StatusNotFound)
	s.get("/records/x").problem(http.StatusBadRequest)
	s.get("/records/01").problem(http.StatusBadRequest)
	s.get("/records/-1").problem(http.StatusBadRequest)
	s.get("/records/1?x=1").problem(http.StatusBadRequest)

	s.post("/citation-sets", `{"subject":"s","citations":[{"source_id":"x","text":"chunk","weight":1}]}`).want(http.StatusCreated)
	require.Equal(t, "chunk", string(s.get("/records/2/content/citations/0/text").want(http.StatusOK).body))
}

func TestReceiptAtAnyLaterSize(t *testing.T) {
	s := filled(t, 300)
	for _, size := range []uint64{8, 9, 255, 256, 257, 301} {
		r := s.verified(s.get(fmt.Sprint("/records/7/receipt?tree_size=", size)).want(http.StatusOK))
		require.Equal(t, size, r.Proof.Inclusion.TreeSize)
	}
	s.get("/records/7/receipt?tree_size=7").problem(http.StatusBadRequest)
	s.get("/records/7/receipt?tree_size=302").problem(http.StatusBadRequest)
	text := s.get("/records/7/receipt", "Accept", "text/plain").want(http.StatusOK)
	p, err := proofs.ParseTlogProof(text.body)
	require.NoError(t, err)
	require.EqualValues(t, 7, p.Index)
}

func TestEventsAreTheLog(t *testing.T) {
	s := filled(t, 250)
	prev := make([]byte, 32)
	seq := uint64(0)
	next := "/events?from=0&limit=100"
	for next != "" {
		a := s.get(next).want(http.StatusOK)
		for _, text := range a.lines() {
			var l wire.EventLine
			require.NoError(t, json.Unmarshal(text, &l))
			require.Equal(t, seq, l.Seq)
			require.Equal(t, prev, l.Entry[:32])
			require.Equal(t, string(l.Event), string(l.Entry[32:]))
			sum := sha256.Sum256(l.Entry)
			require.Equal(t, hex.EncodeToString(sum[:]), l.EventHash)
			prev = sum[:]
			seq++
			if seq%50 == 0 {
				var one wire.EventLine
				s.get("/events/" + l.EventHash).want(http.StatusOK).json(&one)
				require.Equal(t, l, one)
			}
		}
		next = ""
		if link := a.header.Get("Link"); link != "" {
			next = s.http.URL + strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		}
	}
	require.Equal(t, s.size(), seq)
	require.Empty(t, s.get("/events?from=251").want(http.StatusOK).body)
	s.get("/events?from=252").problem(http.StatusBadRequest)
	s.get("/events?limit=0").problem(http.StatusBadRequest)
	s.get("/events?limit=1001").problem(http.StatusBadRequest)
	s.get("/events?from=1&from=2").problem(http.StatusBadRequest)
	s.get("/events/" + zeros).problem(http.StatusNotFound)
	s.get("/events/xyz").problem(http.StatusBadRequest)
}

// If the database has lost an entry, the server answers 500, not 404. A page that reaches the lost
// entry is cut off, so that it does not look complete.
func TestDamageIsNotAbsence(t *testing.T) {
	s := filled(t, 300)
	x, err := s.database.Tamperer("default")
	require.NoError(t, err)
	require.NoError(t, x.DeleteEntry(50))
	require.NoError(t, x.DeleteTile(0, 0))
	s.get("/records/50").problem(http.StatusInternalServerError)
	response, err := http.Get(s.url + "/events")
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestProofEndpoints(t *testing.T) {
	s := filled(t, 300)
	head := s.ledger().Head()
	hashes := func(url string) (list []proofs.Hash) {
		var answer struct{ Hashes []string }
		s.get(url).want(http.StatusOK).json(&answer)
		for _, text := range answer.Hashes {
			h, err := proofs.ParseHash(text)
			require.NoError(t, err)
			list = append(list, h)
		}
		return list
	}
	root := func(size uint64) proofs.Hash {
		h, err := s.ledger().Prover(t.Context(), head).Root(size)
		require.NoError(t, err)
		return h
	}
	for _, size := range []uint64{1, 2, 255, 256, 300, 301} {
		entry, err := s.ledger().Reader().Entry(t.Context(), size-1)
		require.NoError(t, err)
		require.NoError(t, proofs.VerifyInclusion(proofs.LeafHash(entry), size-1, size,
			hashes(fmt.Sprintf("/proofs/inclusion?seq=%d&tree_size=%d", size-1, size)), root(size)))
		require.NoError(t, proofs.VerifyConsistency(size, head.Size, root(size), head.Root,
			hashes(fmt.Sprintf("/proofs/consistency?first=%d", size))))
	}
	for _, bad := range []string{"inclusion", "inclusion?seq=301", "inclusion?seq=5&tree_size=5", "inclusion?seq=1&tree_size=302",
		"inclusion?seq=18446744073709551616", "consistency", "consistency?first=0", "consistency?first=9&second=8", "consistency?first=1&second=302"} {
		s.get("/proofs/" + bad).problem(http.StatusBadRequest)
	}
}

func TestTilesAreThoseOfTlogTiles(t *testing.T) {
	s := filled(t, 300)
	a := s.get("/log/tile/0/000").want(http.StatusOK)
	require.Len(t, a.body, 8192)
	require.Equal(t, "application/octet-stream", a.header.Get("Content-Type"))
	require.Equal(t, "public, max-age=31536000, immutable", a.header.Get("Cache-Control"))
	whole := s.get("/log/tile/0/001.p/45").want(http.StatusOK).body
	require.Equal(t, whole[:32*7], s.get("/log/tile/0/001.p/7").want(http.StatusOK).body)
	require.Len(t, s.get("/log/tile/1/000.p/1").want(http.StatusOK).body, 32)
	entries, err := proofs.ParseBundle(s.get("/log/tile/entries/000", "Accept-Encoding", "identity").want(http.StatusOK).body)
	require.NoError(t, err)
	require.Len(t, entries, 256)
	for i, entry := range entries {
		h := proofs.LeafHash(entry)
		require.Equal(t, a.body[32*i:32*i+32], h[:])
	}
	r, err := http.NewRequest(http.MethodGet, s.url+"/log/tile/entries/001.p/45", nil)
	require.NoError(t, err)
	r.Header.Set("Accept-Encoding", "gzip")
	zipped := s.send(r).want(http.StatusOK)
	require.Equal(t, "gzip", zipped.header.Get("Content-Encoding"))
	z, err := gzip.NewReader(bytes.NewReader(zipped.body))
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	entries, err = proofs.ParseBundle(plain)
	require.NoError(t, err)
	require.Len(t, entries, 45)
	for _, bad := range []string{"0/001", "0/001.p/46", "0/001.p/0", "0/001.p/256", "0/000.p/256", "0/1", "0/002", "1/000", "1/000.p/2",
		"64/000", "00/000", "0/x000/001", "entries/001", "entries/002.p/1", "x/000", "0/000/", "0/000?x=1", ""} {
		s.get("/log/tile/" + bad).problem(http.StatusNotFound)
	}
}

func TestCheckpointAndKey(t *testing.T) {
	s := filled(t, 3)
	a := s.get("/log/checkpoint").want(http.StatusOK)
	require.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, "no-cache", a.header.Get("Cache-Control"))
	checkpoint, err := proofs.OpenCheckpoint(a.body, s.verifier())
	require.NoError(t, err)
	require.EqualValues(t, 4, checkpoint.Size)
	require.Contains(t, string(s.get("/log/key").want(http.StatusOK).body), s.ledger().VerifierKey())
	head := s.do(http.MethodHead, "/log/checkpoint", "").want(http.StatusOK)
	require.Empty(t, head.body)
}

func TestMetaEndpoints(t *testing.T) {
	s := filled(t, 3)
	for _, path := range []string{"/healthz", "/readyz", "/version", "/openapi.yaml", "/docs", "/v1/ledgers"} {
		require.NotEmpty(t, s.get(s.http.URL+path).want(http.StatusOK).body)
	}
	require.Contains(t, string(s.get("/stats").want(http.StatusOK).body), `"ipc_record":3`)
	metrics := string(s.get(s.http.URL + "/metrics").want(http.StatusOK).body)
	for _, want := range []string{`colophon_ledger_tree_size{ledger="default"} 4`, "colophon_http_requests_total", "colophon_commit_events_bucket", `colophon_index_lag_events{ledger="default"} `, `colophon_queue_depth{ledger="default"} 0`,
		"colophon_checkpoint_age_seconds", "colophon_commit_duration_seconds_count",
		`colophon_ledger_hash_checks_total{field="output_hash",kind="ipc_record",ledger="default",result="computed"} 3`, "go_goroutines"} {
		require.Contains(t, metrics, want)
	}
}
