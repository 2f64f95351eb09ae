// Package pooler detects a pooler that shares the sessions of a database between connections.
package pooler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Error reports a pooler that shares the sessions of the database between connections. A
// setting of one connection would then apply to the commits of another one. One such setting is
// synchronous_commit, which the connections for leases turn off.
type Error struct{}

// Error says what happened and what to do.
func (*Error) Error() string {
	return "a pooler shares the database's sessions between connections, as in transaction mode, so settings of one connection would apply to commits of another one; connect to the database itself, or set the pooler to session mode"
}

// checkTime limits how long Check waits for the database.
const checkTime = 10 * time.Second

// Check returns an Error if a pooler is between this process and the database and shares
// sessions. A pooler in transaction mode runs each statement in any free session. It is
// detected because one of two open connections moves to another session, or because both have
// the same one.
func Check(ctx context.Context, config *pgx.ConnConfig) (err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var first [2]int32 // number of each connection's session at first
	var conns [2]*pgx.Conn
	for i, turn := range []int{0, 0, 1, 0, 1, 1, 0} {
		if conns[turn] == nil {
			if conns[turn], err = pgx.ConnectConfig(ctx, config); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, conns[turn].Close(context.WithoutCancel(ctx))) }()
		}
		session, err := sessionOf(ctx, conns[turn])
		if err != nil {
			return fmt.Errorf("looking for a pooler: %w", err)
		}
		if i == 0 && uint32(session) == conns[0].PgConn().PID() {
			return nil // the database itself has accepted the connection, so there is no pooler
		}
		if first[turn] == 0 {
			first[turn] = session
		}
		if session != first[turn] || first[0] == first[1] {
			return new(Error)
		}
	}
	return nil
}

// sessionOf returns the number of the database session that executes a statement of a
// connection.
func sessionOf(ctx context.Context, conn *pgx.Conn) (session int32, err error) {
	// A prepared statement is avoided, because another session might not have it.
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&session)
	return session, err
}
