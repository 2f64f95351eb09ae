// Package server assembles the server process from its settings, access control, TLS, ledgers,
// index, metrics, and API.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"

	"colophon/internal/archive"
	"colophon/internal/cli"
	"colophon/internal/cluster"
	"colophon/internal/datadir"
	"colophon/internal/mirror"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/storage"
	"colophon/storage/pebble"
	"colophon/storage/postgres"
)

// Node holds what a server has open: the database, the ledgers in it, and their index.
type Node struct {
	database storage.Database
	local    *pebble.Database               // the database in the data folder; nil if the log is in PostgreSQL
	remote   *postgres.Database             // the PostgreSQL database; nil if the log is in the data folder
	lock     io.Closer                      // lock on the data folder; nil if the log is not in PostgreSQL
	cluster  *cluster.Member                // the servers that share remote; nil if remote is nil
	started  atomic.Pointer[cluster.Member] // copy of cluster that other goroutines can read
	archive  *archive.Database              // reads old entries from a bucket; nil if archiving is not enabled
	Host     *ledger.Host
	Index    *index.Store
	log      *slog.Logger
	loaded   *mirror.Database // the log that is loaded from a published copy; nil unless Config.CopyURL is set
	mirror   *mirror.Mirror   // follows the published copy while the server is serving; otherwise nil
	made     datadir.Creation
	// madeDefault is true if this process created the ledger "default".
	madeDefault bool
	version     string // version of the program, shown in the banner and by the API
	// bannerPrinted is true if the banner was printed before the data folder was reopened. It prevents
	// printing the banner twice.
	bannerPrinted bool
}

// OpenNode opens the data folder. The first start creates the folder and the ledger "default". If
// OpenNode fails because the disk is full, or fails after it opened a database without ledgers, it
// removes the folders that it created.
func OpenNode(ctx context.Context, config Config, keys ledger.KeyStore, log *slog.Logger) (*Node, error) {
	if err := datadir.CheckNoRestore(config.DataDir); err != nil {
		return nil, err
	}
	if config.CopyURL != "" {
		return openMirror(ctx, config, keys, log)
	}
	if err := datadir.CheckNotPublishedCopy(config.DataDir); err != nil {
		return nil, err
	}
	switch {
	case config.StoreURL != "":
		return openShared(ctx, config, keys, log)
	case datadir.HasExternalStore(config.DataDir):
		return nil, datadir.ExternalStoreError(config.DataDir)
	}
	made, err := datadir.Create(config.DataDir)
	if err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	database, err := pebble.Open(ctx, pebble.Config{
		Dir:                datadir.DatabaseFolder(config.DataDir),
		Logger:             log.With("part", "storage"),
		MinFreeBytes:       uint64(config.MinFreeSpace),
		CacheBytes:         int64(config.DatabaseCacheSize),
		RemoveUnusedCopies: datadir.SnapshotFolderOf(config.DataDir).RemoveLeftoverCopy,
		ReadOnlyWhenFull:   true,
	})
	if errors.Is(err, storage.ErrDamaged) {
		return nil, cli.ExitErrorf(cli.ExitDamaged, "%w\nNothing was changed. The read error may be temporary, so start the server again; if the error persists, restore the data folder from a backup", err)
	}
	if errors.Is(err, storage.ErrNoSpace) {
		return nil, errors.Join(datadir.ExplainOpenError(err, config.DataDir), made.Undo())
	}
	if err != nil {
		return nil, datadir.ExplainOpenError(err, config.DataDir)
	}
	n := &Node{database: database, local: database, log: log, made: made}
	if err := n.open(ctx, config, keys); err != nil {
		unused := n.Host == nil || len(n.Host.Ledgers()) == 0
		err = errors.Join(datadir.ExplainOpenError(err, config.DataDir), n.Close())
		if unused {
			err = errors.Join(err, made.Undo())
		}
		return nil, err
	}
	return n, nil
}

// makeSpool replaces the spool folder with an empty one. The server stores results there until
// clients have read them.
func makeSpool(data string) error {
	return errors.Join(os.RemoveAll(datadir.SpoolFolder(data)), os.MkdirAll(datadir.SpoolFolder(data), 0o700))
}

// open opens the ledgers and the index on top of the database, and creates the ledger "default"
// if necessary.
func (n *Node) open(ctx context.Context, config Config, keys ledger.KeyStore) (err error) {
	ledgerConfig := func(name string) ledger.Config {
		return ledger.Config{Clock: clock, Logger: n.log.With("ledger", name), HighWaterMarks: datadir.HighWaterMarkFiles(config.DataDir), EnableStandbyMark: n.remote != nil, RefuseOlderStandby: config.ReadOnly, LookUpKeysAhead: n.remote != nil, OnFatal: n.fatal(name)}
	}
	if err := makeSpool(config.DataDir); err != nil && !n.fullBy(err) {
		return fmt.Errorf("creating the folder for batch results: %w", err)
	}
	if err := datadir.SnapshotFolderOf(config.DataDir).Reset(); err != nil && !errors.Is(err, storage.ErrInUse) && !n.fullBy(err) {
		return fmt.Errorf("creating the folder for backup snapshots: %w", err)
	}
	if err := n.openArchive(ctx, config); err != nil {
		return err
	}
	if n.Host, err = ledger.OpenHost(ctx, n.database, keys, ledgerConfig); err != nil {
		return err
	}
	if err := n.share(ctx); err != nil {
		return err
	}
	if err := n.makeDefault(ctx, config); err != nil {
		return err
	}
	n.Index, err = query.OpenIndex(index.Config{Dir: datadir.IndexFolder(config.DataDir), Logger: n.log.With("part", "index"), MemoryBytes: int64(config.IndexCacheSize), ReadOnly: n.readOnly()})
	return err
}

// makeDefault creates the ledger "default" unless it exists or the server is read-only.
func (n *Node) makeDefault(ctx context.Context, config Config) error {
	if config.ReadOnly {
		return nil
	}
	_, err := n.Host.Ledger(ledger.DefaultName)
	if errors.Is(err, ledger.ErrUnknownLedger) {
		_, err = n.Host.Create(ctx, ledger.CreateOptions{Name: ledger.DefaultName})
		n.madeDefault = err == nil
	}
	if n.remote != nil && errors.Is(err, ledger.ErrExists) {
		return n.waitForDefault(ctx)
	}
	return err
}

// Close closes the index, the ledgers, and the database, in this order.
func (n *Node) Close() error {
	var errs []error
	if n.cluster != nil {
		n.cluster.FinishRoleChanges()
	}
	if n.Index != nil {
		errs = append(errs, n.Index.Close())
	}
	if n.Host != nil {
		errs = append(errs, n.Host.Close())
	}
	if n.cluster != nil {
		errs = append(errs, n.cluster.Close())
	}
	errs = append(errs, n.database.Close())
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}

// fullBy reports whether err means that the disk is full and the database was therefore opened for
// reading only. In that case, the server starts without the folders that it could not create.
func (n *Node) fullBy(err error) bool {
	return n.readOnly() && errors.Is(err, syscall.ENOSPC)
}
