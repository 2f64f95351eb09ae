// Package notify tells servers that share a database which ledgers have changed (LISTEN and NOTIFY).
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

// channel carries the names of ledgers that have changed. All schemas of a database share it, so
// a name can be that of another schema's ledger.
const channel = "colophon"

const (
	// announcePause is the shortest time between two notifications of a server. It bounds what a
	// busy ledger costs the database and the servers that follow.
	announcePause = 20 * time.Millisecond
	// quietTime is how long a connection may be silent before Listen checks that it still exists.
	quietTime = 30 * time.Second
	// Bounds of the pause before a broken connection is opened again.
	leastPause = 20 * time.Millisecond
	mostPause  = time.Second
	// sendTime bounds a notification.
	sendTime = 3 * time.Second
	// checkTime bounds a connection's opening, and its check.
	checkTime = 5 * time.Second
)

// Announcer notifies the servers on a database. Its methods are safe for concurrent use.
type Announcer struct {
	pool    *pgxpool.Pool
	wake    chan struct{} // holds a token when changed may not be empty
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	changed map[string]bool // ledgers to announce; guarded by mu
}

// NewAnnouncer returns an Announcer that uses the connections of a pool until Close.
func NewAnnouncer(pool *pgxpool.Pool) *Announcer {
	ctx, stop := context.WithCancel(context.Background())
	a := &Announcer{pool: pool, wake: make(chan struct{}, 1), stop: stop, changed: make(map[string]bool)}
	a.running.Go(func() { a.run(ctx) })
	return a
}

// Close ends the notifications.
func (a *Announcer) Close() {
	a.stop()
	a.Wait()
}

// Wait waits until no more notifications are sent: after Close, or after the database has refused one.
func (a *Announcer) Wait() { a.running.Wait() }

// Announce lets the servers that Listen know that a ledger has changed: its head, a setting, or
// its lease. It never blocks, and may fail: a server must also look for changes itself.
//
// A commit does not notify itself. PostgreSQL holds a lock from the notification until the commit
// is on disk, so commits of different ledgers would wait for each other (BenchmarkCommits).
func (a *Announcer) Announce(name string) {
	a.mu.Lock()
	a.changed[name] = true
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run sends what was announced, until ctx is done.
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
		if Unsupported(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(announcePause):
		}
	}
}

// Unsupported reports whether the database has refused a statement that it does not know or
// permit.
func Unsupported(err error) bool {
	var reported *pgconn.PgError
	if !errors.As(err, &reported) {
		return false
	}
	class := reported.Code[:min(2, len(reported.Code))]
	return class == "0A" || class == "42" // a feature; syntax, a function, or a permission
}

// Listener listens for notifications.
type Listener struct {
	// Connect opens a connection.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	Log     *slog.Logger
}

// Listen calls heard with the name of each ledger that a server on the database has changed, or
// with "" if notifications may have been missed. It has a connection of its own, which it opens
// again when it breaks. It returns when ctx is done, or if the database has no notifications.
// Notifications can be lost, so the caller must also look for changes itself.
func (l Listener) Listen(ctx context.Context, heard func(ledger string)) {
	between := time.Duration(0)
	broken := false
	healthy := func() {
		if broken {
			l.Log.Info("the database notifies this server of changes again")
		}
		broken, between = false, 0
	}
	for {
		err := l.listen(ctx, heard, healthy)
		switch {
		case ctx.Err() != nil:
			return
		case Unsupported(err):
			l.Log.Warn("the database does not notify servers of changes: this server sees the changes of others when it next polls", "error", err)
			return
		case !broken:
			broken = true
			l.Log.Warn("the connection on which the database notifies this server of changes is broken: until it is back, this server sees the changes of others when it next polls",
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

// listen is Listen for one connection. It calls healthy whenever the connection proves to work.
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
