package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage"
	"colophon/storage/postgres/notify"
)

// LedgerServer describes one of several servers that share a database.
type LedgerServer struct {
	ID string // unique among the servers; must stay the same after a restart
	// Address is the URL at which other servers can reach this one. It is empty if they cannot
	// reach it.
	Address string
}

const (
	// LeaseDuration is how long a lease lasts unless it is renewed, and how long a server counts as
	// running after its last heartbeat. A server renews its leases and sends a heartbeat every
	// LeaseDuration/6.
	LeaseDuration = 3 * time.Second
	// offerTime is how long a ledger is reserved for the server that it was offered to. No other
	// server can take it during this time.
	offerTime = 2 * time.Second
	// maxSharedIdle is the maximum value of idleLimit in a shared database. It is short so that
	// a server that is suspended in the middle of a write does not prevent another server from
	// taking the ledger (see also endSilentSessions).
	maxSharedIdle = time.Second
	// leaseConnections is the maximum number of connections for leases. They are separate, because
	// leases must not wait for reads and writes.
	leaseConnections = 3
)

var _ storage.LeasedStore = (*ledger)(nil)

// HoldsLease implements storage.LeasedStore. It always returns true if the database is not shared.
func (l *ledger) HoldsLease() bool { return l.db.leases == nil || l.held.Load() }

// Leases records which server holds the lease on each ledger of a shared database. Each lease is a
// row. It expires by the database's clock unless the server that holds it renews it. A lease only
// decides which server tries to write. The epoch in the head row, not the lease, prevents a second
// writer (see the package comment). Taking a lease raises the epoch in the same transaction. All
// methods are safe for concurrent use.
type Leases struct {
	db   *Database
	self LedgerServer
	pool *pgxpool.Pool

	notices *notify.Announcer // nil if the database is open for reading only

	mu      sync.Mutex
	ledgers map[string]*ledger // every ledger whose lease this server has ever held, by name; guarded by mu
}

func newLeases(ctx context.Context, d *Database, cfg Config) (*Leases, error) {
	config, err := cfg.parse(d.open)
	if err != nil {
		return nil, err
	}
	config.MaxConns = leaseConnections
	config.MinConns, config.MinIdleConns = 0, 0
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// If a database crash loses a renewal, the lease merely expires earlier.
		_, err := conn.Exec(ctx, `SET synchronous_commit = off`)
		return cmp.Or(err, cfg.checkPrimary(ctx, conn))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Leases{db: d, self: *cfg.LedgerServer, pool: pool, ledgers: make(map[string]*ledger)}
	if d.writes != nil {
		s.notices = notify.NewAnnouncer(pool)
	}
	return s, nil
}

func (s *Leases) close() {
	if s.notices != nil {
		s.notices.Close()
	}
	s.pool.Close()
}

// Leases returns the leases of a database that was opened with Config.LedgerServer, and nil for any
// other database.
func (d *Database) Leases() *Leases { return d.leases }

// Listen calls heard with the name of each ledger that a server on this database has changed (see
// notify.Listener.Listen).
func (d *Database) Listen(ctx context.Context, heard func(ledger string)) {
	notify.Listener{Logger: d.log, Connect: d.connect}.Listen(ctx, heard)
}

