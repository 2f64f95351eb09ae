package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
	"colophon/storage/postgres/commitrows"
)

// ledger implements storage.Store. A Database has at most one ledger for each name.
type ledger struct {
	db     *Database
	name   string
	number int64

	// durable is the newest head that the database server has acknowledged, among those that this
	// process has written or has read while taking over the ledger. It is nil until the ledger is
	// open. The head row can be newer: for example, it can show another process's commit that is
	// not yet on the standby.
	durable atomic.Pointer[storage.Head]
	// lastReadHead is the newest durable head that this server has read while another server held the
	// lease.
	lastReadHead atomic.Pointer[storage.Head]

	// mu serialises writers.
	mu    sync.Mutex
	epoch int64 // epoch in the head row while this process is the writer; 0 until the ledger is open; guarded by mu
	// writeErr is set after a write whose outcome is unknown, or once another process has taken
	// over the ledger; otherwise it is nil. While it is set, writes fail without being tried;
	// opening the ledger again clears it. It is guarded by mu.
	writeErr error
	// known has the digests of content that the latest commits since the ledger was taken over have
	// stored or referred to. It is guarded by mu.
	known commitrows.KnownContents
	// held reports whether this server holds the lease on the ledger. It is meaningful only in a
	// shared database. create sets it, and Take sets it with mu held. Release clears it, and so does
	// any method that finds that the lease is lost.
	held atomic.Bool
}

var _ storage.Archiver = (*ledger)(nil)

func sortByName(all []description) {
	slices.SortFunc(all, func(a, b description) int { return cmp.Compare(a.Name, b.Name) })
}

// change is a write to one ledger.
type change struct {
	// apply begins a transaction and makes the change. It can also commit the transaction. The first
	// statement of the transaction must lock the head row. apply returns commitrows.ErrRefused if the row does not have the given epoch or does
	// not meet another condition of the change.
	apply func(ctx context.Context, conn *pgx.Conn, epoch int64) error
	// made reports whether a head shows that the change was made. It is nil if making the change
	// twice does no harm.
	made func(storage.Head) bool
	// old is the head that the change builds on, and batch is what it commits. Both are nil if the change
	// does not depend on the head.
	old   *storage.Head
	batch *storage.Batch
}

// write makes a change. Once the write has begun, cancelling ctx does not stop it, because the
// outcome of an interrupted write would be unknown.
func (l *ledger) write(ctx context.Context, c change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.db.writable(ctx); err != nil {
		return err
	}
	if !l.HoldsLease() {
		return storage.ErrLeaseNotHeld
	}
	if l.writeErr != nil {
		return fmt.Errorf("the ledger must be reopened before it can be written to: %w", l.writeErr)
	}
	ctx = context.WithoutCancel(ctx)
	err := l.attempt(ctx, c)
	if temporary(err) {
		err = l.recover(ctx, c, err)
	}
	if errors.Is(err, commitrows.ErrRefused) {
		err = l.refused(ctx, c.old)
	}
	switch {
	case err != nil:
		l.known.Clear() // the head row may have changed
		if errors.Is(err, errTakenOver) {
			l.writeErr = err
		}
	case c.batch != nil:
		l.note(c.batch.Head)
		l.known.Add(c.batch)
	}
	if l.writeErr != nil {
		l.held.Store(false)
	}
	if err == nil && l.db.leases != nil {
		l.db.leases.notices.Announce(l.name)
	}
	return translateError(err)
}

