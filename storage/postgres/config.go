// Package postgres stores ledgers in a database that speaks PostgreSQL's protocol: PostgreSQL 14 or
// later, CockroachDB, or YugabyteDB. It uses plain tables and only SQL that all three engines
// document.
//
// # Fencing
//
// Each ledger has a head row, which names the ledger's current writer and epoch. A process that
// opens the ledger raises the epoch and makes itself the writer. Servers that share the database do
// this when they take the lease on the ledger (see Leases). Every transaction that writes to the
// ledger first updates or locks this row, on the condition that the row still has the writer's
// epoch; a commit also requires that the row has the size and the tip that the commit builds on. If
// the condition is not met, nothing is written. Two processes can therefore open the same ledger,
// but once the second has opened it, the first cannot write.
//
// # Unknown outcomes
//
// If the connection ends before the server answers COMMIT, the transaction may have been committed,
// or not, or the server may still be working on it. Reading the head is not enough: the read can
// happen before the transaction becomes visible, or it can show a transaction that is not yet on a
// standby and that is lost together with the primary. The store therefore first raises the epoch in
// a separate transaction, which returns the head, and uses this head only once the server has
// answered the COMMIT of that transaction. Then:
//
//   - The outcome of the old transaction is decided. If it had locked the row, raising the epoch
//     waited until it ended. If it had not locked the row, it finds a different epoch and writes
//     nothing.
//   - If the head shows the old transaction, it is as durable as the new one. Both went through
//     the same write-ahead log in this order (or, in a distributed engine, through the same
//     row), and the server has answered the later one.
//
// If this head is the one that the commit was meant to produce, the store reports success;
// otherwise it repeats the commit under the new epoch. If a server answers COMMIT with a warning,
// as PostgreSQL does when the wait for a standby is cancelled, the commit does not count as
// acknowledged.
//
// Opening a ledger works the same way. Head returns the head that this process knows to be durable,
// not the head in the row, because another process could have changed the row since.
// storage/postgres/model searches for interleavings of events that would violate this argument.
//
// If another process has taken over the ledger in the meantime, or if the database server does not
// respond in time, the outcome stays unknown, and the caller must stop writing.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage/postgres/commitrows"
	"colophon/storage/postgres/notify"
	"colophon/storage/postgres/sockets"
)

// Config holds the options for opening a database.
type Config struct {
	// URL is a connection string in the format of pgx:
	// postgres://user:password@host:port/database?options. The tables are in the first schema of
	// its search_path. The pool_max_conns option limits the number of connections for reads. The
	// URL may name several hosts (host:port,host:port); each connection then goes to the host that
	// accepts writes.
	URL string
	// Logger receives the database's log messages; nil means slog.Default().
	Logger *slog.Logger
	// WriteTimeout is the timeout for a write, and also the timeout for finding out whether a failed
	// write took effect. After the second timeout, the outcome stays unknown. 0 means one minute
	// for each.
	WriteTimeout time.Duration
	// LedgerServer identifies this server if several servers share the database. The server then
	// takes over a ledger by calling Leases.Take. If LedgerServer is nil, opening a ledger takes it
	// over.
	LedgerServer *LedgerServer
	// ReadOnly opens an existing database without taking over its ledgers. Every write fails.
	ReadOnly bool
	// RequirePrimary requires the database server to be a primary. Connecting to a server that is in
	// recovery fails with ErrStandby.
	RequirePrimary bool
	// IgnoreMigrationLock allows opening a database that a migration has locked (see MigrationLock). Only the
	// colophon migrate command sets it.
	IgnoreMigrationLock bool

	copyMinEvents int // 0 means commitrows.CopyMinEvents; set only by tests
}

// IsURL reports whether text begins with the scheme of a PostgreSQL URL, as Config.URL does.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

const (
	defaultPatience = time.Minute
	// writeConnections is the maximum number of connections for writes. They are separate from
	// those for reads, so that reads cannot delay commits. Each write uses one connection.
	writeConnections = 4
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = defaultPatience
	}
	if c.copyMinEvents == 0 {
		c.copyMinEvents = commitrows.CopyMinEvents
	}
	return c
}

// connectTime is the time limit for connecting to a host if the URL names several hosts and does
// not set connect_timeout. After that, the next host is tried.
const connectTime = 2 * time.Second

