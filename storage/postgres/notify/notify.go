// Package notify uses LISTEN and NOTIFY to tell the servers that share a database which ledgers have
// changed.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// channel is the channel for the names of ledgers that have changed. All schemas of a database
// share it, so a name can belong to a ledger in another schema.
const channel = "colophon"

const (
	// announcePause is the minimum time between two notifications from one server. It bounds the
	// load that a busy ledger puts on the database and on the listening servers.
	announcePause = 20 * time.Millisecond
	// quietTime is how long a connection may be silent before Listen checks that it still works.
	quietTime = 30 * time.Second
	// leastPause and mostPause bound the pause before a broken connection is reopened.
	leastPause = 20 * time.Millisecond
	mostPause  = time.Second
	// sendTime is the time limit for sending a notification.
	sendTime = 3 * time.Second
	// checkTime is the time limit for opening a connection, and also for checking it.
	checkTime = 5 * time.Second
)

// Announcer notifies all servers that share a database when ledgers change. Its methods are safe
// for concurrent use.
type Announcer struct {
	pool    *pgxpool.Pool
	wake    chan struct{} // tells run that changed may have new names; has capacity 1
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	changed map[string]bool // names of ledgers to announce; guarded by mu
}

// NewAnnouncer returns an Announcer that uses connections from pool until Close is called.
func NewAnnouncer(pool *pgxpool.Pool) *Announcer {
	ctx, stop := context.WithCancel(context.Background())
	a := &Announcer{pool: pool, wake: make(chan struct{}, 1), stop: stop, changed: make(map[string]bool)}
	a.running.Go(func() { a.run(ctx) })
	return a
}

// Close stops sending notifications. Changes that have not been announced yet are lost.
func (a *Announcer) Close() {
	a.stop()
	a.Wait()
}

// Wait blocks until the Announcer has stopped sending notifications, which happens after Close or
// after the database has refused one.
func (a *Announcer) Wait() { a.running.Wait() }

// Announce notifies the listening servers that the head, a setting, or the lease of a ledger has
// changed. It never blocks. Notifications can be lost, so servers must also look for changes
// themselves.
//
// Commits do not send notifications in their own transactions. PostgreSQL holds a lock from the
// notification until the commit is on disk, so commits to different ledgers would wait for each
// other (see BenchmarkCommits).
func (a *Announcer) Announce(name string) {
	a.mu.Lock()
	a.changed[name] = true
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run sends the announced names until ctx is done or the database refuses a notification.
func (a *Announcer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		a.mu.Lock()
		names := slices.Collect(maps.Keys(a.changed))
		clear(a.changed)
		a.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, sendTime)
		_, err := a.pool.Exec(limited, `SELECT pg_notify($1, n.name) FROM unnest($2::text[]) AS n (name)`, channel, names)
		cancel()
		if isRefused(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(announcePause):
		}
	}
}

// IsUnsupported reports whether err means that the engine does not have a statement, function, table, or
// setting. A missing privilege is not such an error: a caller that then did without the feature could do
// without one that it needs.
func IsUnsupported(err error) bool {
	var reported *pgconn.PgError
	if !errors.As(err, &reported) {
		return false
	}
	switch reported.Code { // SQLSTATE codes (PostgreSQL, Appendix A)
	case "0A000", // feature not supported
		"42601", // syntax error
		"42704", // undefined object
		"42883", // undefined function
		"42P01": // undefined table
		return true
	}
	return false
}

// isRefused reports whether err means that the database does not support a statement for notifications, or
// does not permit it. Servers then see changes when they poll.
func isRefused(err error) bool {
	var reported *pgconn.PgError
	return IsUnsupported(err) || errors.As(err, &reported) && reported.Code == "42501" // insufficient privilege
}

// Listener receives the notifications that Announcers send.
type Listener struct {
	// Connect opens a connection for Listen. Listen closes the connection after use.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	Logger  *slog.Logger
}

// Listen calls heard with the name of each ledger that a server on the database has changed, or
// with "" if notifications may have been missed. It uses its own connection, and reopens it if it
// breaks. It returns when ctx is done, or if the database does not support notifications.
// Notifications can be lost, so the caller must also look for changes itself.
func (l Listener) Listen(ctx context.Context, heard func(ledger string)) {
	between := time.Duration(0)
	broken := false
	healthy := func() {
		if broken {
			l.Logger.Info("this server is receiving change notifications from the database again")
		}
		broken, between = false, 0
	}
	for {
		err := l.listen(ctx, heard, healthy)
		switch {
		case ctx.Err() != nil:
			return
		case isRefused(err):
			l.Logger.Warn("change notifications from the database are not available; this server sees other servers' changes only when it polls", "error", err)
			return
		case !broken:
			broken = true
			l.Logger.Warn("the connection for change notifications from the database is down; until it is restored, this server sees other servers' changes only when it polls",
				"error", err)
		}
		between = min(max(leastPause, 2*between), mostPause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(between):
		}
	}
}

// listen is like Listen, but uses one connection and returns when the connection breaks. It calls
// healthy whenever the connection turns out to be working.
func (l Listener) listen(ctx context.Context, heard func(string), healthy func()) error {
	limited, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	conn, err := l.Connect(limited)
	if err != nil {
		return err
	}
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(limited)
	}()
	if _, err := conn.Exec(limited, "LISTEN "+channel); err != nil {
		return err
	}
	heard("")
	for {
		waiting, cancel := context.WithTimeout(ctx, quietTime)
		notification, err := conn.WaitForNotification(waiting)
		silent := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			healthy()
			heard(notification.Payload)
			continue
		case !silent:
			return err
		}
		checking, cancel := context.WithTimeout(ctx, checkTime)
		err = conn.Ping(checking)
		cancel()
		if err != nil {
			return err
		}
		healthy()
	}
}
