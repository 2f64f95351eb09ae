package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage"
	"colophon/storage/postgres/pooler"
	"colophon/storage/postgres/schema"
	"colophon/storage/postgres/sockets"
)

// Database is an open PostgreSQL database that stores ledgers. It implements storage.Database. Its
// methods are safe for concurrent use, but none may be called after Close.
type Database struct {
	reads    *pgxpool.Pool
	writes   *pgxpool.Pool // nil if the database is open for reading only
	waits    *pgxpool.Pool // see Config.pools
	writer   string        // identifies this Database in the heads that it writes
	patience time.Duration
	config   Config
	log      *slog.Logger
	closed   atomic.Bool
	open     *sockets.Set
	leases   *Leases // nil if the database is not shared; opening a ledger then takes it over

	unanswered  atomic.Uint64 // see Metrics.UnansweredWrites
	copyRefused atomic.Bool   // the server has refused a COPY

	mu      sync.Mutex
	ledgers map[string]*ledger // the ledgers opened so far, by name; guarded by mu
}

var _ storage.Database = (*Database)(nil)

// Open opens a database, and creates or converts its tables if necessary. It can return these errors:
//
//   - *ServerSettingError if the server's settings could lose commits
//   - *pooler.SharedSessionError if a pooler makes connections share sessions
//   - storage.ErrUnknownFormat if the tables belong to a later build and this build cannot use them
//   - *MigrationLockError if a migration has locked the database
func Open(ctx context.Context, cfg Config) (*Database, error) {
	d, err := open(ctx, cfg.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", translateError(err))
	}
	return d, nil
}

func open(ctx context.Context, cfg Config) (*Database, error) {
	opened := sockets.New()
	reads, writes, waits, err := cfg.pools(ctx, opened)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // for people who read the table; no code reads it
	d := &Database{
		reads:    reads,
		writes:   writes,
		waits:    waits,
		writer:   fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()),
		patience: cfg.WriteTimeout,
		config:   cfg,
		log:      cfg.Logger,
		open:     opened,
		ledgers:  make(map[string]*ledger),
	}
	err = pooler.Check(ctx, reads.Config().ConnConfig)
	if err == nil {
		err = d.prepare(ctx)
	}
	if err == nil {
		err = d.checkMigrationLock(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if cfg.LedgerServer != nil {
		if d.leases, err = newLeases(ctx, d, cfg); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		if !cfg.ReadOnly {
			d.warnAboutStandbys(ctx)
		}
	}
	return d, nil
}

// Probe checks that this build can use a database, without changing it. It returns an error if the
// database does not respond, if connections share sessions, if the server's settings could lose
// commits, or if there are tables that this build cannot use. Otherwise, it returns the number of standbys
// for which no commit waits.
func Probe(ctx context.Context, url string) (asynchronous int, err error) {
	cfg := Config{URL: url}.withDefaults()
	reads, writes, _, err := cfg.pools(ctx, sockets.New())
	if err != nil {
		return 0, err
	}
	defer reads.Close()
	defer writes.Close()
	if err := pooler.Check(ctx, reads.Config().ConnConfig); err != nil {
		return 0, translateError(err)
	}
	if err := schema.Check(ctx, writes); err != nil {
		return 0, translateError(err)
	}
	asynchronous, err = asynchronousStandbys(ctx, writes)
	return asynchronous, translateError(err)
}

// prepare checks the version of the tables. If the database is open for writing, prepare also
// creates or converts the tables. To do so, it opens the first connection for writes, which checks
// the server's settings (see prepareWrites).
func (d *Database) prepare(ctx context.Context) error {
	if d.writes != nil {
		return schema.Migrate(ctx, d.writes)
	}
	return schema.CheckComplete(ctx, d.reads)
}

// Address returns the host, port, and name of the database, for use in messages. It contains no
// password.
func (d *Database) Address() string {
	config := d.reads.Config().ConnConfig
	return fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
}

// usable returns an error if the database is closed or ctx is done.
func (d *Database) usable(ctx context.Context) error {
	if d.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// writable is like usable, but also returns an error if the database is open for reading only.
func (d *Database) writable(ctx context.Context) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	if d.writes == nil {
		return errReadOnly
	}
	return nil
}

// read calls query, which must only read. If the connection is lost, for example because the server
// was restarted, read calls query once more. It returns storage.ErrNotFound if query finds no rows.
func (d *Database) read(ctx context.Context, query func(*pgxpool.Pool) error) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	err := query(d.reads)
	if temporary(err) && !errors.Is(err, pgx.ErrNoRows) && ctx.Err() == nil {
		err = query(d.reads)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return storage.ErrNotFound
	}
	return translateError(err)
}