// recover is called after an attempt at a write has returned err. It finds out whether the write
// took effect, and repeats it if it did not (see the package comment). If it cannot find out, it
// sets l.writeErr.
func (l *ledger) recover(ctx context.Context, c change, err error) error {
	l.db.unanswered.Add(1)
	ctx, cancel := context.WithTimeout(ctx, l.db.patience)
	defer cancel()
	for between := (pause{}); temporary(err); {
		l.db.log.Warn("the outcome of a write is not known yet; reading the head to find out", "ledger", l.name, "error", err)
		if waited := between.wait(ctx); waited != nil {
			l.writeErr = fmt.Errorf("the outcome of a write is unknown, because the database server has not responded for %v: %w", l.db.patience, err)
			return l.writeErr
		}
		var head storage.Head
		if head, err = l.raiseEpoch(ctx); temporary(err) {
			continue
		}
		if err != nil {
			l.writeErr = fmt.Errorf("the outcome of a write is unknown: %w", err)
			return l.writeErr
		}
		if c.made != nil && c.made(head) {
			return nil
		}
		err = l.attempt(ctx, c)
	}
	return err
}

// attempt tries once to make a change. It gives up after db.patience.
func (l *ledger) attempt(ctx context.Context, c change) error {
	ctx, cancel := context.WithTimeout(ctx, l.db.patience)
	defer cancel()
	return inTransaction(ctx, l.db.writes, func(conn *pgx.Conn) error { return c.apply(ctx, conn, l.epoch) })
}

// raiseEpoch raises the epoch, so that earlier writes of this process can no longer commit. It uses
// only a quarter of db.patience, so that the caller can try again on another connection.
func (l *ledger) raiseEpoch(ctx context.Context) (storage.Head, error) {
	ctx, cancel := context.WithTimeout(ctx, l.db.patience/4)
	defer cancel()
	return l.takeOver(ctx, l.raise(ctx, takeOwn))
}

// raise returns a function for takeOver that raises the epoch. how is one of the statements in
// takeover.go.
func (l *ledger) raise(ctx context.Context, how string) func(*pgx.Conn, *headRow) error {
	return func(conn *pgx.Conn, row *headRow) error {
		return conn.QueryRow(ctx, how, l.number, l.db.writer).Scan(row.values()...)
	}
}

// takeOver calls raise, which raises the epoch and reads the head, in a transaction. Once the
// transaction is acknowledged, takeOver returns this head, and no transaction from an earlier epoch
// can commit any more (see the package comment). The head must be read in the same transaction,
// because a separate statement could read it on another server, or read one that another process
// has written in the meantime. takeOver is called with l.mu held.
func (l *ledger) takeOver(ctx context.Context, raise func(*pgx.Conn, *headRow) error) (storage.Head, error) {
	var row headRow
	err := inTransaction(ctx, l.db.writes, func(conn *pgx.Conn) error {
		if err := begin(ctx, conn); err != nil {
			return err
		}
		stop, err := l.db.endSilentSessions(ctx, conn)
		if err != nil {
			return err
		}
		defer stop()
		return raise(conn, &row)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return storage.Head{}, errTakenOver
	}
	if err != nil {
		return storage.Head{}, err
	}
	head, err := row.head()
	if err != nil {
		return storage.Head{}, err
	}
	l.epoch = row.epoch
	l.known.Clear() // another process may have redacted records
	l.note(head)
	return head, nil
}

// note stores a copy of head in l.durable. The server must have acknowledged head.
func (l *ledger) note(head storage.Head) {
	head.Checkpoint = bytes.Clone(head.Checkpoint)
	l.durable.Store(&head)
}

// open takes over the ledger. It does nothing if this process has already done so, or if the
// database is shared or open for reading only.
func (l *ledger) open(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.db.writes == nil || l.db.leases != nil || l.epoch != 0 && l.writeErr == nil {
		return nil
	}
	how := takeFrom
	if l.db.config.IgnoreMigrationLock {
		how = takeMoving
	}
	_, err := l.takeOver(ctx, l.raise(ctx, how))
	if errors.Is(err, errTakenOver) { // there is no row, or another process has just taken over the ledger
		_, err = l.stored(ctx)
		err = cmp.Or(err, errTakenOver)
	}
	if err != nil {
		return translateError(err)
	}
	l.writeErr = nil
	return nil
}

// refused returns an error that explains why the head row did not meet a condition of a change that
// builds on old.
func (l *ledger) refused(ctx context.Context, old *storage.Head) error {
	ctx, cancel := context.WithTimeout(ctx, l.db.patience)
	defer cancel()
	var row headRow
	err := l.db.writes.QueryRow(ctx, selectHead, l.number).Scan(row.values()...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: the ledger's head is missing", storage.ErrDamaged)
	case err != nil:
		return fmt.Errorf("%w: %w, and the stored head cannot be read: %w", storage.ErrConflict, commitrows.ErrRefused, err)
	case row.epoch != l.epoch && l.db.leases != nil:
		return fmt.Errorf("%w: the head's epoch is %d (writer %s), but the write's epoch is %d: %w", storage.ErrLeaseNotHeld, row.epoch, row.writer, l.epoch, errTakenOver)
	case row.epoch != l.epoch:
		return fmt.Errorf("%w: the head's epoch is %d (writer %s), but the write's epoch is %d: %w", storage.ErrConflict, row.epoch, row.writer, l.epoch, errTakenOver)
	case row.frozen:
		return storage.ErrFrozen
	case old == nil:
		return fmt.Errorf("%w: %w", storage.ErrConflict, commitrows.ErrRefused)
	}
	stored, err := row.head()
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the head has size %d and tip %x, but the commit builds on size %d and tip %x",
		storage.ErrConflict, stored.Size, stored.Tip[:4], old.Size, old.Tip[:4])
}

