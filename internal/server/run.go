package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colophon/api"
	"colophon/api/admin"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/memory"
	"colophon/internal/openfiles"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/storage"
)

// Run runs a server until ctx is done, and prints a banner when the server is ready. If the server had
// to start read-only because the disk was full, Run reopens the data folder for writing once there is
// space.
func Run(ctx context.Context, c *cli.Console, config Config, version string) (err error) {
	if err := datadir.CheckNoForeignFiles(config.DataDir); err != nil {
		return err
	}
	if err := datadir.CheckPermissions(config.DataDir); err != nil {
		return err
	}
	log := newLogger(c, config)
	g, err := openGate(ctx, config, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	if config.CopyURL != "" {
		if config.TrustedKeys, err = c.ReadCurrentKeys(config.CopyVerifierKey); err != nil {
			return err
		}
	}
	config = config.WithDefaultCacheSizes(memory.UsableBytes())
	defer reserveOffHeap(index.OffHeapBytes(int64(config.IndexCacheSize)))()
	defer paceGarbage(c.LookupEnv)()
	at, busy := openAddresses(config)
	defer at.close()
	if busy != nil && !datadir.HasDatabase(config.DataDir) {
		return busy // return before the server creates anything
	}
	if at.server != nil {
		config.AdvertiseAddress = advertise(config, g.scheme(), at.server.Addr(), log)
	}
	// Open the folder before reporting that the address is in use: a second server on the same
	// folder must report that the folder is in use.
	node, err := OpenNode(ctx, config, datadir.SigningKeys(c, config.DataDir), log)
	if errors.Is(err, context.Canceled) {
		return nil // the server was told to stop before it began to serve
	}
	if err != nil {
		return err
	}
	if busy != nil {
		return errors.Join(busy, node.Close())
	}
	node.version = version
	for {
		err := node.Serve(ctx, c, config, g, at.shared())
		if !errors.Is(err, errWritable) {
			if err := errors.Join(err, node.Close()); err != nil {
				return err
			}
			log.Info("stopped")
			return nil
		}
		log.Info("disk space is available again: reopening the data folder for writing")
		if err := node.Close(); err != nil {
			return err
		}
		node, err = OpenNode(ctx, config, datadir.SigningKeys(c, config.DataDir), log)
		if errors.Is(err, context.Canceled) {
			return nil // the server was told to stop before it began to serve again
		}
		if err != nil {
			return err
		}
		node.bannerPrinted, node.version = true, version
	}
}

func newLogger(c *cli.Console, config Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: config.LogLevel.Level}
	if config.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(c.Err, options))
	}
	return slog.New(slog.NewTextHandler(c.Err, options))
}

// Serve serves requests until ctx is done, and then finishes the requests in progress. If the database
// was opened for reading only, Serve also stops when there is enough space to open the database for
// writing. It then returns errWritable.
func (n *Node) Serve(ctx context.Context, c *cli.Console, config Config, g gate, at addresses) error {
	metrics := api.NewMetrics(prometheus.NewRegistry())
	if n.cluster != nil {
		metrics.Register(n.cluster)
	}
	var snapshot admin.SnapshotFunc // nil for a PostgreSQL database, which has its own backups
	if n.local == nil {
		metrics.Register(&databaseCollector{database: n.remote, log: n.log})
	} else {
		metrics.Register(storageCollector{n.local, n.log})
		snapshot = func(ctx context.Context) (string, int, error) {
			return datadir.SnapshotFolderOf(config.DataDir).CopyForBackupProcess(ctx, n.local)
		}
	}
	if n.archive != nil {
		metrics.Register(n.archive)
	}
	endMirror, err := n.follow(ctx, config, metrics)
	if err != nil {
		return err
	}
	defer endMirror()
	endCopies, err := n.publish(config.Settings, metrics)
	if err != nil {
		return err
	}
	defer endCopies()
	if err := n.configureIndexFetch(c, config); err != nil {
		return err
	}
	service, err := api.New(api.Config{
		Host: n.Host, Index: n.Index, Logger: n.log, Metrics: metrics, Version: n.version, Authenticator: g.who,
		AllowedHosts: api.AllowedHosts(config.AllowedHosts), NoMetricsRoute: config.MetricsListenAddress != "",
		SpoolDir: datadir.SpoolFolder(config.DataDir), ServerLimits: config.ServerLimits,
		Snapshot: snapshot, WriterURL: n.writerAddress(), ReadOnly: config.ReadOnly, StalenessError: n.stalenessError(config),
	})
	if err != nil {
		return fmt.Errorf("creating the server: %w", err)
	}
	endWebhooks, err := n.sendWebhooks(config, metrics)
	if err != nil {
		return err
	}
	defer endWebhooks()
	openfiles.WarnIfLimitLow(config.ServerLimits, n.log)
	server := service.HTTPServer()
	var underWay sync.RWMutex // every request holds the read lock
	server.Handler = WithLock(server.Handler, underWay.RLocker())
	ended := make(chan error, 1)
	go func() { ended <- g.serve(server, service.LimitListener(at.server)) }()
	// server.Close does not wait for handlers. They read the database, so it must stay open
	// until they have returned.
	defer underWay.Lock()
	if at.grpc != nil {
		endGRPC := n.serveGRPC(service, g, at.grpc, underWay.RLocker())
		defer func() {
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.ShutdownTimeout)
			defer cancel()
			if err := endGRPC(limited); err != nil {
				n.log.Warn("closing the remaining OTLP over gRPC connections", "reason", err)
			}
		}()
	}
	if at.metrics != nil {
		defer serveMetrics(config, n.log, at.metrics, metrics, underWay.RLocker()).Close()
	}
	if !n.bannerPrinted {
		if err := n.printBanner(c, config, g, at); err != nil {
			return errors.Join(fmt.Errorf("writing to stdout: %w", err), server.Close())
		}
	}
	var reopen error
	watched, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("serving: %w", err), server.Close())
	case <-ctx.Done():
		n.log.Info("stopping: finishing the requests in progress", "limit", config.ShutdownTimeout)
	case <-n.watchSpace(watched):
		reopen = errWritable
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.ShutdownTimeout)
	defer cancel()
	if n.cluster != nil {
		n.cluster.TransferLeases(limited)
	}
	if err := server.Shutdown(limited); err != nil {
		n.log.Warn("closing the remaining connections", "reason", err)
		return errors.Join(reopen, server.Close())
	}
	return reopen
}

