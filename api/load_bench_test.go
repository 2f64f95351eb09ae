package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	questions "colophon/ledger/query"
	"colophon/storage/pebble"
)

// These constants define the load of BenchmarkWritesUnderLoad.
const (
	loadWriters   = 64
	loadFollowers = 1000
	loadReaders   = 200
	loadPause     = time.Second // pause between two requests of a reader
	loadRounds    = 5
	loadRound     = 4 * time.Second
)

// BenchmarkWritesUnderLoad measures how many records per second 64 writers post, one per request,
// to a server with a real disk. It alternates between two cases: the writers run alone, or 1,000
// clients also follow the ledger and 200 clients read from it once per second. It reports the
// median of each case and their ratio. The clients share the machine with the server.
//
//	go test -run '^$' -bench WritesUnderLoad -benchtime 1x ./api
func BenchmarkWritesUnderLoad(b *testing.B) {
	for b.Loop() {
		s := newLoaded(b)
		s.write(loadRound) // warm-up
		var alone, under []float64
		for range loadRounds {
			alone = append(alone, s.write(loadRound))
			leave := s.crowd()
			s.write(loadRound / 4) // gives all clients time to connect
			under = append(under, s.write(loadRound))
			leave()
		}
		slices.Sort(alone)
		slices.Sort(under)
		b.ReportMetric(alone[loadRounds/2], "alone/s")
		b.ReportMetric(under[loadRounds/2], "under-load/s")
		b.ReportMetric(100*under[loadRounds/2]/alone[loadRounds/2], "%kept")
		b.ReportMetric(float64(s.followed.Load())/float64(loadRounds), "followed-bytes/round")
		s.close()
	}
}

// loaded is a server that stores its data on a real disk, and the clients that use it.
type loaded struct {
	b        *testing.B
	address  string
	client   *http.Client
	ledger   *ledger.Ledger
	derived  *index.Store
	close    func()
	run      atomic.Int64 // counter that makes each record unique
	followed atomic.Int64 // bytes that the followers received
}

func newLoaded(b *testing.B) *loaded {
	database, err := pebble.Open(b.Context(), pebble.Config{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	host, err := ledger.OpenHost(b.Context(), database, keystore.KeyFiles{Dir: b.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(b, err)
	l, err := host.Create(b.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(b, err)
	folded, err := questions.OpenIndex(index.Config{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	s, err := New(Config{Host: host, Index: folded, Version: "test"})
	require.NoError(b, err)
	server := httptest.NewUnstartedServer(s)
	server.Config, server.Listener = s.HTTPServer(), s.LimitListener(server.Listener)
	server.Start()
	return &loaded{b: b, address: server.Listener.Addr().String(), ledger: l, derived: folded,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadWriters + loadReaders}},
		close: func() {
			server.Close()
			require.NoError(b, folded.Close())
			require.NoError(b, host.Close())
			require.NoError(b, database.Close())
		}}
}

// write makes all writers post records for one round, and returns the number of acknowledged
// records per second.
func (s *loaded) write(round time.Duration) float64 {
	ctx, cancel := context.WithTimeout(s.b.Context(), round)
	defer cancel()
	var posted atomic.Int64
	begin := time.Now()
	s.each(loadWriters, func(int) {
		for ctx.Err() == nil {
			body := ipcBody(fmt.Sprint("run/", s.run.Add(1)), strings.Repeat("A sentence of the answer. ", 20))
			if s.ask(http.MethodPost, "/ipc-records", body) == http.StatusCreated {
				posted.Add(1)
			}
		}
	})
	return float64(posted.Load()) / time.Since(begin).Seconds()
}

// each calls f once for every client, concurrently, and waits for all calls to return.
func (s *loaded) each(clients int, f func(client int)) {
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// ask sends a request, reads the response, and returns its status, or 0 if the request failed.
func (s *loaded) ask(method, path, body string) int {
	r, err := http.NewRequest(method, "http://"+s.address+"/v1/ledgers/default"+path, strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// crowd starts followers and readers; leave stops them.
func (s *loaded) crowd() (leave func()) {
	ctx, cancel := context.WithCancel(s.b.Context())
	var all sync.WaitGroup
	for range loadFollowers {
		c := s.follow()
		all.Go(func() {
			n, _ := io.Copy(io.Discard, bufio.NewReader(c))
			s.followed.Add(n)
		})
		context.AfterFunc(ctx, func() { _ = c.Close() })
	}
	for i := range loadReaders {
		all.Go(func() { s.read(ctx, i) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (s *loaded) follow() net.Conn {
	c, err := net.Dial("tcp", s.address)
	require.NoError(s.b, err)
	_, err = fmt.Fprintf(c, "GET /v1/ledgers/default/events HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n\r\n", eventStream)
	require.NoError(s.b, err)
	return c
}

// read sends various read requests, one per loadPause, until ctx is done.
func (s *loaded) read(ctx context.Context, reader int) {
	paths := []string{"/records/1", "/records?limit=20", "/log/checkpoint", "/proofs/inclusion?seq=1", "/drift/groups?by=model", "/events?limit=20"}
	turn := time.NewTicker(loadPause)
	defer turn.Stop()
	for i := reader; ; i++ {
		select {
		case <-turn.C:
			if status := s.ask(http.MethodGet, paths[i%len(paths)], ""); status != http.StatusOK {
				s.b.Errorf("%s: %d", paths[i%len(paths)], status)
			}
		case <-ctx.Done():
			return
		}
	}
}
