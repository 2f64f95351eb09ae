package server

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"colophon/api"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/logurl"
	"colophon/internal/mirror"
	"colophon/ledger"
	"colophon/storage/pebble"
)

// openMirror opens a data folder for the log that is loaded from the published copy at
// config.CopyURL.
func openMirror(ctx context.Context, config Config, keys ledger.KeyStore, log *slog.Logger) (*Node, error) {
	if err := datadir.CheckPublishedCopy(config.DataDir); err != nil {
		return nil, err
	}
	at, err := logurl.Parse(config.CopyURL)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.DataDir, 0o700); err != nil {
		return nil, err
	}
	database, err := pebble.Open(ctx, pebble.Config{
		Dir:              datadir.PublishedCopyFolder(config.DataDir),
		Logger:           log.With("part", "storage"),
		MinFreeBytes:     uint64(config.MinFreeSpace),
		CacheBytes:       int64(config.DatabaseCacheSize),
		ReadOnlyWhenFull: true,
	})
	if err != nil {
		return nil, explainMirror(err, config.DataDir)
	}
	loaded := mirror.NewDatabase(database)
	n := &Node{database: loaded, loaded: loaded, local: database, log: log}
	err = n.checkMirror(ctx, at)
	if err == nil {
		err = n.open(ctx, config, keys)
	}
	if err != nil {
		return nil, errors.Join(explainMirror(err, config.DataDir), n.Close())
	}
	return n, nil
}

// explainMirror adds advice to an error from opening the copy in the data folder. If that copy is
// damaged, it can be removed and loaded again.
func explainMirror(err error, data string) error {
	if errors.Is(err, ledger.ErrDamaged) {
		return cli.ExitErrorf(cli.ExitDamaged, "%w\nRemove %s, and restart the server to load the copy again", err, datadir.PublishedCopyFolder(data))
	}
	return datadir.ExplainOpenError(err, data)
}

// checkMirror returns an error if the data folder contains a copy of a ledger other than the one at
// the given address.
func (n *Node) checkMirror(ctx context.Context, at logurl.Address) error {
	all, err := n.local.Ledgers(ctx)
	if err != nil {
		return err
	}
	for _, info := range all {
		if info.Name != at.Ledger {
			return cli.ExitErrorf(cli.ExitUsage, "the data folder contains a copy of ledger %q, but --from names ledger %q; name another folder with --data", info.Name, at.Ledger)
		}
	}
	return nil
}

// follow starts following the copy at config.CopyURL, if it is set. The returned function stops it.
func (n *Node) follow(ctx context.Context, config Config, metrics *api.Metrics) (end func(), err error) {
	if n.loaded == nil {
		return func() {}, nil
	}
	at, err := logurl.Parse(config.CopyURL)
	if err != nil {
		return nil, err
	}
	from, err := at.Source()
	if err != nil {
		return nil, err
	}
	n.mirror, err = mirror.New(ctx, n.loaded, n.Host, mirror.Options{Source: from, Ledger: at.Ledger, CopyURL: config.CopyURL, Keys: config.TrustedKeys, Logger: n.log.With("part", "mirror")})
	if errors.Is(err, mirror.ErrKeyMismatch) {
		return nil, cli.ExitErrorf(cli.ExitUsage, "%w; pass the log's key with --key if you trust it, or name another folder with --data", err)
	}
	if err != nil {
		return nil, err
	}
	metrics.Register(n.mirror)
	return n.mirror.Close, nil
}
