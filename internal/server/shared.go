package server

import (
	"context"
	"log/slog"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/storage/postgres"
)

// openTokens opens the database that has the tokens, and moves the tokens of the data folder
// into it. The returned store has its own connections, so that a check for revoked tokens does
// not wait for other reads.
func openTokens(ctx context.Context, config Config, log *slog.Logger) (*postgres.Database, error) {
	if err := datadir.CheckElsewhere(config.Data); err != nil {
		return nil, err
	}
	database, err := postgres.Open(ctx, postgres.Config{URL: config.Store, Logger: log})
	if err != nil {
		return nil, err
	}
	if err := access.TakeOver(datadir.Access(config.Data), database); err != nil {
		_ = database.Close()
		return nil, cli.Refused("%w", err)
	}
	return database, nil
}
