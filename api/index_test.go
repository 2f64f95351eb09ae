package api

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
	"colophon/ledger"
	"colophon/ledger/index"
)

// indexed starts a server with one record, and returns the server and the part of its index at tree
// size 2.
func indexed(t *testing.T) (*service, wire.IndexPart) {
	t.Helper()
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	return s, s.indexPart("?as_of=2")
}

func (s *service) indexPart(query string) (part wire.IndexPart) {
	s.t.Helper()
	s.get("/index" + query).want(http.StatusOK).json(&part)
	return part
}

// An index part states its tree size, root hash, and layout, and the digest of its rows.
func TestIndexPart(t *testing.T) {
	s, part := indexed(t)
	l, err := s.host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	head := l.Head()
	require.Equal(t, uint64(2), part.AsOf)
	require.Equal(t, hex.EncodeToString(head.Root[:]), part.RootHash)
	require.Equal(t, strings.TrimSpace(index.Layout), part.Layout)
	require.Empty(t, part.Next)
	digest := (&index.SnapshotPart{Rows: part.Rows}).Digest()
	require.Equal(t, hex.EncodeToString(digest[:]), part.Digest)
	require.NotEmpty(t, part.Rows)

	s.post("/ipc-records", ipcBody("", "p")).want(http.StatusCreated)
	again := s.indexPart("?as_of=2&rows=false") // the index can still return the part for tree size 2
	require.Empty(t, again.Rows)
	again.Rows = part.Rows
	require.Equal(t, part, again)
	later := s.indexPart("?as_of=3")
	require.NotEqual(t, part.Digest, later.Digest)
	end := s.indexPart("?as_of=3&cursor=" + strings.Repeat("f", 18)) // a cursor past the last row
	require.Empty(t, end.Rows)

	for query, want := range map[string]string{
		"?as_of=0":             "as_of: must be at least 1",
		"?cursor=01":           `as_of: is required with the parameter "cursor"`,
		"?as_of=3&cursor=xyz":  "cursor: must be the value of next",
		"?as_of=3&cursor=80":   "cursor: belongs to a different query",
		"?as_of=3&cursor=00ff": "cursor: belongs to a different query",
		"?as_of=3&rows=no":     "rows: must be true or false",
		"?limit=1":             "limit: unknown query parameter; the known parameters are as_of, cursor, rows",
	} {
		require.Contains(t, s.get("/index"+query).problem(http.StatusBadRequest).Detail, want, query)
	}
	require.Contains(t, s.get("/index?as_of=1").problem(http.StatusConflict).Detail, "the index has passed the requested tree size and no longer has the rows for that size")
}

// A request for a tree size that the index does not reach within IndexWait gets 503.
func TestIndexPartAtALaterSize(t *testing.T) {
	s := start(t, func(c *Config) { c.IndexWait = time.Millisecond })
	s.get("/index?as_of=1000").problem(http.StatusServiceUnavailable)
}

// The rows of an index part contain digests that are keyed with the ledger's member secret, but not
// the secret itself.
func TestIndexPartsHaveNoSecret(t *testing.T) {
	s, part := indexed(t)
	l, err := s.host.Ledger(ledger.DefaultName)
	require.NoError(t, err)
	secret := l.PayloadMemberSecret().Bytes()
	require.Len(t, secret, 32)
	require.NotContains(t, string(part.Rows), string(secret))
	require.NotContains(t, string(part.Rows), fmt.Sprintf("%x", secret))
	require.NotContains(t, string(part.Rows), string(secret[:16]))
}
