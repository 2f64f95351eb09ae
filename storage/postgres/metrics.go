package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolMetrics describes a pool of connections, either for reads or for writes.
type PoolMetrics struct {
	ConnsInUse int32         // number of connections currently in use
	MaxConns   int32         // maximum number of connections
	WaitTime   time.Duration // total time that operations have waited for a connection
}

// Metrics holds measurements taken since the database was opened.
type Metrics struct {
	ReadPool, WritePool PoolMetrics
	// UnansweredWrites is the number of writes whose first attempt received no answer from the server.
	UnansweredWrites uint64
}

// Metrics returns the current measurements. Metrics.WritePool is zero if the database is open for
// reading only.
func (d *Database) Metrics() Metrics {
	m := Metrics{ReadPool: poolMetrics(d.reads), UnansweredWrites: d.unanswered.Load()}
	if d.writes != nil {
		m.WritePool = poolMetrics(d.writes)
	}
	return m
}

func poolMetrics(pool *pgxpool.Pool) PoolMetrics {
	s := pool.Stat()
	return PoolMetrics{ConnsInUse: s.AcquiredConns(), MaxConns: s.MaxConns(), WaitTime: s.EmptyAcquireWaitTime()}
}

// DiskBytes returns the size in bytes of the tables and their indexes, including dead rows. The
// server examines every file, so do not call DiskBytes often. Engines other than PostgreSQL may not
// support it.
func (d *Database) DiskBytes(ctx context.Context) (int64, error) {
	var bytes int64
	err := d.row(ctx, []any{&bytes}, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
		WHERE c.relkind = 'r' AND c.relname LIKE 'colophon\_%' AND pg_table_is_visible(c.oid)`)
	if err != nil {
		return 0, fmt.Errorf("measuring the size of the tables: %w", err)
	}
	return bytes, nil
}
