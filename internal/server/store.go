package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"colophon/internal/cli"
	"colophon/internal/cluster"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/internal/safefile"
	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/storage/postgres"
)

// openShared opens a data folder whose log is in the database at config.StoreURL. The folder
// contains the signing keys, the high-water marks, and the index. Other servers, which have their
// own folders, share the database.
func openShared(ctx context.Context, config Config, keys ledger.KeyStore, log *slog.Logger) (*Node, error) {
	if err := datadir.CheckNoDatabase(config.DataDir); err != nil {
		return nil, err
	}
	if err := safefile.MkdirAll(datadir.ExternalStoreMarker(config.DataDir)); err != nil {
		return nil, err
	}
	lock, err := folderlock.Take(datadir.ExternalStoreMarker(config.DataDir))
	if err != nil {
		return nil, datadir.ExplainOpenError(err, config.DataDir)
	}
	id, err := serverID(config.DataDir)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	self := postgres.LedgerServer{ID: id, Address: config.AdvertiseAddress}
	database, err := postgres.Open(ctx, postgres.Config{URL: config.StoreURL, Logger: log.With("part", "storage"), LedgerServer: &self, ReadOnly: config.ReadOnly, RequirePrimary: true})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	n := &Node{database: database, remote: database, lock: lock, log: log}
	if err := n.open(ctx, config, keys); err != nil {
		if config.ReadOnly && errors.Is(err, highwater.ErrRollback) {
			err = cli.ExitErrorf(cli.ExitDamaged, "%w\nThis server has already served a newer log, so it does not serve the older one. Find out which log is correct; to accept the log in the store, remove %s", err, datadir.HighWaterMarkFiles(config.DataDir).Dir)
		}
		return nil, errors.Join(datadir.ExplainOpenError(err, config.DataDir), n.Close())
	}
	return n, nil
}

// readOnly reports whether the database was opened for reading only because disk space was low.
func (n *Node) readOnly() bool { return n.local != nil && n.local.ForcedReadOnly() }

// serverID returns the ID that identifies this server among the servers that share its database. It
// is chosen at random on the first start. The caller must hold the lock on the folder.
func serverID(data string) (string, error) {
	path := filepath.Join(datadir.ExternalStoreMarker(data), "server")
	text, err := safefile.ReadPrivate(path)
	if err == nil && strings.TrimSpace(string(text)) != "" {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the server ID: %w", err)
	}
	id := rand.Text()
	if err := safefile.Replace(path, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("storing the server ID: %w", err)
	}
	return id, nil
}

// share starts sharing the ledgers with the other servers that use the same PostgreSQL database. It
// does nothing if the log is in the data folder.
func (n *Node) share(ctx context.Context) (err error) {
	if n.remote == nil {
		return nil
	}
	started, err := cluster.Start(ctx, n.remote, n.Host, n.log.With("part", "cluster"))
	if err != nil {
		return fmt.Errorf("taking over the ledgers of the store: %w", err)
	}
	n.cluster = started
	n.started.Store(started)
	return nil
}

// fatal returns the function that a ledger calls when it can no longer write. For a ledger in a
// shared database, the function makes the server reopen the ledger for reading.
func (n *Node) fatal(name string) func(error) {
	if n.remote == nil {
		return nil // nil selects the default: the process exits
	}
	return func(err error) {
		n.log.Warn("this server can no longer write to the ledger; reopening the ledger for reading", "ledger", name, "error", err)
		if c := n.started.Load(); c != nil {
			c.Wake()
		}
	}
}

// writerAddress returns a function that returns the address of the server that writes a ledger. If this
// server does not share its database, writerAddress returns nil.
func (n *Node) writerAddress() func(ledger string) (address string, ok bool) {
	if n.cluster == nil {
		return nil
	}
	return n.cluster.WriterAddress
}

// stalenessError returns a function that reports why a read-only server might show outdated
// ledgers. It returns nil for a server that writes.
func (n *Node) stalenessError(config Config) func() error {
	switch {
	case n.mirror != nil:
		return n.mirror.StalenessError
	case config.ReadOnly && n.cluster != nil:
		return n.cluster.StalenessError
	}
	return nil
}

// defaultWait is how long a starting server waits for another server to create the first ledger.
const defaultWait = 10 * time.Second

// waitForDefault waits until the ledger "default", which another server is creating, can be
// read.
func (n *Node) waitForDefault(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, defaultWait)
	defer cancel()
	for {
		_, err := n.Host.Ledger(ledger.DefaultName)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another server is creating the ledger %q and has not finished: %w", ledger.DefaultName, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// advertise returns the URL at which other servers reach this one, or "" if there is none.
func advertise(config Config, scheme string, listening net.Addr, log *slog.Logger) string {
	if config.StoreURL == "" {
		return ""
	}
	if config.AdvertiseAddress != "" {
		return advertised(config.AdvertiseAddress, scheme)
	}
	host, _, err := net.SplitHostPort(listening.String())
	if ip := net.ParseIP(host); err != nil || ip != nil && ip.IsUnspecified() {
		log.Warn("other servers on the same store cannot reach this server: set its address with --advertise", "listen", listening.String())
		return ""
	}
	return scheme + "://" + listening.String()
}

// advertised returns the URL of an address, which is host:port or a URL. It returns "" for any
// other text.
func advertised(address, scheme string) string {
	if !strings.Contains(address, "://") {
		address = scheme + "://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
