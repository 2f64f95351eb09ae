package server

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/ledger"
	"colophon/storage/postgres"
)

// openElsewhere opens a data folder whose log is in the database at config.Store. The folder
// has the signing keys, the marks, and the index. Another server that uses the
// same database with its own folder loses its ledgers to this one (see storage/postgres).
func openElsewhere(ctx context.Context, config Config, keys ledger.Keys, log *slog.Logger) (*Node, error) {
	if err := datadir.CheckElsewhere(config.Data); err != nil {
		return nil, err
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
	n.settings = followSettings(n.Host, database, log)
	return n, nil
}

// readOnly reports whether the database was opened for reading only, because space was low.
func (n *Node) readOnly() bool { return n.local != nil && n.local.ReadOnly() }
