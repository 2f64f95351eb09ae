package server

import (
	"context"
	"log/slog"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/storage/postgres"
)

// openTokens opens the shared PostgreSQL database, and moves the API tokens from the data folder to
// the database. The returned database has its own connections, so that a check for revoked tokens
// does not wait for other reads.
func openTokens(ctx context.Context, config Config, log *slog.Logger) (*postgres.Database, access.SharedStore, error) {
	if err := datadir.CheckNoDatabase(config.DataDir); err != nil {
		return nil, nil, err
	}
	database, err := postgres.Open(ctx, postgres.Config{URL: config.StoreURL, Logger: log, ReadOnly: config.ReadOnly, RequirePrimary: true})
	if err != nil {
		return nil, nil, err
	}
	if err := access.MoveTokens(datadir.TokenFolder(config.DataDir), database); err != nil {
		_ = database.Close()
		return nil, nil, cli.FileStateErrorf("%w", err)
	}
	if config.ReadOnly {
		return database, readOnlyTokens{database}, nil
	}
	return database, database, nil
}

// readOnlyTokens is the token store of a read-only server. Unlike the database, it does not record when
// tokens were last used.
type readOnlyTokens struct{ *postgres.Database }

func (readOnlyTokens) SetValue(context.Context, string, int64, []byte) error { return nil }
