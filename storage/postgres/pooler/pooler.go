// Package pooler detects a connection pooler that shares database sessions between connections.
package pooler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// SharedSessionError means that a pooler shares database sessions between connections. A setting made on one
// connection could then apply to commits on another. One such setting is synchronous_commit, which is turned off
// on the connections for leases.
type SharedSessionError struct{}

// Error says what happened and what to do.
func (*SharedSessionError) Error() string {
	return "a pooler shares the database's sessions between connections, as in transaction mode, so the settings of one connection would apply to the commits of another; connect to the database directly, or set the pooler to session mode"
}

// checkTime is the time limit for Check.
const checkTime = 10 * time.Second

// Check returns a *SharedSessionError if this process reaches the database through a pooler that
// shares sessions between connections. Such a pooler, for example one in transaction mode, runs
// each statement in any free session. Check opens two connections. It returns the error if either
// connection switches to another session, or if both connections use the same session.
func Check(ctx context.Context, config *pgx.ConnConfig) (err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var first [2]int32 // for each connection, the ID of its first session
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
			return fmt.Errorf("checking for a pooler: %w", err)
		}
		if i == 0 && uint32(session) == conns[0].PgConn().PID() {
			return nil // the database itself accepted the connection, so there is no pooler
		}
		if first[turn] == 0 {
			first[turn] = session
		}
		if session != first[turn] || first[0] == first[1] {
			return new(SharedSessionError)
		}
	}
	return nil
}

// sessionOf returns the ID of the database session that executes a statement on conn.
func sessionOf(ctx context.Context, conn *pgx.Conn) (session int32, err error) {
	// Do not prepare the statement, because it might then run in a session in which it was not
	// prepared.
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&session)
	return session, err
}
