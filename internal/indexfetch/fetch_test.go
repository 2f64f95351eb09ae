package indexfetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/client/wire"
	"colophon/ledger/index"
	"colophon/proofs"
)

const ledger = "default"

var root = proofs.Hash{1, 2, 3}

// peer is a server from which the tests fetch. Its snapshot has three parts of ten bytes each.
type peer struct {
	// change modifies a response before it is sent.
	change func(part int, p *wire.IndexPart)
	// before is called before a response is sent. If it returns true, it has sent the response
	// itself.
	before func(w http.ResponseWriter, r *http.Request) bool
	size   atomic.Uint64 // size of the log
	grows  uint64        // number of events by which the log grows each time its size is requested
	asked  atomic.Int64  // number of parts that have been requested
}

const peerParts = 3

func (p *peer) part(n int, size uint64) *wire.IndexPart {
	rows := []byte(strings.Repeat(strconv.Itoa(n), 10))
	digest := sha256.Sum256(rows)
	part := &wire.IndexPart{AsOf: size, RootHash: hex.EncodeToString(root[:]), Layout: strings.TrimSpace(index.Layout), Rows: rows, Digest: hex.EncodeToString(digest[:])}
	if n < peerParts {
		part.Next = fmt.Sprintf("%02x", n)
	}
	if p.change != nil {
		p.change(n, part)
	}
	return part
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.before != nil && p.before(w, r) {
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/index") {
		_ = json.NewEncoder(w).Encode(wire.LedgerDescription{Name: ledger, TreeSize: p.size.Add(p.grows)})
		return
	}
	p.asked.Add(1)
	q, n, size := r.URL.Query(), 1, p.size.Load()
	if cursor := q.Get("cursor"); cursor != "" {
		before, _ := strconv.ParseUint(cursor, 16, 8)
		n = int(before) + 1
	}
	if text := q.Get("as_of"); text != "" {
		size, _ = strconv.ParseUint(text, 10, 64)
	}
	part := p.part(n, size)
	if q.Get("rows") == "false" {
		part.Rows = nil
	}
	_ = json.NewEncoder(w).Encode(part)
}

// fetcher returns a Fetcher that fetches from peers.
func fetcher(t *testing.T, peers ...*peer) *Fetcher {
	t.Helper()
	f := &Fetcher{MinPartBytes: 10, Root: func(context.Context, string, uint64) (proofs.Hash, error) { return root, nil }}
	for i, p := range peers {
		if p.size.Load() == 0 {
			p.size.Store(60)
		}
		s := httptest.NewServer(p)
		t.Cleanup(s.Close)
		c, err := client.New(s.URL, client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 3, FirstPause: time.Millisecond}), client.WithTimeout(5*time.Second))
		require.NoError(t, err)
		f.Servers = append(f.Servers, Server{URL: fmt.Sprint("server ", i+1), Client: c})
	}
	return f
}

// fetch fetches all parts. It returns their concatenated rows and the size of the last part.
func fetch(t *testing.T, f *Fetcher) (rows string, size uint64, err error) {
	t.Helper()
	for part, err := range f.Fetch(t.Context(), ledger) {
		if err != nil {
			return rows, size, err
		}
		rows, size = rows+string(part.Rows), part.Size
	}
	return rows, size, nil
}

const allRows = "111111111122222222223333333333"

func TestFetch(t *testing.T) {
	one := new(peer)
	rows, size, err := fetch(t, fetcher(t, one))
	require.NoError(t, err)
	require.Equal(t, allRows, rows)
	require.Equal(t, uint64(60), size)
	require.Equal(t, int64(peerParts), one.asked.Load())
}

// If a part does not arrive, only that part is requested again.
func TestFetchResumes(t *testing.T) {
	var requests atomic.Int64
	one := &peer{before: func(w http.ResponseWriter, _ *http.Request) bool {
		switch requests.Add(1) {
		case 2:
			panic(http.ErrAbortHandler) // the connection breaks
		case 4:
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return true
		case 6:
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"as_of":60,"rows":"`))
			return true
		}
		return false
	}}
	rows, _, err := fetch(t, fetcher(t, one))
	require.NoError(t, err)
	require.Equal(t, allRows, rows)
	require.Equal(t, int64(peerParts), one.asked.Load())
}

// A response that does not match the log or the earlier parts causes an error that says why.
func TestLyingServers(t *testing.T) {
	at := func(n int, change func(p *wire.IndexPart)) func(int, *wire.IndexPart) {
		return func(part int, p *wire.IndexPart) {
			if part == n {
				change(p)
			}
		}
	}
	for _, lie := range []struct {
		name   string
		change func(part int, p *wire.IndexPart)
		want   error
		text   string
	}{
		{"changed row", at(2, func(p *wire.IndexPart) { p.Rows[3]++ }), ErrDigestMismatch, "part 2 of the index of ledger \"default\" from server 1"},
		{"missing bytes", at(3, func(p *wire.IndexPart) { p.Rows = p.Rows[1:] }), ErrDigestMismatch, ""},
		{"no rows", at(3, func(p *wire.IndexPart) { p.Rows = nil }), ErrDigestMismatch, ""},
		{"other digest", at(1, func(p *wire.IndexPart) { p.Digest = strings.Repeat("0", 64) }), ErrDigestMismatch, ""},
		{"other root", at(1, func(p *wire.IndexPart) { p.RootHash = strings.Repeat("0", 64) }), ErrRootMismatch, "at size 60"},
		{"changing root", at(2, func(p *wire.IndexPart) { p.RootHash = strings.Repeat("0", 64) }), ErrMalformedResponse, ""},
		{"changing size", at(2, func(p *wire.IndexPart) { p.AsOf++ }), ErrMalformedResponse, "has the size 61"},
		{"other layout", at(1, func(p *wire.IndexPart) { p.Layout = "colophon index, layout 1" }), ErrLayoutMismatch, "layout 1"},
		{"short parts", at(2, func(p *wire.IndexPart) {
			digest := sha256.Sum256(p.Rows[:9])
			p.Rows, p.Digest = p.Rows[:9], hex.EncodeToString(digest[:])
		}), ErrPartTooShort, "the part has only 9 bytes"},
		{"malformed cursor", at(2, func(p *wire.IndexPart) { p.Next = "xyz" }), ErrMalformedResponse, `the member "next" is "xyz"`},
	} {
		t.Run(lie.name, func(t *testing.T) {
			rows, _, err := fetch(t, fetcher(t, &peer{change: lie.change}))
			require.ErrorIs(t, err, lie.want)
			require.ErrorContains(t, err, lie.text)
			require.Less(t, len(rows), len(allRows))
		})
	}
}

