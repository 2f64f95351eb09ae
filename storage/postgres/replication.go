package postgres

import (
	"context"
	"fmt"

	"colophon/storage/postgres/notify"
)

// AsynchronousStandbys returns the number of standbys that follow the database server if no commit waits
// for any standby (synchronous_standby_names is empty), and 0 otherwise. If one of them is promoted,
// records that the primary has confirmed can be lost. Base backups do not count. A role that may not see
// what a replication connection does counts it as a standby.
func (d *Database) AsynchronousStandbys(ctx context.Context) (n int, err error) {
	err = d.row(ctx, []any{&n}, `SELECT count(*) FROM pg_stat_replication
		WHERE current_setting('synchronous_standby_names', true) = '' AND coalesce(state, 'streaming') IN ('catchup', 'streaming')`)
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
	n, err := d.AsynchronousStandbys(ctx)
	switch {
	case err != nil:
		d.log.Warn("cannot find out whether commits wait for the database server's standbys", "error", err)
	case n > 0:
		d.log.Warn("commits do not wait for the database server's standbys (synchronous_standby_names is empty); if a standby is promoted, confirmed records can be lost", "standbys", n)
	}
}
