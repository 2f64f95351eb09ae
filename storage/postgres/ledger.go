package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"colophon/storage"
)

// ledger is the only handle on a ledger. It implements storage.Store. It does not keep the
// head, so reads see the commits of every process.
type ledger struct {
	db     *Database
	name   string
	number int64

	// mu serialises writers.
	mu    sync.Mutex
	epoch int64 // epoch in the head's row while this opening may write; 0 before the ledger is open; guarded by mu
	// doubt is the error of a write whose outcome is unknown. No write is tried until the
	// ledger is opened again. Guarded by mu.
	doubt error
}

var _ storage.Store = (*ledger)(nil)

func sortByName(all []description) {
	slices.SortFunc(all, func(a, b description) int { return cmp.Compare(a.Name, b.Name) })
}

// change is a write to one ledger.
type change struct {
	// apply makes the change in a transaction. Its first statement locks the head's row. It
	// returns errRefused if the row does not have the epoch, or does not meet another
	// condition.
	apply func(ctx context.Context, tx pgx.Tx, epoch int64) error
	// made reports whether a head shows that the change was made. If made is nil, the change
	// can be made again.
	made func(storage.Head) bool
	old  *storage.Head // head that the change builds on; nil if there is none
}

// write makes a change. The caller's context can end the write only before it begins, because
// afterwards the outcome would be unknown.
func (l *ledger) write(ctx context.Context, c change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.db.writable(ctx); err != nil {
		return err
	}
	if l.doubt != nil {
		return fmt.Errorf("the ledger must be opened again: %w", l.doubt)
	}
	ctx = context.WithoutCancel(ctx)
	err := l.attempt(ctx, c)
	if temporary(err) {
		err = l.recover(ctx, c, err)
	}
	if errors.Is(err, errRefused) {
		err = l.refused(ctx, c.old)
	}
	if errors.Is(err, errTakenOver) {
		l.doubt = err
	}
	return explained(err)
}

// recover finds out whether a write whose attempt returned err was made, and makes it if it
// was not (see the package's comment).
func (l *ledger) recover(ctx context.Context, c change, err error) error {
	l.db.unanswered.Add(1)
	ctx, cancel := context.WithTimeout(ctx, l.db.patience)
	defer cancel()
	for between := (pause{}); temporary(err); {
		l.db.log.Warn("the outcome of a write is not known yet; reading the head again", "ledger", l.name, "error", err)
		if waited := between.wait(ctx); waited != nil {
			l.doubt = fmt.Errorf("the outcome of a write is unknown, because the server has not answered for %v: %w", l.db.patience, err)
			return l.doubt
		}
		var head storage.Head
		if head, err = l.takeAgain(ctx); temporary(err) {
			continue
		}
		if err != nil {
			l.doubt = fmt.Errorf("the outcome of a write is unknown: %w", err)
			return l.doubt
		}
		if c.made != nil && c.made(head) {
			return nil
		}
		err = l.attempt(ctx, c)
	}
	return err
}

// attempt tries once to make a change.
func (l *ledger) attempt(ctx context.Context, c change) error {
	ctx, cancel := context.WithTimeout(ctx, l.db.patience)
	defer cancel()
	return inTransaction(ctx, l.db.writes, func(tx pgx.Tx) error { return c.apply(ctx, tx, l.epoch) })
}

// Two ways to take over a ledger.
const (
	takeFrom = `UPDATE colophon_heads SET epoch = epoch + 1, writer = $2 WHERE ledger = $1 AND ` + notMoved + ` RETURNING epoch`
	// takeMoving is takeFrom for a migration.
	takeMoving = `UPDATE colophon_heads SET epoch = epoch + 1, writer = $2 WHERE ledger = $1 RETURNING epoch`
	// takeOwn updates nothing if another process has the ledger.
	takeOwn = `UPDATE colophon_heads SET epoch = epoch + 1 WHERE ledger = $1 AND writer = $2 RETURNING epoch`
)

// takeAgain takes the ledger over from earlier writes of this opening. It does not spend all
// of its time on one connection.
func (l *ledger) takeAgain(ctx context.Context) (storage.Head, error) {
	ctx, cancel := context.WithTimeout(ctx, l.db.patience/4)
	defer cancel()
	return l.takeOver(ctx, takeOwn)
}

