package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// stuckDatabase is a database whose commits block while commits is locked. While returns is locked,
// commits are stored but do not return.
type stuckDatabase struct {
	*memory.Database
	commits, returns *sync.RWMutex
	begun            chan struct{} // receives a value when a commit begins, unless the channel is full
	stored           chan struct{} // receives a value when a commit is stored, unless the channel is full
}

func (d stuckDatabase) Ledger(ctx context.Context, name string) (storage.Store, error) {
	store, err := d.Database.Ledger(ctx, name)
	return stuckStore{store, d}, err
}

func (d stuckDatabase) CreateLedger(ctx context.Context, info storage.LedgerInfo) (storage.Store, error) {
	store, err := d.Database.CreateLedger(ctx, info)
	return stuckStore{store, d}, err
}

type stuckStore struct {
	storage.Store
	database stuckDatabase
}

func (s stuckStore) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	select {
	case s.database.begun <- struct{}{}:
	default:
	}
	s.database.commits.RLock()
	defer s.database.commits.RUnlock()
	err := s.Store.Commit(ctx, old, b)
	select {
	case s.database.stored <- struct{}{}:
	default:
	}
	s.database.returns.RLock()
	defer s.database.returns.RUnlock()
	return err
}

// startStuck starts a server on a stuckDatabase.
func startStuck(t *testing.T) (*service, *Server, stuckDatabase) {
	t.Helper()
	database := stuckDatabase{memory.New(), new(sync.RWMutex), new(sync.RWMutex), make(chan struct{}, 1), make(chan struct{}, 1)}
	host, err := ledger.OpenHost(t.Context(), database, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	_, err = host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	folded, err := questions.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	handler, err := New(Config{Host: host, Index: folded, Version: "test"})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	s := &service{t: t, database: database.Database, host: host, http: server, url: server.URL + "/v1/ledgers/default"}
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, folded.Close())
		require.NoError(t, host.Close())
	})
	return s, handler, database
}

// Reads leave a core free for a write until the response to the write begins.
func TestWritesCountUntilTheirAnswer(t *testing.T) {
	s, handler, database := startStuck(t)
	for name, write := range map[string]func() answer{
		"record": func() answer { return s.post("/ipc-records", ipcBody("", "x")) },
		"batch":  func() answer { return s.batch(ipcLine("", "1")) },
	} {
		select {
		case <-database.begun: // left over from the previous write
		default:
		}
		database.commits.Lock()
		answered := make(chan answer)
		go func() { answered <- write() }()
		<-database.begun
		var turns []*limits.ReadTurn
		for range max(1, runtime.GOMAXPROCS(0)-1) {
			turns = append(turns, new(limits.ReadTurn))
			require.NoError(t, turns[len(turns)-1].Take(t.Context(), handler.shared.Limiter.ReadScheduler, func() limits.Holder { return limits.Holder{} }), name)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.Error(t, new(limits.ReadTurn).Take(ctx, handler.shared.Limiter.ReadScheduler, func() limits.Holder { return limits.Holder{} }), name)
		cancel()
		for _, turn := range turns {
			turn.Release()
		}
		database.commits.Unlock()
		<-answered
	}
	s.post("/ipc-records", `{"malformed`).want(http.StatusBadRequest)
	s.batch("malformed\n")
	c := contextFrom(s, hog+":1")
	c.Writer().BeginWriteRequest(handler.shared.Limiter.ReadScheduler)
	c.Response().WriteHeader(http.StatusCreated) // ends the write, even if no client reads it
	s.fillTurns(handler)()                       // no write is in progress anymore
	c.End()
}

// Reads never wait for the writer (spec: The log). They are answered while a commit is in
// progress and records wait behind it.
func TestReadsDoNotWaitForTheWriter(t *testing.T) {
	s, _, database := startStuck(t)
	s.post("/ipc-records", ipcBody("r", "x")).want(http.StatusCreated)
	s.post("/run-dags", dagBody).want(http.StatusCreated)
	<-database.begun

	database.commits.Lock()
	release := sync.OnceFunc(database.commits.Unlock)
	t.Cleanup(release)
	answered := make(chan int, 2)
	post := func(path, body string) {
		answered <- s.post(path, body).status
	}
	go post("/ipc-records", ipcBody("", "y"))
	<-database.begun
	go post("/records/1/state", `{"state":"stale","reason":"r"}`)
	for _, path := range []string{s.url, "/stats", "/records", "/records/1?derive=true", "/records/1/receipt", "/records/1/content/output", "/records/2/proof?stage=question",
		"/runs/r", "/events?from=0", "/proofs/inclusion?seq=1&tree_size=3", "/proofs/consistency?first=1&second=3", "/log/checkpoint", "/log/key",
		"/log/tile/0/000.p/3", "/log/tile/entries/000.p/3", "/drift/groups?by=model", "/drift/attribution?a=1&b=1", "/run-dags/failures", "/run-dags/groups?by=question_hash",
		"/citation-sets/conflicts", "/paths", "/sources", "/producers"} {
		s.get(path).want(http.StatusOK)
	}
	require.EqualValues(t, 3, s.size())
	require.Empty(t, answered)
	release()
	for range 2 {
		require.Equal(t, http.StatusCreated, <-answered)
	}
}

// The index contains no event beyond the published head. Otherwise, its answers could not be proved
// with a checkpoint.
func TestAnswersAreOfThePublishedHead(t *testing.T) {
	s, handler, database := startStuck(t)
	s.post("/ipc-records", ipcBody("r", "x")).want(http.StatusCreated)
	<-database.stored
	database.returns.Lock()
	release := sync.OnceFunc(database.returns.Unlock)
	t.Cleanup(release)
	answered := make(chan int)
	go func() { answered <- s.post("/ipc-records", ipcBody("", "y")).status }()
	<-database.stored
	follower := handler.config.Index.Follower(ledger.DefaultName)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, follower.WaitForSize(ctx, 3), context.DeadlineExceeded)
	require.EqualValues(t, 2, s.size())
	s.get("/records?proofs=true").want(http.StatusOK)
	release()
	require.Equal(t, http.StatusCreated, <-answered)
	require.NoError(t, follower.WaitForSize(t.Context(), 3))
}
