package cluster

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/locked"
	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/keystore"
	"colophon/storage/postgres"
	"colophon/storage/postgres/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// never is a pause between polls that is longer than any test.
const never = time.Hour

// node is one of several servers that share a database in a test.
type node struct {
	*testing.T
	host    *ledger.Host
	cluster *Member
	log     *locked.Buffer
	stop    func()
}

// startNode starts a server with its own keys, so that it writes only the ledgers that it creates.
func startNode(t *testing.T, url, id string, pause time.Duration) node {
	t.Helper()
	return startNodeWith(t, url, id, pause, t.TempDir(), nil)
}

// startNodeWith starts a server with the keys in a folder, and with the given high-water marks.
func startNodeWith(t *testing.T, url, id string, pause time.Duration, keys string, marks highwater.Store) node {
	t.Helper()
	n := node{T: t, log: new(locked.Buffer)}
	log := slog.New(slog.NewTextHandler(n.log, nil))
	database, err := postgres.Open(t.Context(), postgres.Config{URL: url, Logger: log, LedgerServer: &postgres.LedgerServer{ID: id, Address: "http://" + id}})
	require.NoError(t, err)
	n.host, err = ledger.OpenHost(t.Context(), database, keystore.KeyFiles{Dir: keys}, func(string) ledger.Config {
		return ledger.Config{Logger: log, HighWaterMarks: marks, EnableStandbyMark: true}
	})
	require.NoError(t, err)
	n.cluster, err = start(t.Context(), database, n.host, log, pause)
	require.NoError(t, err)
	n.stop = sync.OnceFunc(func() {
		n.cluster.FinishRoleChanges()
		require.NoError(t, n.host.Close())
		require.NoError(t, n.cluster.Close())
		require.NoError(t, database.Close())
	})
	t.Cleanup(n.stop)
	return n
}

func (n node) ledger(name string) *ledger.Ledger {
	n.Helper()
	l, err := n.host.Ledger(name)
	require.NoError(n, err)
	return l
}

// public sets whether a ledger's log is public.
func (n node) public(name string, public bool) {
	n.Helper()
	require.NoError(n, n.ledger(name).SetLogPublic(n.Context(), public))
}

// sees waits until the server shows a ledger's log as public or, if public is false, as private.
func (n node) sees(name string, public bool) {
	n.Helper()
	require.Eventually(n, func() bool {
		l, err := n.host.Ledger(name)
		return err == nil && l.HasPublicLog() == public
	}, time.Minute, time.Millisecond)
}

// grow commits an event, by rotating or retiring the signing key.
func (n node) grow(name string) {
	n.Helper()
	change := n.host.RotateKey
	if n.ledger(name).KeyHistory().OverlappingKey() != nil {
		change = n.host.RetireKey
	}
	_, err := change(n.Context(), name, "test")
	require.NoError(n, err)
}

// shows waits until the server reports the given size for a ledger.
func (n node) shows(name string, size uint64) {
	n.Helper()
	require.Eventually(n, func() bool {
		l, err := n.host.Ledger(name)
		return err == nil && l.Head().Size == size
	}, time.Minute, time.Millisecond)
}

func (n node) create(name string) {
	n.Helper()
	_, err := n.host.Create(n.Context(), ledger.CreateOptions{Name: name})
	require.NoError(n, err)
}

// A server shows the new ledgers, events, and settings of another server without polling.
func TestNotified(t *testing.T) {
	server := postgrestest.SharedServer(t)
	url := server.URL("search_path", server.CreateSchema(t))
	a, b := startNode(t, url, "a", never), startNode(t, url, "b", never)
	a.create("one")
	b.shows("one", 1)
	a.create("two")
	b.shows("two", 1)
	for size := range uint64(3) {
		a.grow("one")
		b.shows("one", size+2)
	}
	a.public("two", true)
	b.sees("two", true)
	require.Equal(t, ledger.StatusWritable, a.host.Status("one"))
	require.Equal(t, ledger.StatusReadOnly, b.host.Status("one"))
	// Server a also shows a ledger that server b creates.
	b.create("three")
	a.shows("three", 1)
}

// A server also shows changes that are committed while it reads earlier ones.
func TestNotifiedDuringFollow(t *testing.T) {
	server := postgrestest.SharedServer(t)
	url := server.URL("search_path", server.CreateSchema(t))
	a, b := startNode(t, url, "a", never), startNode(t, url, "b", never)
	a.create("default")
	public := false
	for range 200 {
		public = !public
		a.public("default", public)
	}
	b.sees("default", public)
	a.grow("default")
	b.shows("default", 2)
}

// After its connections break, a server reads the changes that it missed.
func TestNotifiedAfterBreak(t *testing.T) {
	server := postgrestest.SharedServer(t)
	schema := server.CreateSchema(t)
	a := startNode(t, server.URL("search_path", schema), "a", never)
	proxy := postgrestest.NewProxy(t, server, func() postgrestest.Fault { return postgrestest.FaultNone })
	b := startNode(t, proxy.URL("search_path", schema), "b", never)
	a.create("default")
	b.shows("default", 1)
	for size := range uint64(3) {
		proxy.CloseConnections()
		a.grow("default")
		b.shows("default", size+2)
	}
}

// Without notifications, servers poll. A server logs only once that the database refuses them.
func TestPolling(t *testing.T) {
	for name, without := range map[string]func(*postgrestest.Proxy){
		"refused": (*postgrestest.Proxy).RefuseNotifications, "dropped": (*postgrestest.Proxy).DropNotifications,
	} {
		t.Run(name, func(t *testing.T) {
			server := postgrestest.SharedServer(t)
			proxy := postgrestest.NewProxy(t, server, func() postgrestest.Fault { return postgrestest.FaultNone })
			without(proxy)
			url := proxy.URL("search_path", server.CreateSchema(t))
			a, b := startNode(t, url, "a", roundPause), startNode(t, url, "b", roundPause)
			a.create("default")
			for size := range uint64(3) {
				a.grow("default")
				b.shows("default", size+2)
			}
			want := 0
			if name == "refused" {
				want = 1
			}
			require.Equal(t, want, strings.Count(b.log.String(), "change notifications from the database are not available"))
		})
	}
}

// Notifications about individual ledgers do not make the server read all ledgers, even if many of them
// arrive at once.
func TestNotifiedOfSome(t *testing.T) {
	server := postgrestest.SharedServer(t)
	url := server.URL("search_path", server.CreateSchema(t))
	a, b := startNode(t, url, "a", never), startNode(t, url, "b", never)
	names := []string{"one", "two", "three", "four"}
	for _, name := range names {
		a.create(name)
		b.shows(name, 1)
	}
	due := func() time.Time {
		b.cluster.mu.Lock()
		defer b.cluster.mu.Unlock()
		return b.cluster.next
	}
	before := due()
	var changing sync.WaitGroup
	for _, name := range names {
		changing.Go(func() {
			for i := range 51 {
				if err := a.ledger(name).SetLogPublic(t.Context(), i%2 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	changing.Wait()
	for _, name := range names {
		b.sees(name, true)
	}
	for _, text := range []string{"cannot be read or renewed", "is broken"} { // after these failures, the server reads all ledgers anyway
		if strings.Contains(b.log.String(), text) {
			t.Skip(text)
		}
	}
	require.Equal(t, before, due())
}
