package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	// checkTime bounds a connection's opening, and its check.
	checkTime = 5 * time.Second
)

// announce lets the servers that Listen know that a ledger has changed: its head, a setting, or
// its lease. It never blocks, and may fail: a server must also look for changes itself.
//
// A commit does not notify itself. PostgreSQL holds a lock from the notification until the commit
// is on disk, so commits of different ledgers would wait for each other (BenchmarkCommits).
func (s *Leases) announce(name string) {
	s.mu.Lock()
	s.changed[name] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// notify sends what was announced, until ctx is done.
func (s *Leases) notify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.mu.Lock()
		names := slices.Collect(maps.Keys(s.changed))
		clear(s.changed)
		s.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, LeaseTime)
		_, err := s.pool.Exec(limited, `SELECT pg_notify($1, n.name) FROM unnest($2::text[]) AS n (name)`, channel, names)
		cancel()
		if unsupported(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(announcePause):
		}
	}
}

// unsupported reports whether the database has refused a statement that it does not know or
// permit.
func unsupported(err error) bool {
	var reported *pgconn.PgError
	if !errors.As(err, &reported) {
		return false
	}
	class := reported.Code[:min(2, len(reported.Code))]
	return class == classUnsupported || class == classRefused
}

// Listen calls heard with the name of each ledger that a server on the database has changed, or
// with "" if notifications may have been missed. It has a connection of its own, which it opens
// again when it breaks. It returns when ctx is done, or if the database has no notifications.
// Notifications can be lost, so the caller must also look for changes itself.
func (d *Database) Listen(ctx context.Context, heard func(ledger string)) {
	var between pause
	broken := false
	healthy := func() {
		if broken {
			d.log.Info("the database notifies this server of changes again")
		}
		broken, between = false, pause{}
	}
	for {
		err := d.listen(ctx, heard, healthy)
		switch {
		case ctx.Err() != nil:
			return
		case unsupported(err):
			d.log.Warn("the database does not notify servers of changes: this server sees the changes of others when it next polls", "error", explained(err))
			return
		case !broken:
			broken = true
			d.log.Warn("the connection on which the database notifies this server of changes is broken: until it is back, this server sees the changes of others when it next polls",
				"error", explained(err))
		}
		if between.wait(ctx) != nil {
			return
		}
	}
}

// listen is Listen for one connection. It calls healthy whenever the connection proves to work.
func (d *Database) listen(ctx context.Context, heard func(string), healthy func()) error {
	limited, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	conn, err := pgx.ConnectConfig(limited, d.reads.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(limited)
	}()
	if err := d.config.checkPrimary(limited, conn); err != nil {
		return err
	}
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
