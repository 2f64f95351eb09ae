package migrate

import (
	"context"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/storage"
	"colophon/storage/postgres"
)

// postgresPlace is a PostgreSQL database that is one side of a migration. Servers cannot open the database
// while it has a postgres.MigrationLock.
type postgresPlace struct {
	console  *cli.Console
	url      string
	database *postgres.Database
}

func (p *postgresPlace) String() string {
	if p.database == nil {
		return "the database"
	}
	return "the database " + p.database.Address()
}

// open opens the database. If the database is already open, it is closed first.
func (p *postgresPlace) open(ctx context.Context, readOnly bool) (err error) {
	if err := p.close(); err != nil {
		return err
	}
	p.database, err = postgres.Open(ctx, postgres.Config{URL: p.url, Logger: p.console.WarningLogger(), IgnoreMigrationLock: true, ReadOnly: readOnly})
	return err
}

func (p *postgresPlace) mark(ctx context.Context, state postgres.MigrationState, peer place) error {
	return p.database.SetMigrationLock(ctx, postgres.MigrationLock{State: state, Peer: peer.String(), Since: time.Now().UTC().Truncate(time.Second)})
}

func (p *postgresPlace) refusal(now postgres.MigrationLock) error {
	return cli.ExitErrorf(cli.ExitFailed, "%w", &postgres.MigrationLockError{MigrationLock: now, Address: p.database.Address()})
}

func (p *postgresPlace) openSource(ctx context.Context) (storage.Database, error) {
	if err := p.open(ctx, false); err != nil {
		return nil, err
	}
	now, err := p.database.MigrationLock(ctx)
	if err == nil && now.State == postgres.MigrationArriving {
		err = p.refusal(now)
	}
	return p.database, err
}

// hold keeps servers from opening the database. A server that already has it open stops at its
// next write to a ledger that the migration has opened.
func (p *postgresPlace) hold(ctx context.Context, peer place) error {
	return p.mark(ctx, postgres.MigrationLeaving, peer)
}

func (p *postgresPlace) moved(ctx context.Context) (bool, error) {
	now, err := p.database.MigrationLock(ctx)
	return now.State == postgres.MigrationMoved, err
}

func (p *postgresPlace) openTarget(ctx context.Context, peer place, resume bool) (storage.Database, bool, error) {
	if err := p.open(ctx, false); err != nil {
		return nil, false, err
	}
	switch now, err := p.database.MigrationLock(ctx); {
	case err != nil:
		return nil, false, err
	case now.State == postgres.MigrationLeaving || now.State == postgres.MigrationMoved:
		return nil, false, p.refusal(now)
	case now.State == postgres.MigrationArriving:
		return p.database, false, nil
	}
	switch ledgers, err := p.database.Ledgers(ctx); {
	case err != nil:
		return nil, false, err
	case len(ledgers) > 0: // a server may be using the database, so open it read-only
		err := p.open(ctx, true)
		return p.database, true, err
	case resume:
		return nil, false, errMovedElsewhere
	}
	return p.database, false, p.mark(ctx, postgres.MigrationArriving, peer)
}

func (p *postgresPlace) leave(ctx context.Context, peer place) error {
	return p.mark(ctx, postgres.MigrationMoved, peer)
}

// arrive removes the migration lock. It does nothing if there is no lock.
func (p *postgresPlace) arrive(ctx context.Context) error {
	if now, err := p.database.MigrationLock(ctx); err != nil || now.State == "" {
		return err
	}
	return p.unleave(ctx)
}

func (p *postgresPlace) unarrive(ctx context.Context, peer place) (storage.Database, error) {
	if err := p.open(ctx, false); err != nil {
		return nil, err
	}
	return p.database, p.mark(ctx, postgres.MigrationArriving, peer)
}

func (p *postgresPlace) unleave(ctx context.Context) error {
	return p.database.SetMigrationLock(ctx, postgres.MigrationLock{})
}

func (p *postgresPlace) tokens() access.TokenStore {
	return access.TokenStore{SharedStore: p.database, Now: time.Now}
}

func (p *postgresPlace) close() error { return closeHeld(&p.database) }
