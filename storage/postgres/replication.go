package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage/postgres/notify"
)

// asynchronousStandbys returns the number of standbys that follow the database server if no commit waits
// for any standby (synchronous_standby_names is empty), and 0 otherwise. If one of them is promoted,
// records that the primary has confirmed can be lost. The number includes pg_receivewal, but neither base
// backups nor logical replication. A role that may not see what a replication connection does counts it as a
// standby.
func asynchronousStandbys(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	err = pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_replication
		WHERE current_setting('synchronous_standby_names', true) = '' AND coalesce(state, 'streaming') IN ('catchup', 'streaming')
		AND pid NOT IN (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)`).Scan(&n)
	switch {
	case notify.IsUnsupported(err): // the engine has no standbys
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("looking for standbys of the database server: %w", err)
	}
	return n, nil
}

// warnAboutStandbys writes a warning to the log if there are asynchronous standbys. A server starts
// nevertheless, because a standby that is never promoted loses nothing.
func (d *Database) warnAboutStandbys(ctx context.Context) {
	n, err := asynchronousStandbys(ctx, d.writes)
	switch {
	case err != nil:
		d.log.Warn("cannot find out whether commits wait for the database server's standbys", "error", err)
	case n > 0:
		d.log.Warn("commits do not wait for the database server's standbys (synchronous_standby_names is empty); if a standby is promoted, confirmed records can be lost", "standbys", n)
	}
}
