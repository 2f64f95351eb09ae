package postgres

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/locked"
	"colophon/storage"
	"colophon/storage/postgres/postgrestest"
)

// listening is a running call to Database.Listen. heard receives the names that it reports.
type listening struct {
	heard chan string
	log   *locked.Buffer
	ended chan struct{} // closed when Listen has returned
}

func listen(t *testing.T, url string) listening {
	t.Helper()
	l := listening{heard: make(chan string, 100), log: new(locked.Buffer), ended: make(chan struct{})}
	db, err := Open(t.Context(), Config{URL: url, Logger: slog.New(slog.NewTextHandler(l.log, nil)), ReadOnly: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(l.ended)
		db.Listen(ctx, func(ledger string) { l.heard <- ledger })
	}()
	t.Cleanup(func() {
		cancel()
		<-l.ended
		require.NoError(t, db.Close())
	})
	return l
}

// hears waits until the listener receives the given text. It ignores other texts.
func (l listening) hears(t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case heard := <-l.heard:
			if heard == text {
				return
			}
		case <-time.After(time.Minute):
			require.Fail(t, "no notification arrived", text)
		}
	}
}

// Every change that other servers must see is announced: a ledger's creation, and changes to its
// head, settings, and lease.
func TestNotifications(t *testing.T) {
	url := emptyURL(t)
	a, b := member(t, url, "a"), member(t, url, "b")
	l := listen(t, url)
	l.hears(t, "")
	var store storage.Store
	for i, change := range []func() (err error){
		func() (err error) {
			store, err = a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
			return err
		},
		func() error { return store.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1)) },
		func() error { return store.SetSetting(t.Context(), "log", []byte("public")) },
		func() error { return store.Freeze(t.Context()) },
		func() error { return a.Leases().Release(t.Context(), "default", nil) },
		func() error { return b.Leases().Take(t.Context(), "default", false, time.Time{}) },
	} {
		require.NoError(t, change(), i)
		l.hears(t, "default")
	}
}

// If a connection breaks, Listen reopens it and reports that notifications may have been missed.
func TestBrokenListener(t *testing.T) {
	server := postgrestest.SharedServer(t)
	schema := server.CreateSchema(t)
	a := member(t, server.URL("search_path", schema), "a")
	proxy := postgrestest.NewProxy(t, server, func() postgrestest.Fault { return postgrestest.FaultNone })
	l := listen(t, proxy.URL("search_path", schema))
	for range 3 {
		l.hears(t, "")
		a.Leases().notices.Announce("x")
		l.hears(t, "x")
		proxy.CloseConnections()
	}
	l.hears(t, "")
	a.Leases().notices.Announce("x")
	l.hears(t, "x")
	require.Equal(t, 3, strings.Count(l.log.String(), "is down"))
	require.Equal(t, 3, strings.Count(l.log.String(), "from the database again"))
}

// If a database does not support notifications, servers stop sending them, and Listen returns.
// Commits work as before.
func TestNoNotifications(t *testing.T) {
	server := postgrestest.SharedServer(t)
	proxy := postgrestest.NewProxy(t, server, func() postgrestest.Fault { return postgrestest.FaultNone })
	proxy.RefuseNotifications()
	url := proxy.URL("search_path", server.CreateSchema(t))
	a := member(t, url, "a")
	store, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	a.leases.notices.Wait() // waits until the first notification has been refused
	l := listen(t, url)
	<-l.ended
	require.Empty(t, l.heard)
	require.Equal(t, 1, strings.Count(l.log.String(), "change notifications from the database are not available"))
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1)))
	require.Equal(t, uint64(1), stateOf(t, a).Size)
}

// If names are given, States returns only the states of those ledgers. It ignores unknown names.
func TestStatesOfSomeLedgers(t *testing.T) {
	a := member(t, emptyURL(t), "a")
	for _, name := range []string{"x", "y", "z"} {
		_, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: name})
		require.NoError(t, err)
	}
	for want, names := range map[string][]string{"xyz": nil, "xz": {"z", "x", "unknown"}} {
		states, err := a.Leases().States(t.Context(), names...)
		require.NoError(t, err)
		got := ""
		for _, s := range states {
			got += s.Name
		}
		require.Equal(t, want, got)
	}
}
