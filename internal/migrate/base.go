package migrate

import (
	"context"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/storage"
	"colophon/storage/postgres"
)

// base is a PostgreSQL database that is one side of a migration. Its mark (postgres.MigrationLock)
// keeps servers from opening it.
type base struct {
	console  *cli.Console
	url      string
	database *postgres.Database
}

func (b *base) String() string {
	if b.database == nil {
		return "the database"
	}
	return "the database " + b.database.Address()
}

// open opens the database. If the database is already open, it is closed first.
func (b *base) open(ctx context.Context, readOnly bool) (err error) {
	if err := b.close(); err != nil {
		return err
	}
	b.database, err = postgres.Open(ctx, postgres.Config{URL: b.url, Logger: b.console.WarningLogger(), Moving: true, ReadOnly: readOnly})
	return err
}

func (b *base) mark(ctx context.Context, state postgres.MigrationState, peer place) error {
	return b.database.SetMigrationLock(ctx, postgres.MigrationLock{State: state, Peer: peer.String(), Since: time.Now().UTC().Truncate(time.Second)})
}

func (b *base) refusal(now postgres.MigrationLock) error {
	return cli.Exitf(cli.ExitFailed, "%w", &postgres.MigrationError{MigrationLock: now, Place: b.database.Address()})
}

func (b *base) openSource(ctx context.Context) (storage.Database, error) {
	if err := b.open(ctx, false); err != nil {
		return nil, err
	}
	now, err := b.database.MigrationLock(ctx)
	if err == nil && now.State == postgres.MigrationArriving {
		err = b.refusal(now)
	}
	return b.database, err
}

// hold keeps servers from opening the database. A server that already has it open stops at its
// next write to a ledger that the migration has opened.
func (b *base) hold(ctx context.Context, peer place) error {
	return b.mark(ctx, postgres.MigrationLeaving, peer)
}

func (b *base) moved(ctx context.Context) (bool, error) {
	now, err := b.database.MigrationLock(ctx)
	return now.State == postgres.MigrationMoved, err
}

func (b *base) openTarget(ctx context.Context, peer place, resume bool) (storage.Database, bool, error) {
	if err := b.open(ctx, false); err != nil {
		return nil, false, err
	}
	switch now, err := b.database.MigrationLock(ctx); {
	case err != nil:
		return nil, false, err
	case now.State == postgres.MigrationLeaving || now.State == postgres.MigrationMoved:
		return nil, false, b.refusal(now)
	case now.State == postgres.MigrationArriving:
		return b.database, false, nil
	}
	switch ledgers, err := b.database.Ledgers(ctx); {
	case err != nil:
		return nil, false, err
	case len(ledgers) > 0: // a server may be using it
		err := b.open(ctx, true)
		return b.database, true, err
	case resume:
		return nil, false, errMovedElsewhere
	}
	return b.database, false, b.mark(ctx, postgres.MigrationArriving, peer)
}

func (b *base) leave(ctx context.Context, peer place) error {
	return b.mark(ctx, postgres.MigrationMoved, peer)
}

// arrive removes the mark. A database whose ledgers were already complete has no mark.
func (b *base) arrive(ctx context.Context) error {
	if now, err := b.database.MigrationLock(ctx); err != nil || now.State == "" {
		return err
	}
	return b.unleave(ctx)
}

func (b *base) unarrive(ctx context.Context, peer place) (storage.Database, error) {
	if err := b.open(ctx, false); err != nil {
		return nil, err
	}
	return b.database, b.mark(ctx, postgres.MigrationArriving, peer)
}

func (b *base) unleave(ctx context.Context) error {
	return b.database.SetMigrationLock(ctx, postgres.MigrationLock{})
}

func (b *base) tokens() access.Store { return access.Store{Shared: b.database, Now: time.Now} }

func (b *base) close() error { return closeHeld(&b.database) }
