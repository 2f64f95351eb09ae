package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// PoolerError reports a pooler that shares the sessions of the database between connections. A
// setting of one connection would then apply to the commits of another one, among them
// synchronous_commit, which the connections for leases switch off.
type PoolerError struct{}

// Error says what to do.
func (*PoolerError) Error() string {
	return "a pooler shares the database's sessions between connections, as in transaction mode, so settings of one connection would apply to commits of another one; connect to the database itself, or set the pooler to session mode"
}

// poolerTime bounds how long checkPooler waits for the database.
const poolerTime = 10 * time.Second

// checkPooler returns a PoolerError if a pooler is between this process and the database and
// shares sessions. A pooler in transaction mode gives each statement to a session that is free.
// So one of two open connections moves to another session, or both have the same one.
func checkPooler(ctx context.Context, config *pgx.ConnConfig) (err error) {
	ctx, cancel := context.WithTimeout(ctx, poolerTime)
	defer cancel()
	var first [2]int32 // number of the session that each connection had first
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
			return nil // the database itself has accepted this connection
		}
		if first[turn] == 0 {
			first[turn] = session
		}
		if session != first[turn] || first[0] == first[1] {
			return new(PoolerError)
		}
	}
	return nil
}

// sessionOf returns the number of the database's session that executes a statement of a
// connection.
func sessionOf(ctx context.Context, conn *pgx.Conn) (session int32, err error) {
	// Without a prepared statement, which another session might not have.
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&session)
	return session, err
}