// connect opens a connection that is not part of any pool.
func (d *Database) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, d.reads.Config().ConnConfig)
	if err != nil {
		return nil, translateError(err)
	}
	if err := d.config.checkPrimary(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// ReadOnly reports whether the database is open for reading only. If so, this server cannot take
// leases.
func (s *Leases) ReadOnly() bool { return s.db.writes == nil }

// Self returns the server that was passed in Config.LedgerServer.
func (s *Leases) Self() LedgerServer { return s.self }

// CloseStaleConnections closes all database connections that were opened before the given time, if err shows
// that the database does not respond. err is an error that another method of s has returned
// repeatedly. The old connections may lead to a server that has since been replaced by another.
// Operations that use them are retried on new connections.
func (s *Leases) CloseStaleConnections(before time.Time, err error) {
	if !temporary(err) {
		return
	}
	if n := s.db.open.CloseStartedBefore(before); n > 0 {
		s.db.log.Warn("the database does not respond; reconnecting to it", "connections", n, "error", err)
	}
}

// milliseconds returns d in milliseconds, the unit of the SQL statements in this file.
func milliseconds(d time.Duration) float64 { return float64(d.Milliseconds()) }

// insert writes this server's lease into the ledger's row. conn must be in a transaction that also
// raises the epoch. insert returns false if another server holds the lease. If resume is true,
// insert can also replace the lease of an earlier run of this server. If stale is not zero, it can
// also replace a lease that still expires at exactly that time.
func (s *Leases) insert(ctx context.Context, conn *pgx.Conn, number int64, resume bool, stale time.Time) (taken bool, err error) {
	unchanged := pgtype.Timestamptz{Time: stale, Valid: !stale.IsZero()}
	tag, err := conn.Exec(ctx, `INSERT INTO colophon_leases AS l (ledger, server, writer, address, expires)
		VALUES ($1, $2, $3, $4, clock_timestamp() + $5::float8 * interval '1 millisecond')
		ON CONFLICT (ledger) DO UPDATE SET server = excluded.server, writer = excluded.writer, address = excluded.address, expires = excluded.expires
		WHERE l.expires < clock_timestamp() OR l.writer = $3 OR l.server = $2 AND (l.writer = '' OR $6::boolean) OR l.expires = $7`,
		number, s.self.ID, s.db.writer, s.self.Address, milliseconds(LeaseDuration), resume, unchanged)
	return tag.RowsAffected() > 0, err
}

// Take takes the lease on a ledger and raises the ledger's epoch. It returns storage.ErrLeaseNotHeld if
// another server holds the lease. If resume is true, Take also takes a lease that an earlier run of this
// server still holds; two running servers must therefore not have the same ID. If stale is not zero, Take
// also takes a lease that still expires at exactly that time (LedgerState.LeaseExpiry). A caller sets stale
// after it has seen that the holder no longer renews the lease. Such a lease can seem unexpired if the
// database's clock was set back.
func (s *Leases) Take(ctx context.Context, name string, resume bool, stale time.Time) error {
	store, err := s.db.Ledger(ctx, name)
	if err != nil {
		return err
	}
	l := store.(*ledger)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.takeOver(ctx, func(conn *pgx.Conn, row *headRow) error {
		taken, err := s.insert(ctx, conn, l.number, resume, stale)
		if err == nil && !taken {
			err = storage.ErrLeaseNotHeld
		}
		if err != nil {
			return err
		}
		return l.raise(ctx, takeFrom)(conn, row)
	})
	if errors.Is(err, errTakenOver) {
		err = storage.ErrLeaseNotHeld
	}
	if err != nil {
		return fmt.Errorf("taking the lease on ledger %q: %w", name, translateError(err))
	}
	l.writeErr = nil
	l.held.Store(true)
	s.note(l)
	s.notices.Announce(name)
	return nil
}

// note adds l to the ledgers whose lease this server has ever held.
func (s *Leases) note(l *ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledgers[l.name] = l
}

// held returns the ledgers whose lease this server holds, keyed by number.
func (s *Leases) held() map[int64]*ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(map[int64]*ledger)
	for _, l := range s.ledgers {
		if l.held.Load() {
			held[l.number] = l
		}
	}
	return held
}

// HoldsLease reports whether this server holds the lease on the ledger with the given name.
func (s *Leases) HoldsLease(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledgers[name]
	return l != nil && l.held.Load()
}

// Renew renews all leases that this server holds. If another server has taken a ledger, HoldsLease
// returns false for it from then on.
func (s *Leases) Renew(ctx context.Context) error {
	held := s.held()
	if len(held) == 0 {
		return nil
	}
	numbers := make([]int64, 0, len(held))
	for number := range held {
		numbers = append(numbers, number)
	}
	rows, err := s.pool.Query(ctx, `UPDATE colophon_leases SET expires = clock_timestamp() + $3::float8 * interval '1 millisecond'
		WHERE writer = $1 AND ledger = ANY ($2::bigint[]) RETURNING ledger`, s.db.writer, numbers, milliseconds(LeaseDuration))
	if err != nil {
		return fmt.Errorf("renewing leases: %w", translateError(err))
	}
	renewed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("renewing leases: %w", translateError(err))
	}
	for number, l := range held {
		if !slices.Contains(renewed, number) {
			l.held.Store(false)
		}
	}
	return nil
}

// Release gives up the lease on a ledger, so that another server can take it. If to is not nil,
// only that server can take the lease for a short time; otherwise any server can take it at once.
// No write to the ledger may be running.
func (s *Leases) Release(ctx context.Context, name string, to *LedgerServer) error {
	store, err := s.db.Ledger(ctx, name)
	if err != nil {
		return err
	}
	l := store.(*ledger)
	l.held.Store(false)
	reserved := offerTime
	if to == nil {
		to, reserved = &LedgerServer{}, -time.Second
	}
	_, err = s.pool.Exec(ctx, `UPDATE colophon_leases SET server = $3, writer = '', address = $4, expires = clock_timestamp() + $5::float8 * interval '1 millisecond'
		WHERE ledger = $1 AND writer = $2`, l.number, s.db.writer, to.ID, to.Address, milliseconds(reserved))
	if err != nil {
		return fmt.Errorf("releasing the lease on ledger %q: %w", name, translateError(err))
	}
	s.notices.Announce(name)
	return nil
}

