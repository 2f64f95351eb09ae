// Package database runs the PostgreSQL server that contestants share, and measures what it uses.
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

// Database is a PostgreSQL server in the folder for temporary files.
type Database struct {
	*postgrestest.Server
	schemas int
}

// Start starts a server that accepts this number of connections. The caller closes it.
func Start(connections int) (*Database, error) {
	server, err := postgrestest.New("shared_buffers=128MB", fmt.Sprintf("max_connections=%d", connections))
	return &Database{Server: server}, err
}

// Connected calls f with a connection.
func (d *Database) Connected(ctx context.Context, f func(*pgx.Conn) error, options ...string) error {
	conn, err := pgx.Connect(ctx, d.URL(options...))
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close(ctx))
}

func (d *Database) exec(ctx context.Context, statements ...string) error {
	return d.Connected(ctx, func(conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
}

// Rest returns once what was written before is on the disk.
func (d *Database) Rest(ctx context.Context) error {
	err := d.exec(ctx, "CHECKPOINT")
	unix.Sync()
	return err
}

// InSchema calls f with the options of connections to a new schema, which it removes afterwards.
func (d *Database) InSchema(ctx context.Context, f func(schema string, options ...string) error) error {
	d.schemas++
	name := fmt.Sprintf("row%d", d.schemas)
	if err := d.exec(ctx, "CREATE SCHEMA "+name); err != nil {
		return err
	}
	return errors.Join(f(name, "search_path", name), d.exec(ctx, "SET client_min_messages = warning", "DROP SCHEMA "+name+" CASCADE"))
}

// Usage is what the server has used so far.
type Usage struct {
	CPU time.Duration // of all its processes
	WAL int64         // length of the write-ahead log, in bytes
}

// Usage returns what the server has used so far.
func (d *Database) Usage(ctx context.Context) (u Usage, err error) {
	pid, err := d.PID()
	if err != nil {
		return u, err
	}
	if u.CPU, err = system.ChildrenCPU(pid); err != nil {
		return u, err
	}
	err = d.Connected(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT (pg_current_wal_lsn() - '0/0')::bigint`).Scan(&u.WAL)
	})
	return u, err
}

// Tables returns the bytes of all tables of a schema, with their indexes.
func (d *Database) Tables(ctx context.Context, schema string) (bytes int64, err error) {
	err = d.Connected(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
			JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, schema).Scan(&bytes)
	})
	return bytes, err
}