// A server that changes the rows and their digest is detected only if another server is queried as
// well.
func TestServersMustAgree(t *testing.T) {
	lie := func(part int, p *wire.IndexPart) {
		if part == 2 {
			p.Rows[3]++
			digest := sha256.Sum256(p.Rows)
			p.Digest = hex.EncodeToString(digest[:])
		}
	}
	rows, _, err := fetch(t, fetcher(t, &peer{change: lie}))
	require.NoError(t, err)
	require.NotEqual(t, allRows, rows)
	for _, peers := range [][]*peer{{{change: lie}, {}}, {{}, {change: lie}}, {{}, {}, {change: lie}}} {
		rows, _, err := fetch(t, fetcher(t, peers...))
		require.ErrorIs(t, err, ErrServersDiffer)
		require.ErrorContains(t, err, fmt.Sprintf("comparing with the index of server %d: ", len(peers)))
		require.ErrorContains(t, err, "at size 60; run colophon reindex on the server whose index is incorrect")
		require.Equal(t, "1111111111", rows)
	}
	rows, _, err = fetch(t, fetcher(t, new(peer), new(peer)))
	require.NoError(t, err)
	require.Equal(t, allRows, rows)

	_, _, err = fetch(t, fetcher(t, new(peer), &peer{change: func(_ int, p *wire.IndexPart) { p.Layout = "another" }}))
	require.ErrorIs(t, err, ErrLayoutMismatch)
	_, _, err = fetch(t, fetcher(t, new(peer), &peer{change: func(_ int, p *wire.IndexPart) { p.RootHash = "" }}))
	require.ErrorIs(t, err, ErrRootMismatch)
}

// While the log grows, Fetch requests a size that none of the servers has reached yet.
func TestServersAgreeWhileTheLogGrows(t *testing.T) {
	passed := func(p *peer) *peer {
		p.before = func(w http.ResponseWriter, r *http.Request) bool {
			size, err := strconv.ParseUint(r.URL.Query().Get("as_of"), 10, 64)
			if err == nil && r.URL.Query().Get("cursor") == "" && size <= p.size.Load() {
				http.Error(w, "gone", http.StatusConflict)
				return true
			}
			return false
		}
		return p
	}
	rows, size, err := fetch(t, fetcher(t, passed(&peer{grows: 5}), passed(&peer{grows: 7})))
	require.NoError(t, err)
	require.Equal(t, allRows, rows)
	require.Greater(t, size, uint64(74))

	// On every attempt, the log grows between the request for its size and the request for the
	// rows.
	_, _, err = fetch(t, fetcher(t, new(peer), &peer{before: func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/index") {
			http.Error(w, "gone", http.StatusConflict)
			return true
		}
		return false
	}}))
	require.ErrorContains(t, err, "the servers did not all return the index at the same tree size")
}

// Fetch fails if the server does not answer, or sends data too slowly.
func TestSlowServers(t *testing.T) {
	release := make(chan struct{})
	f := fetcher(t, &peer{before: func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	}})
	c, err := client.New(strings.TrimPrefix(f.Servers[0].Client.String(), "client of "), client.WithTimeout(20*time.Millisecond), client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 1}))
	require.NoError(t, err)
	f.Servers[0].Client = c
	_, _, err = fetch(t, f)
	require.ErrorIs(t, err, client.ErrUnreachable)
	close(release)

	var minutes atomic.Int64
	f = fetcher(t, new(peer))
	f.Now = func() time.Time { return time.Unix(0, 0).Add(time.Duration(minutes.Add(1)) * 40 * time.Second) }
	rows, _, err := fetch(t, f)
	require.ErrorIs(t, err, ErrSlowServer)
	require.Equal(t, "1111111111", rows)
}

// Fetch refuses a snapshot of more events than this server's own log contains.
func TestOwnLogIsShorter(t *testing.T) {
	f := fetcher(t, new(peer))
	f.Root = func(context.Context, string, uint64) (proofs.Hash, error) {
		return proofs.Hash{}, context.DeadlineExceeded
	}
	_, _, err := fetch(t, f)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// If the caller stops after a part, Fetch does not request another one.
func TestFetchEndsEarly(t *testing.T) {
	one := new(peer)
	parts := 0
	for range fetcher(t, one).Fetch(t.Context(), ledger) {
		parts++
		break
	}
	require.Equal(t, 1, parts)
	require.Equal(t, int64(1), one.asked.Load())
}
