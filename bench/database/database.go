// Package database runs the PostgreSQL server that the contestants share, and measures the
// resources that the server uses.
package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"colophon/bench/system"
	"colophon/storage/postgres/postgrestest"
)

// Database is a PostgreSQL server that keeps its data in the folder for temporary files.
type Database struct {
	*postgrestest.Server
	schemas int
}

// Start starts a server that accepts the given number of connections. The caller must close it.
func Start(connections int) (*Database, error) {
	server, err := postgrestest.New("shared_buffers=128MB", fmt.Sprintf("max_connections=%d", connections))
	return &Database{Server: server}, err
}

// WithConnection calls f with a new connection, which it closes afterwards.
func (d *Database) WithConnection(ctx context.Context, f func(*pgx.Conn) error, options ...string) error {
	conn, err := pgx.Connect(ctx, d.URL(options...))
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close(ctx))
}

func (d *Database) exec(ctx context.Context, statements ...string) error {
	return d.WithConnection(ctx, func(conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("executing %s: %w", statement, err)
			}
		}
		return nil
	})
}

// WaitForDisk waits until everything that has been written so far is on disk.
func (d *Database) WaitForDisk(ctx context.Context) error {
	err := d.exec(ctx, "CHECKPOINT")
	unix.Sync()
	return err
}

// InSchema calls f with the name of a new schema, and with the options that make connections use
// it. Afterwards it removes the schema.
func (d *Database) InSchema(ctx context.Context, f func(schema string, options ...string) error) error {
	d.schemas++
	name := fmt.Sprintf("row%d", d.schemas)
	if err := d.exec(ctx, "CREATE SCHEMA "+name); err != nil {
		return err
	}
	return errors.Join(f(name, "search_path", name), d.exec(ctx, "SET client_min_messages = warning", "DROP SCHEMA "+name+" CASCADE"))
}

// Usage holds the resources that the server has used since it started.
type Usage struct {
	CPU time.Duration // processor time of the server's child processes
	WAL int64         // length of the write-ahead log, in bytes
}

// Usage returns the resources that the server has used since it started.
func (d *Database) Usage(ctx context.Context) (u Usage, err error) {
	pid, err := d.PID()
	if err != nil {
		return u, err
	}
	if u.CPU, err = system.ChildrenCPU(pid); err != nil {
		return u, err
	}
	err = d.WithConnection(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT (pg_current_wal_lsn() - '0/0')::bigint`).Scan(&u.WAL)
	})
	return u, err
}

// TableSizes returns the size in bytes of each table of a schema, including indexes, keyed by table
// name.
func (d *Database) TableSizes(ctx context.Context, schema string) (bytes map[string]int64, err error) {
	bytes = make(map[string]int64)
	err = d.WithConnection(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT c.relname, pg_total_relation_size(c.oid)::bigint FROM pg_class c
			JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, schema)
		if err != nil {
			return err
		}
		var name string
		var size int64
		_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error {
			bytes[name] = size
			return nil
		})
		return err
	})
	return bytes, err
}

// Waits holds the mean numbers of sessions that wait for something other than a processor.
type Waits struct {
	Locks float64 // sessions that wait for row locks, table locks, or PostgreSQL's internal locks
	Disk  float64 // sessions that wait for reads, writes, and syncs
}

// watchPause is the time between two samples of SampleWaits.
const watchPause = 20 * time.Millisecond

// SampleWaits starts sampling what the sessions wait for. The caller must call end, which stops
// the sampling and returns the means.
func (d *Database) SampleWaits(ctx context.Context) (end func() (Waits, error)) {
	ctx, stop := context.WithCancel(ctx)
	var locks, disk, looks int64
	done := make(chan error, 1)
	go func() {
		done <- d.WithConnection(ctx, func(conn *pgx.Conn) error {
			for ; ; looks++ {
				var l, s int64
				err := conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE wait_event_type IN ('Lock', 'LWLock', 'BufferPin')),
					count(*) FILTER (WHERE wait_event_type = 'IO') FROM pg_stat_activity WHERE backend_type = 'client backend'`).Scan(&l, &s)
				if err != nil {
					return err
				}
				locks, disk = locks+l, disk+s
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(watchPause):
				}
			}
		})
	}()
	return func() (Waits, error) {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			return Waits{}, fmt.Errorf("sampling what the sessions wait for: %w", err)
		}
		n := float64(max(1, looks))
		return Waits{Locks: float64(locks) / n, Disk: float64(disk) / n}, nil
	}
}
