package server

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/ledger"
	"colophon/storage/postgres"
)

// openElsewhere opens a data folder whose log is in the database at config.Store. The folder
// has the signing keys, the marks, the tokens, and the index. Another server that uses the
// same database with its own folder loses its ledgers to this one (see storage/postgres).
func openElsewhere(ctx context.Context, config Config, keys ledger.Keys, log *slog.Logger) (*Node, error) {
	if datadir.HasDatabase(config.Data) {
		return nil, cli.Exitf(cli.ExitUsage, "the folder %s has its own log; name another folder with --data, or omit --store", config.Data)
	}
	if err := os.MkdirAll(datadir.Store(config.Data), 0o700); err != nil {
		return nil, err
	}
	lock, err := folderlock.Take(datadir.Store(config.Data))
	if err != nil {
		return nil, datadir.ExplainOpen(err, config.Data)
	}
	database, err := postgres.Open(ctx, postgres.Config{URL: config.Store, Logger: log.With("part", "storage")})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	n := &Node{database: database, remote: database, lock: lock, log: log}
	if err := n.open(ctx, config, keys); err != nil {
		return nil, errors.Join(datadir.ExplainOpen(err, config.Data), n.Close())
	}
	return n, nil
}

// readOnly reports whether the database was opened for reading only, because space was low.
func (n *Node) readOnly() bool { return n.local != nil && n.local.ReadOnly() }