// parse returns the pool configuration for the URL. If the URL names several hosts, the first
// connection goes to the first host that answers and accepts writes, and later connections go to
// the same host until it fails. If the database is opened for reading only, the host need not
// accept writes.
func (c Config) parse(open *sockets.Set) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, err
	}
	connect := config.ConnConfig
	if slices.ContainsFunc(connect.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != connect.Host || f.Port != connect.Port }) {
		if connect.ConnectTimeout == 0 {
			connect.ConnectTimeout = connectTime
		}
		if connect.ValidateConnect == nil && !c.ReadOnly {
			connect.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}
	}
	connect.DialFunc = open.WrapDial(connect.DialFunc, connect.ConnectTimeout)
	connect.ConnectTimeout = 0 // pgx's own timeout would include the wait for other connections
	connect.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error { return open.MarkOpened(conn.Conn()) }
	return config, nil
}

// pools opens the connection pools: one for reads, one for writes, and one for waiting until a head
// that was read is durable. If the database is opened for writing, writes and waits are the same
// pool. If it is opened for reading only, writes is nil, and waits is nil too unless other servers
// write to the database.
func (c Config) pools(ctx context.Context, open *sockets.Set) (reads, writes, waits *pgxpool.Pool, err error) {
	config, err := c.parse(open)
	if err != nil {
		return nil, nil, nil, err
	}
	ready := func(prepare func(context.Context, *pgx.Conn) error) func(context.Context, *pgx.Conn) error {
		return func(ctx context.Context, conn *pgx.Conn) error {
			err := prepare(ctx, conn)
			if err == nil {
				open.MarkReady(conn.PgConn().Conn())
			}
			return err
		}
	}
	config.AfterConnect = ready(c.prepareReads)
	if reads, err = pgxpool.NewWithConfig(ctx, config); err != nil || c.ReadOnly && c.LedgerServer == nil {
		return reads, nil, nil, err
	}
	config = config.Copy()
	config.MaxConns = writeConnections
	config.MinConns, config.MinIdleConns = 0, 0
	config.ConnConfig.OnNotice = noteWarning
	config.AfterConnect = ready(func(ctx context.Context, conn *pgx.Conn) error {
		return cmp.Or(c.prepareReads(ctx, conn), c.prepareWrites(ctx, conn))
	})
	if waits, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		reads.Close()
		return nil, nil, nil, err
	}
	if !c.ReadOnly {
		writes = waits
	}
	return reads, writes, waits, nil
}

// prepareReads prepares a new connection for reads. For a command that only reads, it does not call
// useIndexes, because index scans do not suit that command's queries.
func (c Config) prepareReads(ctx context.Context, conn *pgx.Conn) error {
	if err := c.checkPrimary(ctx, conn); err != nil || c.ReadOnly && c.LedgerServer == nil {
		return err
	}
	return useIndexes(ctx, conn)
}

// ErrStandby means that the database server is in recovery, and therefore a standby. It is returned
// only if Config.RequirePrimary is set.
var ErrStandby = errors.New("the database server is a standby (pg_is_in_recovery), which can lack records that the primary has acknowledged; " +
	"use the primary's address in the URL, and add target_session_attrs=primary if the URL lists several hosts")

// checkPrimary returns ErrStandby if Config.RequirePrimary is set and the server is in recovery. Checking
// each new connection is enough, because a server closes its connections before it becomes a
// standby.
func (c Config) checkPrimary(ctx context.Context, conn *pgx.Conn) error {
	if !c.RequirePrimary {
		return nil
	}
	var standby bool
	err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby)
	switch {
	case notify.IsUnsupported(err): // the engine has no standbys
		return nil
	case err != nil:
		return fmt.Errorf("checking whether the database server is a standby: %w", err)
	case standby:
		return ErrStandby
	}
	return nil
}