// WithLock returns a handler that holds lock while the given handler serves a request.
func WithLock(handler http.Handler, lock sync.Locker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		handler.ServeHTTP(w, r)
	})
}

// printBanner prints the banner to standard output. The banner shows the addresses, the data folder, and
// the verifier key. The server must already accept connections.
func (n *Node) printBanner(c *cli.Console, config Config, g gate, at addresses) error {
	data, err := filepath.Abs(config.DataDir)
	if err != nil {
		return err
	}
	url := ListenURL(g.scheme(), at.server.Addr().String())
	fmt.Fprintf(c.Out, "Colophon %s is ready.\n\n", n.version)
	table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "  server\t%s\n", url)
	fmt.Fprintf(table, "  docs\t%s/docs\n", url)
	if at.metrics != nil {
		fmt.Fprintf(table, "  metrics\t%s/metrics\n", ListenURL("http", at.metrics.Addr().String()))
	}
	if at.grpc != nil {
		fmt.Fprintf(table, "  OTLP\t%s by gRPC\n", ListenURL(g.scheme(), at.grpc.Addr().String()))
	}
	fmt.Fprintf(table, "  authentication\t%s\n", g.describe(config))
	fmt.Fprintf(table, "  data\t%s%s\n", data, n.made.BannerSuffix())
	if n.remote != nil {
		fmt.Fprintf(table, "  store\tPostgreSQL at %s\n", n.remote.Address())
	}
	if config.CopyURL != "" {
		fmt.Fprintf(table, "  copy\t%s\n", config.CopyURL)
	}
	if n.madeDefault {
		fmt.Fprintf(table, "  created\ta new ledger%s\n", datadir.DefaultKeyNotice(data))
	}
	for _, l := range n.Host.Ledgers() {
		if err := l.CheckWritable(context.Background()); err != nil && !errors.Is(err, storage.ErrNoSpace) && !errors.Is(err, storage.ErrLeaseNotHeld) {
			fmt.Fprintf(table, "  no writes\t%v\n", err)
		}
	}
	switch l := n.shown(); {
	case l != nil:
		fmt.Fprintf(table, "  ledger\t%s, at tree size %d\n", l.Name(), l.Head().Size)
		fmt.Fprintf(table, "  origin\t%s\n", l.Info().Origin)
		fmt.Fprintf(table, "  verifier key\t%s\n", l.VerifierKey())
	case len(config.TrustedKeys) > 0:
		fmt.Fprintf(table, "  ledger\tis being loaded from the copy\n")
		fmt.Fprintf(table, "  verifier key\t%s\n", config.TrustedKeys[0])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(c.Out, "\nKeep the verifier key: with it, `colophon verify` can check a receipt without this server.\n"); err != nil {
		return err
	}
	g.warn(config.ListenAddress, n.log, at.server.Addr())
	if at.grpc != nil {
		g.warn(config.OTLPGRPCListenAddress, n.log, at.grpc.Addr())
	}
	return nil
}

// shown returns the ledger that the banner describes, which is "default" or, if it does not exist, another
// ledger. It returns nil if a read-only server has no ledger yet.
func (n *Node) shown() *ledger.Ledger {
	all := n.Host.Ledgers()
	if i := slices.IndexFunc(all, func(l *ledger.Ledger) bool { return l.Name() == ledger.DefaultName }); i >= 0 {
		return all[i]
	}
	if len(all) > 0 {
		return all[0]
	}
	return nil
}

// ListenURL returns the URL at which this machine can reach a listening address, host:port. It returns
// "" if there is no address or the port is not known.
func ListenURL(scheme, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// errWritable means that the database was opened for reading only, and that there is now enough
// space to open it for writing.
var errWritable = errors.New("disk space is available again")

// spacePause is the time between two checks for free disk space.
const spacePause = time.Second

// watchSpace returns a channel that it closes when there is enough space to open a read-only database for
// writing. It returns nil if the database is not read-only. It stops checking when ctx is done.
func (n *Node) watchSpace(ctx context.Context) <-chan struct{} {
	if !n.readOnly() {
		return nil
	}
	found := make(chan struct{})
	go func() {
		for n.local.CheckSpace() != nil {
			select {
			case <-time.After(spacePause):
			case <-ctx.Done():
				return
			}
		}
		close(found)
	}()
	return found
}
