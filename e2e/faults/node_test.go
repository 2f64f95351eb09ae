package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/api"
	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/pebble"
)

// nodeConfig holds the components of a node.
type nodeConfig struct {
	database storage.Database
	// indexFiles is the file system of the index.
	indexFiles vfs.FS
	indexDir   string
	keys       ledger.KeyStore
	marks      highwater.Store // nil if there are no high-water marks
	clock      func() time.Time
	// fatal is used as ledger.Config.OnFatal.
	fatal func(error)
	log   *slog.Logger
}

// node is a server that runs in the test process. It has the same components as the server that the
// serve command runs.
type node struct {
	database storage.Database
	host     *ledger.Host
	ledger   *ledger.Ledger
	index    *index.Store

	// The fields below are set only while the node serves requests.
	server *http.Server
	url    string
	served chan error
}

// openNode opens the index and the ledger "default", which it creates if it does not exist. If
// openNode fails, it closes the database.
func openNode(ctx context.Context, c nodeConfig) (*node, error) {
	n := &node{database: c.database}
	if err := n.open(ctx, c); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *node) open(ctx context.Context, c nodeConfig) (err error) {
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	n.host, err = ledger.OpenHost(ctx, c.database, c.keys, func(string) ledger.Config {
		return ledger.Config{Clock: c.clock, OnFatal: c.fatal, Logger: c.log, HighWaterMarks: c.marks}
	})
	if err != nil {
		return err
	}
	n.ledger, err = n.host.Ledger(ledger.DefaultName)
	if errors.Is(err, ledger.ErrUnknownLedger) {
		n.ledger, err = n.host.Create(ctx, ledger.CreateOptions{Name: ledger.DefaultName})
	}
	if err != nil {
		return err
	}
	n.index, err = query.OpenIndex(index.Config{Dir: c.indexDir, FS: c.indexFiles, Logger: c.log, MemoryBytes: index.MinMemoryBytes})
	return err
}

// serve starts an HTTP server for the API on a free port and sets n.url.
func (n *node) serve() error {
	service, err := api.New(api.Config{Host: n.host, Index: n.index, Version: "test"})
	if err != nil {
		return fmt.Errorf("creating the server: %w", err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.server, n.url = service.HTTPServer(), "http://"+listener.Addr().String()
	n.served = make(chan error, 1)
	go func() { n.served <- n.server.Serve(service.LimitListener(listener)) }()
	return nil
}

// silence gracefully shuts down the HTTP server, if it is running. The node stays open.
func (n *node) silence(ctx context.Context) error {
	if n.server == nil {
		return nil
	}
	err := n.server.Shutdown(ctx)
	<-n.served
	n.server = nil
	return err
}

// follow makes the index follow the ledger without serving requests.
func (n *node) follow() (*index.Follower, error) {
	return n.index.Follow(n.ledger.Name(), n.ledger.Reader())
}

// close closes everything in the same order as the serve command does.
func (n *node) close() error {
	errs := []error{n.silence(context.Background())}
	if n.index != nil {
		errs = append(errs, n.index.Close())
	}
	if n.host != nil {
		errs = append(errs, n.host.Close())
	}
	return errors.Join(append(errs, n.database.Close())...)
}

// These sizes, in bytes, are so small that a few hundred records fill a memtable.
const (
	smallTable = 64 << 10
	smallCache = 1 << 20
)

// openPebble opens the database in the folder dir of the given file system. If log is nil, log
// messages are discarded.
func openPebble(ctx context.Context, files vfs.FS, dir string, fatal func(string), log *slog.Logger) (storage.Database, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return pebble.Open(ctx, pebble.Config{Dir: dir, FS: files, Fatal: fatal, Logger: log, MemTableBytes: smallTable, CacheBytes: smallCache})
}

// oneKey is a KeyStore that uses the same key for every ledger and stores no files.
type oneKey struct {
	mu        sync.Mutex
	confirmed bool // guarded by mu
}

// Load implements ledger.KeyStore.
func (k *oneKey) Load(string) (*proofs.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.confirmed {
		return nil, storage.ErrNotFound
	}
	return testSigner()
}

// LoadStaged implements ledger.KeyStore.
func (k *oneKey) LoadStaged(string) (*proofs.Signer, error) { return testSigner() }

// Stage implements ledger.KeyStore.
func (k *oneKey) Stage(string, *proofs.Signer) error { return nil }

// ConfirmStaged implements ledger.KeyStore.
func (k *oneKey) ConfirmStaged(string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.confirmed = true
	return nil
}

func testSigner() (*proofs.Signer, error) {
	return proofs.NewKey([32]byte{7}).Signer("test.invalid/faults")
}