// Info implements storage.Store.
func (l *ledger) Info(ctx context.Context) (storage.LedgerInfo, error) {
	found, err := l.db.describe(ctx, l.name)
	if err != nil {
		return storage.LedgerInfo{}, fmt.Errorf("reading the description of ledger %q: %w", l.name, err)
	}
	return found.LedgerInfo, nil
}

// Freeze implements storage.Store.
func (l *ledger) Freeze(ctx context.Context) error {
	err := l.write(ctx, change{apply: func(ctx context.Context, conn *pgx.Conn, epoch int64) error {
		if err := begin(ctx, conn); err != nil {
			return err
		}
		tag, err := conn.Exec(ctx, `UPDATE colophon_heads SET frozen = true WHERE ledger = $1 AND epoch = $2`, l.number, epoch)
		if err == nil && tag.RowsAffected() == 0 {
			err = commitrows.ErrRefused
		}
		return err
	}})
	if err != nil {
		return fmt.Errorf("freezing ledger %q: %w", l.name, err)
	}
	return nil
}

// SetSetting implements storage.Store.
func (l *ledger) SetSetting(ctx context.Context, name string, value []byte) error {
	err := l.write(ctx, change{apply: func(ctx context.Context, conn *pgx.Conn, epoch int64) error {
		if err := begin(ctx, conn); err != nil {
			return err
		}
		tag, err := conn.Exec(ctx, `SELECT epoch FROM colophon_heads WHERE ledger = $1 AND epoch = $2 FOR UPDATE`, l.number, epoch)
		if err == nil && tag.RowsAffected() == 0 {
			err = commitrows.ErrRefused
		}
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `INSERT INTO colophon_settings (ledger, name, value) VALUES ($1, $2, $3)
			ON CONFLICT (ledger, name) DO UPDATE SET value = excluded.value`, l.number, name, filled(value))
		return err
	}})
	if err != nil {
		return fmt.Errorf("storing setting %q of ledger %q: %w", name, l.name, err)
	}
	return nil
}

// CheckWritable implements storage.Store. It does not check the free space, because the database
// server does not report it. If there is too little space, Commit returns storage.ErrNoSpace.
func (l *ledger) CheckWritable(ctx context.Context) error {
	err := l.db.writable(ctx)
	if err == nil && !l.HoldsLease() {
		err = storage.ErrLeaseNotHeld
	}
	if err != nil {
		return fmt.Errorf("checking whether ledger %q is writable: %w", l.name, err)
	}
	return nil
}

// filled returns b, or an empty slice if b is nil, because nil would be stored as NULL.
func filled(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
