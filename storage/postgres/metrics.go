package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolMetrics describe the connections for reads, or those for writes.
type PoolMetrics struct {
	InUse  int32         // number of connections that are running a statement now
	Most   int32         // maximum of InUse
	Waited time.Duration // total time for which operations have waited for a connection
}

// Metrics are measurements since the database was opened.
type Metrics struct {
	Reads, Writes PoolMetrics
	// Unanswered is the number of writes whose first attempt the server did not answer.
	Unanswered uint64
}

// Metrics returns measurements. A database that is open for reading only has no Writes.
func (d *Database) Metrics() Metrics {
	m := Metrics{Reads: poolMetrics(d.reads), Unanswered: d.unanswered.Load()}
	if d.writes != nil {
		m.Writes = poolMetrics(d.writes)
	}
	return m
}

func poolMetrics(pool *pgxpool.Pool) PoolMetrics {
	s := pool.Stat()
	return PoolMetrics{InUse: s.AcquiredConns(), Most: s.MaxConns(), Waited: s.EmptyAcquireWaitTime()}
}

// DiskBytes returns the size of the tables with their indexes, dead rows included. The server
// looks at each file, so call this rarely. Other engines may not support it.
func (d *Database) DiskBytes(ctx context.Context) (int64, error) {
	var bytes int64
	err := d.row(ctx, []any{&bytes}, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
		WHERE c.relkind = 'r' AND c.relname LIKE 'colophon\_%' AND pg_table_is_visible(c.oid)`)
	if err != nil {
		return 0, fmt.Errorf("measuring the tables: %w", err)
	}
	return bytes, nil
}