// RunningServer describes a server whose last heartbeat is at most LeaseDuration old.
type RunningServer struct {
	LedgerServer
	Ledgers       []string  // names of the ledgers whose signing keys the server has
	LastHeartbeat time.Time // time of its last heartbeat, by the database's clock
}

// Heartbeat records that this server is running. ledgers lists the names of the ledgers that it has
// the signing keys for.
func (s *Leases) Heartbeat(ctx context.Context, ledgers []string) error {
	if ledgers == nil {
		ledgers = []string{}
	}
	_, err := s.pool.Exec(ctx, `INSERT INTO colophon_servers (id, address, ledgers, seen) VALUES ($1, $2, $3, clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET address = excluded.address, ledgers = excluded.ledgers, seen = excluded.seen`, s.self.ID, s.self.Address, ledgers)
	if err != nil {
		return fmt.Errorf("recording that this server is running: %w", translateError(err))
	}
	return nil
}

// Unregister removes this server from the list of running servers. It also removes servers whose last
// heartbeat is more than a day old.
func (s *Leases) Unregister(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM colophon_servers WHERE id = $1 OR seen < clock_timestamp() - interval '1 day'`, s.self.ID)
	return err
}

// Servers returns the servers whose last heartbeat is at most LeaseDuration old.
func (s *Leases) Servers(ctx context.Context) ([]RunningServer, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, address, ledgers, seen FROM colophon_servers WHERE seen > clock_timestamp() - $1::float8 * interval '1 millisecond'`,
		milliseconds(LeaseDuration))
	if err != nil {
		return nil, fmt.Errorf("listing the running servers: %w", translateError(err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l RunningServer, err error) {
		err = row.Scan(&l.ID, &l.Address, &l.Ledgers, &l.LastHeartbeat)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the running servers: %w", translateError(err))
	}
	return all, nil
}

// LedgerState is the state of a ledger, as seen by all servers that share the database.
type LedgerState struct {
	Name  string
	Size  uint64 // size of the stored head
	Epoch int64  // grows each time a server takes the lease
	// Version changes whenever the size of the head or a setting changes, and when the ledger is
	// frozen.
	Version string
	// LeaseHolder is the server that has the lease, or the only server that can take it now. It is
	// nil if the lease is free.
	LeaseHolder *LedgerServer
	// LeaseTaken is true if LeaseHolder has taken the lease, and false if the lease is only offered
	// to it.
	LeaseTaken bool
	// LeaseExpiry is the time at which the lease expires, by the database's clock. Each renewal changes
	// it.
	LeaseExpiry time.Time
}

// States returns the states of the ledgers with the given names, or of all ledgers if no names are
// given. The oldest ledger comes first.
func (s *Leases) States(ctx context.Context, names ...string) ([]LedgerState, error) {
	rows, err := s.pool.Query(ctx, `SELECT d.name, h.size, h.epoch, h.size::text || ' ' || h.frozen::text || ' ' || coalesce((
				SELECT md5(string_agg(s.name || '=' || encode(s.value, 'hex'), ',' ORDER BY s.name)) FROM colophon_settings s WHERE s.ledger = d.number), ''),
			coalesce(l.expires > clock_timestamp(), false), coalesce(l.server, ''), coalesce(l.address, ''), coalesce(l.writer, ''), coalesce(l.expires, 'epoch')
		FROM colophon_ledgers d JOIN colophon_heads h ON h.ledger = d.number LEFT JOIN colophon_leases l ON l.ledger = d.number
		WHERE $1::text[] IS NULL OR d.name = ANY ($1) ORDER BY d.number`, names)
	if err != nil {
		return nil, fmt.Errorf("reading leases: %w", translateError(err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (state LedgerState, err error) {
		var size int64
		var valid bool
		var holder LedgerServer
		var writer string
		err = row.Scan(&state.Name, &size, &state.Epoch, &state.Version, &valid, &holder.ID, &holder.Address, &writer, &state.LeaseExpiry)
		state.Size = uint64(size)
		if valid {
			state.LeaseHolder, state.LeaseTaken = &holder, writer != ""
		}
		return state, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading leases: %w", translateError(err))
	}
	return all, nil
}