// takeOver raises the epoch and then returns the head. From then on, no transaction of an
// earlier epoch can commit (see the package's comment). The caller must hold l.mu.
func (l *ledger) takeOver(ctx context.Context, how string) (storage.Head, error) {
	var epoch int64
	err := inTransaction(ctx, l.db.writes, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, how, l.number, l.db.writer).Scan(&epoch)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return storage.Head{}, errTakenOver
	}
	if err != nil {
		return storage.Head{}, err
	}
	var row headRow
	if err := l.db.writes.QueryRow(ctx, selectHead, l.number).Scan(row.values()...); err != nil {
		return storage.Head{}, err
	}
	if row.epoch != epoch {
		return storage.Head{}, errTakenOver
	}
	head, err := row.head()
	if err != nil {
		return storage.Head{}, err
	}
	l.epoch = epoch
	return head, nil
}

// open takes the ledger over, unless this opening already has it.
func (l *ledger) open(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.db.writes == nil || l.epoch != 0 && l.doubt == nil {
		return nil
	}
	how := takeFrom
	if l.db.moving {
		how = takeMoving
	}
	_, err := l.takeOver(ctx, how)
	if errors.Is(err, errTakenOver) { // there is no row, or the ledger was taken over just now
		_, err = l.head(ctx)
		err = cmp.Or(err, errTakenOver)
	}
	if err != nil {
		return explained(err)
	}
	l.doubt = nil
	return nil
}

// errRefused: the head's row does not meet the condition of a change. Nothing was written.
var errRefused = errors.New("the head's row does not meet the condition of the write")

// refused returns the reason why the head's row did not meet the condition of a change on old.
func (l *ledger) refused(ctx context.Context, old *storage.Head) error {
	ctx, cancel := context.WithTimeout(ctx, l.db.patience)
	defer cancel()
	var row headRow
	err := l.db.writes.QueryRow(ctx, selectHead, l.number).Scan(row.values()...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: its head is missing", storage.ErrDamaged)
	case err != nil:
		return fmt.Errorf("%w: %w; reading it: %w", storage.ErrConflict, errRefused, err)
	case row.epoch != l.epoch:
		return fmt.Errorf("%w: the head has epoch %d of %s, but the write has epoch %d: %w", storage.ErrConflict, row.epoch, row.writer, l.epoch, errTakenOver)
	case row.frozen:
		return storage.ErrFrozen
	case old == nil:
		return fmt.Errorf("%w: %w", storage.ErrConflict, errRefused)
	}
	stored, err := row.head()
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the head has size %d and tip %x, but the commit builds on size %d and tip %x",
		storage.ErrConflict, stored.Size, stored.Tip[:4], old.Size, old.Tip[:4])
}

// Info implements storage.Store.
func (l *ledger) Info(ctx context.Context) (storage.Info, error) {
	found, err := l.db.describe(ctx, l.name)
	if err != nil {
		return storage.Info{}, fmt.Errorf("describing ledger %q: %w", l.name, err)
	}
	return found.Info, nil
}

// Freeze implements storage.Store.
func (l *ledger) Freeze(ctx context.Context) error {
	err := l.write(ctx, change{apply: func(ctx context.Context, tx pgx.Tx, epoch int64) error {
		tag, err := tx.Exec(ctx, `UPDATE colophon_heads SET frozen = true WHERE ledger = $1 AND epoch = $2`, l.number, epoch)
		if err == nil && tag.RowsAffected() == 0 {
			err = errRefused
		}
		if err == nil {
			_, err = tx.Exec(ctx, raiseSettings)
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
	err := l.write(ctx, change{apply: func(ctx context.Context, tx pgx.Tx, epoch int64) error {
		tag, err := tx.Exec(ctx, `SELECT epoch FROM colophon_heads WHERE ledger = $1 AND epoch = $2 FOR UPDATE`, l.number, epoch)
		if err == nil && tag.RowsAffected() == 0 {
			err = errRefused
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO colophon_settings (ledger, name, value) VALUES ($1, $2, $3)
			ON CONFLICT (ledger, name) DO UPDATE SET value = excluded.value`, l.number, name, filled(value))
		if err == nil {
			_, err = tx.Exec(ctx, raiseSettings)
		}
		return err
	}})
	if err != nil {
		return fmt.Errorf("storing setting %q of ledger %q: %w", name, l.name, err)
	}
	return nil
}

// Writable implements storage.Store. The server does not report how much space it has. A
// commit for which there is no space returns storage.ErrNoSpace.
func (l *ledger) Writable(ctx context.Context) error {
	if err := l.db.writable(ctx); err != nil {
		return fmt.Errorf("checking whether ledger %q can be written: %w", l.name, err)
	}
	return nil
}

// filled returns b, or an empty slice instead of nil, which would be stored as NULL.
func filled(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
