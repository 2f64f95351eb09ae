package api

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	questions "colophon/ledger/query"
	"colophon/storage"
	"colophon/storage/memory"
)

// held is a database whose logs cannot be read while walks is locked.
type held struct {
	*memory.Database
	walks *sync.RWMutex
}

func (h held) Ledger(ctx context.Context, name string) (storage.Store, error) {
	store, err := h.Database.Ledger(ctx, name)
	return heldStore{store, h.walks}, err
}

func (h held) CreateLedger(ctx context.Context, info storage.LedgerInfo) (storage.Store, error) {
	store, err := h.Database.CreateLedger(ctx, info)
	return heldStore{store, h.walks}, err
}

type heldStore struct {
	storage.Store
	walks *sync.RWMutex
}

func (h heldStore) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		h.walks.RLock()
		defer h.walks.RUnlock()
		h.Store.Entries(ctx, from)(yield)
	}
}

// A query waits for up to IndexWait if the index does not yet contain all events that it needs. It
// then gets a 503 that states the lag. Other requests do not wait.
func TestQueriesWaitForTheIndex(t *testing.T) {
	database := held{memory.New(), new(sync.RWMutex)}
	host, err := ledger.OpenHost(t.Context(), database, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	_, err = host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	folded, err := questions.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	handler, err := New(Config{Host: host, Index: folded, Version: "test", ServerLimits: limits.ServerLimits{IndexWait: time.Millisecond}})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	s := &service{t: t, database: database.Database, host: host, http: server, url: server.URL + "/v1/ledgers/default"}
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, folded.Close())
		require.NoError(t, host.Close())
	})
	require.NoError(t, folded.Follower(ledger.DefaultName).WaitForSize(t.Context(), 1))

	database.walks.Lock()
	unlock := sync.OnceFunc(database.walks.Unlock)
	defer unlock() // otherwise, the cleanup would wait forever if the test fails
	var receipt struct {
		EventHash string `json:"event_hash"`
	}
	s.post("/ipc-records", ipcBody("", "x")).want(http.StatusCreated).json(&receipt)
	for _, path := range []string{"/records/1", "/records?after=1", "/drift/groups?by=model&as_of=2", "/drift/attribution?a=1&b=1",
		"/events/0000000000000000000000000000000000000000000000000000000000000000"} {
		answer := s.get(path)
		require.Equal(t, "the index has processed 1 events of the ledger, 1 fewer than this request needs; try again once the index has caught up",
			answer.problem(http.StatusServiceUnavailable).Detail, path)
		require.Equal(t, "1", answer.header.Get("Retry-After"))
	}
	for _, path := range []string{"/records", "/drift/groups?by=model", "/records/1/receipt", "/log/checkpoint", "/stats",
		"/proofs/inclusion?seq=1&tree_size=2"} {
		s.get(path).want(http.StatusOK)
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		require.Equal(t, want, string(s.get(s.http.URL+path).want(http.StatusOK).body))
	}
	unlock()
	require.NoError(t, folded.Follower(ledger.DefaultName).WaitForSize(t.Context(), 2))
	s.get("/records?after=1").want(http.StatusOK)
	s.get("/events/" + receipt.EventHash).want(http.StatusOK)
}

// A client that writes and then queries sees its write, even without the parameter after.
func TestReadersSeeWhatTheyWrote(t *testing.T) {
	s := start(t)
	for n := range 50 {
		s.post("/ipc-records", ipcBody(fmt.Sprint("run ", n), "x")).want(http.StatusCreated)
		var page struct {
			AsOf uint64 `json:"as_of"`
		}
		s.get("/records?limit=1").want(http.StatusOK).json(&page)
		require.Equal(t, uint64(n+2), page.AsOf)
	}
}