// row runs a query and scans its first row into values. It returns storage.ErrNotFound if there is
// no row.
func (d *Database) row(ctx context.Context, values []any, query string, arguments ...any) error {
	return d.read(ctx, func(pool *pgxpool.Pool) error {
		return pool.QueryRow(ctx, query, arguments...).Scan(values...)
	})
}

// collect runs a query and returns all its rows.
func collect[T any](ctx context.Context, d *Database, scan pgx.RowToFunc[T], query string, arguments ...any) (all []T, err error) {
	err = d.read(ctx, func(pool *pgxpool.Pool) error {
		rows, err := pool.Query(ctx, query, arguments...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

const selectInfo = `SELECT l.number, l.name, l.origin, l.created, l.reject_mismatch, h.frozen
	FROM colophon_ledgers l LEFT JOIN colophon_heads h ON h.ledger = l.number`

// description is a ledger's LedgerInfo with the number that identifies the ledger in the tables.
type description struct {
	storage.LedgerInfo
	number int64
}

func scanDescription(row pgx.CollectableRow) (d description, err error) {
	var frozen *bool
	if err := row.Scan(&d.number, &d.Name, &d.Origin, &d.Created, &d.RejectMismatch, &frozen); err != nil {
		return d, err
	}
	if frozen == nil {
		return d, fmt.Errorf("%w: the head of ledger %q is missing", storage.ErrDamaged, d.Name)
	}
	d.Frozen, d.Created = *frozen, d.Created.UTC()
	return d, nil
}

// descriptions returns the descriptions of all ledgers, sorted by name. The query does not sort
// them, because the sort order of text depends on the database.
func (d *Database) descriptions(ctx context.Context) ([]description, error) {
	all, err := collect(ctx, d, scanDescription, selectInfo)
	sortByName(all)
	return all, err
}

// Ledgers implements storage.Database.
func (d *Database) Ledgers(ctx context.Context) ([]storage.LedgerInfo, error) {
	all, err := d.descriptions(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing ledgers: %w", err)
	}
	infos := make([]storage.LedgerInfo, 0, len(all))
	for _, l := range all {
		infos = append(infos, l.LedgerInfo)
	}
	return infos, nil
}

// Ledger implements storage.Database. The first call for a ledger takes it over: other processes
// that have it open can no longer write to it. A call after a write with an unknown outcome takes
// the ledger over again. If the database is shared or open for reading only, Ledger does not take
// the ledger over.
func (d *Database) Ledger(ctx context.Context, name string) (storage.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.ledger(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("opening ledger %q: %w", name, err)
	}
	return l, nil
}

// ledger is like Ledger, but must be called with d.mu held.
func (d *Database) ledger(ctx context.Context, name string) (*ledger, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	l, opened := d.ledgers[name]
	if !opened {
		found, err := d.describe(ctx, name)
		if err != nil {
			return nil, err
		}
		l = &ledger{db: d, name: name, number: found.number}
	}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	d.ledgers[name] = l
	return l, nil
}

// describe returns the description of the ledger with the given name, or storage.ErrNotFound.
func (d *Database) describe(ctx context.Context, name string) (description, error) {
	found, err := collect(ctx, d, scanDescription, selectInfo+` WHERE l.name = $1`, name)
	if err == nil && len(found) == 0 {
		err = storage.ErrNotFound
	}
	if err != nil {
		return description{}, err
	}
	return found[0], nil
}

// CreateLedger implements storage.Database.
func (d *Database) CreateLedger(ctx context.Context, info storage.LedgerInfo) (storage.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, err := d.create(ctx, info)
	if err != nil {
		return nil, fmt.Errorf("creating ledger %q: %w", info.Name, translateError(err))
	}
	d.ledgers[info.Name] = l
	return l, nil
}

// create creates a ledger with epoch 1. If the outcome of an insert is unknown, create repeats it.
// The second insert waits until the first one has ended. If the first one succeeded, create then
// finds this database's writer ID in the head row.
func (d *Database) create(ctx context.Context, info storage.LedgerInfo) (*ledger, error) {
	if err := d.writable(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
	defer cancel()
	for between := (pause{}); ; {
		made, err := d.insert(ctx, info)
		if err == nil && !made {
			made, err = d.createdHere(ctx, info.Name)
		}
		switch {
		case err == nil && made:
			l := &ledger{db: d, name: info.Name}
			found, err := d.describe(ctx, info.Name)
			if err != nil {
				return nil, err
			}
			l.number, l.epoch = found.number, 1
			l.note(storage.Head{})
			if d.leases != nil {
				l.held.Store(true)
				d.leases.note(l)
				d.leases.notices.Announce(l.name)
			}
			return l, nil
		case err != nil && !temporary(err):
			return nil, err
		}
		if waited := between.wait(ctx); waited != nil {
			return nil, fmt.Errorf("it is unknown whether the ledger was created: %w", errors.Join(err, waited))
		}
	}
}

// insert inserts a ledger with the next number, and its head row. It returns false and inserts
// nothing if a ledger with this name exists, if another session takes the same number at the same
// time, or if a migration has locked the database.
func (d *Database) insert(ctx context.Context, info storage.LedgerInfo) (made bool, err error) {
	err = inTransaction(ctx, d.writes, func(conn *pgx.Conn) error {
		made = false
		if err := begin(ctx, conn); err != nil {
			return err
		}
		rows, err := conn.Query(ctx, `INSERT INTO colophon_ledgers (number, name, origin, created, reject_mismatch)
			SELECT coalesce(max(number), 0) + 1, $1, $2, $3, $4 FROM colophon_ledgers HAVING $5::boolean OR `+notMigrating+`
			ON CONFLICT DO NOTHING RETURNING number`, info.Name, info.Origin, info.Created.UTC(), info.RejectMismatch, d.config.IgnoreMigrationLock)
		if err != nil {
			return err
		}
		numbers, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(numbers) == 0 {
			return err
		}
		made = true
		_, err = conn.Exec(ctx, `INSERT INTO colophon_heads (ledger, epoch, writer, size, tip, time, frozen, checkpoint)
			VALUES ($1, 1, $2, 0, $3, 0, false, $4)`, numbers[0], d.writer, make([]byte, storage.HashSize), []byte{})
		if err == nil && d.leases != nil {
			_, err = d.leases.insert(ctx, conn, numbers[0], false, time.Time{})
		}
		return err
	})
	return made && err == nil, err
}

// createdHere reports whether an earlier attempt by this Database created the ledger with the given
// name. It returns storage.ErrConflict if another process created it, and false if there is no such
// ledger.
func (d *Database) createdHere(ctx context.Context, name string) (bool, error) {
	if _, opened := d.ledgers[name]; opened {
		return false, fmt.Errorf("%w: a ledger with this name already exists", storage.ErrConflict)
	}
	var writer string
	err := d.writes.QueryRow(ctx, `SELECT h.writer FROM colophon_heads h JOIN colophon_ledgers l ON h.ledger = l.number WHERE l.name = $1`, name).Scan(&writer)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, d.checkMigrationLock(ctx)
	case err == nil && writer != d.writer:
		err = fmt.Errorf("%w: a ledger with this name already exists", storage.ErrConflict)
	}
	return err == nil, err
}

// inTransaction calls change with a connection from pool; change must begin a transaction. If change also
// commits it, change must first call forgetWarning. If change leaves it open, inTransaction commits it. If
// change returns an error, inTransaction rolls back.
func inTransaction(ctx context.Context, pool *pgxpool.Pool, change func(*pgx.Conn) error) error {
	pooled, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer pooled.Release() // closes the connection if the transaction has not ended
	conn := pooled.Conn()
	if err := change(conn); err != nil {
		if !conn.IsClosed() {
			_, _ = conn.Exec(ctx, "rollback")
		}
		return err
	}
	if conn.PgConn().TxStatus() != idleStatus {
		return commit(ctx, conn)
	}
	return warningError(conn)
}

// idleStatus is the transaction status of a connection that is not in a transaction.
const idleStatus = 'I'

// acknowledged is like row, for a query that also writes a message to the write-ahead log. It
// returns only once that message is durable.
func (d *Database) acknowledged(ctx context.Context, values []any, query string, arguments ...any) error {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	return d.read(ctx, func(*pgxpool.Pool) error { return d.queryAcknowledged(ctx, values, query, arguments...) })
}

// queryAcknowledged runs the query once, without the retry that acknowledged makes.
func (d *Database) queryAcknowledged(ctx context.Context, values []any, query string, arguments ...any) error {
	pooled, err := d.waits.Acquire(ctx)
	if err != nil {
		return err
	}
	defer pooled.Release()
	forgetWarning(pooled.Conn())
	if err := pooled.QueryRow(ctx, query, arguments...).Scan(values...); err != nil {
		return err
	}
	return warningError(pooled.Conn())
}

func begin(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "begin")
	return err
}

// Close implements storage.Database. It waits until running operations have finished.
func (d *Database) Close() error {
	if d.closed.Swap(true) {
		return fmt.Errorf("closing the database: %w", errClosed)
	}
	d.reads.Close()
	if d.leases != nil {
		d.leases.close()
	}
	if d.waits != nil {
		d.waits.Close()
	}
	return nil
}