// useIndexes makes PostgreSQL plan each statement once and use only index scans. Every statement in
// this package has a suitable index. Without these settings, PostgreSQL would plan a statement
// again for each short list of values. For longer lists, it could keep a plan that scans the whole
// table because the table was small when the plan was made. Settings that the engine does not have
// are skipped.
func useIndexes(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config(s.name, v.value, false) FROM pg_settings s JOIN (VALUES
		('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan')
	) AS v (name, value) ON v.name = s.name`)
	if err != nil {
		return fmt.Errorf("configuring the query planner: %w", err)
	}
	return nil
}

// idleLimit returns how long a transaction may be idle before the server ends it. Without this
// limit, a client that disappears without closing its connection would leave the head row locked,
// and raising the epoch would have to wait.
func (c Config) idleLimit() time.Duration {
	if c.LedgerServer != nil { // another server may be waiting for the row
		return min(maxSharedIdle, c.WriteTimeout/8)
	}
	return min(10*time.Second, c.WriteTimeout/8)
}

// prepareWrites checks the server settings that commits depend on. It does so for each new
// connection, because the server may have been restarted with other settings. It then sets
// synchronous_commit for the connection, so that later configuration changes do not affect it.
func (c Config) prepareWrites(ctx context.Context, conn *pgx.Conn) error {
	var commit, standbys, fsync, fullPages *string // nil if the engine does not have the setting
	err := conn.QueryRow(ctx, `SELECT current_setting('synchronous_commit', true), current_setting('synchronous_standby_names', true),
			current_setting('fsync', true), current_setting('full_page_writes', true)`).
		Scan(&commit, &standbys, &fsync, &fullPages)
	if err != nil {
		return fmt.Errorf("reading the settings of the database server: %w", err)
	}
	const off, local = "off", "local"
	for _, setting := range []struct {
		name   string
		value  *string
		effect string
	}{
		{"synchronous_commit", commit, "the server would confirm commits that a crash could lose"},
		{"fsync", fsync, "a power failure could lose confirmed commits or damage the database"},
		{"full_page_writes", fullPages, "a power failure could damage pages of the database"},
	} {
		if setting.value != nil && *setting.value == off {
			return &ServerSettingError{Name: setting.name, Value: off, effect: setting.effect}
		}
	}
	if commit != nil {
		if *commit == local {
			if standbys != nil && *standbys != "" {
				return &ServerSettingError{Name: "synchronous_commit", Value: local, effect: "commits would not wait for the standbys in synchronous_standby_names, so a promotion could lose confirmed commits"}
			}
			*commit = "on" // which also waits for standbys that are named later
		}
		if _, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', $1, false)`, *commit); err != nil {
			return fmt.Errorf("setting synchronous_commit for the connection: %w", err)
		}
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf(`SET idle_in_transaction_session_timeout = %d`, c.idleLimit().Milliseconds())); err != nil {
		return fmt.Errorf("setting idle_in_transaction_session_timeout: %w", err)
	}
	return nil
}

// ServerSettingError reports a setting of the database server with which a crash, a power failure, or a
// promotion could lose confirmed commits, or damage the database.
type ServerSettingError struct {
	Name   string // name of the setting
	Value  string // value that it has, such as "off"
	effect string
}

// Error says what could be lost and how to fix the setting.
func (e *ServerSettingError) Error() string {
	return fmt.Sprintf("the database server's setting %s is %s: %s; turn it on for this server, database, and role", e.Name, e.Value, e.effect)
}

// warningKey is the key in a connection's custom data for the last warning that the server sent.
const warningKey = "colophon.warned"

// noteWarning stores a warning from the server in the connection's custom data.
func noteWarning(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if severity := notice.SeverityUnlocalized; severity == "WARNING" || severity == "" {
		conn.CustomData()[warningKey] = notice.Message
	}
}

// forgetWarning removes the warning that noteWarning has stored.
func forgetWarning(conn *pgx.Conn) { delete(conn.PgConn().CustomData(), warningKey) }

// warningError returns errUnacknowledged if noteWarning has stored a warning since the last call of
// forgetWarning.
func warningError(conn *pgx.Conn) error {
	if warning, is := conn.PgConn().CustomData()[warningKey]; is {
		return fmt.Errorf("%w: %v", errUnacknowledged, warning)
	}
	return nil
}

// errUnacknowledged means that the server answered a COMMIT with a warning, so the commit may not
// be durable.
var errUnacknowledged = errors.New("the database server answered COMMIT with a warning, so the commit may not be durable")

// commit commits the open transaction of conn. If it returns an error that was not reported by the
// server, the outcome is unknown.
func commit(ctx context.Context, conn *pgx.Conn) error {
	forgetWarning(conn)
	tag, err := conn.Exec(ctx, "commit")
	if err != nil {
		return err
	}
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return warningError(conn)
}
