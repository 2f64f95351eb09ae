package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// endSilentSessions ends sessions that block the transaction of conn while the server waits for their
// client, until the caller calls stop. A process that is suspended before it has sent all statements of a
// commit, or in the middle of a COPY, would otherwise keep the head row locked:
// idle_in_transaction_session_timeout applies only after the server has answered everything. Such a session gets as much time as that limit. Nothing is lost, because the transaction that
// it blocks raises the epoch. On engines without the functions used here, endSilentSessions does nothing.
func (d *Database) endSilentSessions(ctx context.Context, conn *pgx.Conn) (stop func(), err error) {
	var blocked int32
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&blocked); err != nil {
		return nil, err
	}
	limit := d.config.idleLimit()
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(limit):
			}
			var count int
			err := d.row(ctx, []any{&count}, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE pid = ANY (pg_blocking_pids($1)) AND state = 'active' AND wait_event = 'ClientRead'
				AND query_start < clock_timestamp() - $2::float8 * interval '1 millisecond'`, blocked, milliseconds(limit))
			if err == nil && count > 0 {
				d.log.Warn("ended a session whose client had stopped in the middle of a write", "sessions", count)
			}
		}
	})
	return func() { cancel(); ended.Wait() }, nil
}
