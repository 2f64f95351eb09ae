package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"colophon/api"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/memory"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/record"
	"colophon/storage"
	"colophon/storage/pebble"
)

func newServe(c *cli.Console) *cobra.Command {
	flagged := serveConfig{}.withDefaults()
	var file string
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until it is asked to end (SIGTERM, SIGINT): then it takes no new
requests, finishes those under way, and commits what it accepted. A second
signal ends it at once; nothing that was acknowledged is lost by that either.

The first start makes the data folder, a signing key (keys/default.key: keep a
copy of it) and the ledger "default", and says so; a folder that holds other things
and no ledger is refused. Every flag can also be set by an
environment variable (COLOPHON_LISTEN for --listen) and by name in a YAML file.

Who may do what is said by tokens (colophon token create), and for tokens of OpenID
Connect issuers and for client certificates by --access-file:
  oidc:
    - issuer: https://id.example.org
      audience: colophon
      rules:
        - {claim: groups, value: writers, ledgers: [default], scopes: [write, read]}
  mtls:
    - {subject: "CN=witness,O=Example", name: witness, ledgers: ["*"], scopes: [log]}
While there are neither tokens nor such rules, nobody is asked who he is, and the
server listens on loopback only, unless --insecure says otherwise.

Exit codes: 1 the server or its storage failed, 2 bad flags or configuration,
4 another process uses the data folder, 5 a ledger is damaged.`,
		Example: `  colophon serve --data ./data
  COLOPHON_LISTEN=127.0.0.1:9000 colophon serve --config colophon.yaml`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := resolveServeConfig(file, c.Env, command.Flags())
			if err != nil {
				return cli.Exitf(cli.ExitUsage, "%w", err)
			}
			return serve(command.Context(), c, config)
		},
	}
	flagged.bind(command.Flags())
	command.Flags().StringVar(&file, "config", c.Environment("COLOPHON_CONFIG", ""), "YAML `file` with settings by the names of these flags, or COLOPHON_CONFIG")
	return command
}

func serve(ctx context.Context, c *cli.Console, config serveConfig) error {
	if err := datadir.CheckForeign(config.Data); err != nil {
		return err
	}
	if err := datadir.Check(config.Data); err != nil {
		return err
	}
	log := newLogger(c, config)
	g, err := openGate(config, log)
	if err != nil {
		return err
	}
	defer g.who.Close()
	config = config.withCaches(memory.Usable())
	defer besideLimit(index.KeptBytes(int64(config.IndexCache)))()
	defer paceGarbage(c.Env)()
	at, busy := openAddresses(config)
	defer at.close()
	if busy != nil && !datadir.HasDatabase(config.Data) {
		return busy // before anything is made
	}
	// The folder first: a second server on it is told so, be the address free or not.
	node, err := openNode(ctx, config, datadir.SigningKeys(c, config.Data), log)
	if errors.Is(err, context.Canceled) {
		return nil // asked to end before it began
	}
	if err != nil {
		return err
	}
	if busy != nil {
		return errors.Join(busy, node.close())
	}
	for {
		err := node.serve(ctx, c, config, g, at.shared())
		if !errors.Is(err, errRoom) {
			if err := errors.Join(err, node.close()); err != nil {
				return err
			}
			log.Info("ended")
			return nil
		}
		log.Info("there is room on the disk again: opening the data folder for writing")
		if err := node.close(); err != nil {
			return err
		}
		if node, err = openNode(ctx, config, datadir.SigningKeys(c, config.Data), log); err != nil {
			return err
		}
		node.welcomed = true
	}
}

func newLogger(c *cli.Console, config serveConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: config.LogLevel.Level}
	if config.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(c.Err, options))
	}
	return slog.New(slog.NewTextHandler(c.Err, options))
}

// node is an open data folder: the ledgers in it and their index.
type node struct {
	database *pebble.Database
	host     *ledger.Host
	index    *index.Store
	log      *slog.Logger
	made     datadir.Folder
	// madeDefault: the ledger "default" was made by this start.
	madeDefault bool
	// welcomed: the banner was printed before the folder was opened again.
	welcomed bool
}

// openNode opens the data folder; the first time it makes it, and the ledger
// "default". Where that is refused nothing is left that was not there before.
func openNode(ctx context.Context, config serveConfig, keys ledger.Keys, log *slog.Logger) (*node, error) {
	made, err := datadir.Make(config.Data)
	if err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	database, err := pebble.Open(ctx, pebble.Config{
		Dir:          datadir.Database(config.Data),
		Logger:       log.With("part", "storage"),
		MinFreeBytes: uint64(config.MinFreeSpace),
		CacheBytes:   int64(config.Cache),
		Copies:       datadir.SnapshotsOf(config.Data).Sweep,
		ReadWhenFull: true,
	})
	if errors.Is(err, storage.ErrDamaged) {
		return nil, cli.Exitf(cli.ExitDamaged, "%w\nNothing was changed. Start once more, in case it was the reading that failed; if this stays, restore the folder from a backup", err)
	}
	if errors.Is(err, storage.ErrNoSpace) {
		return nil, errors.Join(datadir.ExplainOpen(err, config.Data), made.Remove())
	}
	if err != nil {
		return nil, datadir.ExplainOpen(err, config.Data)
	}
	n := &node{database: database, log: log, made: made}
	if err := n.open(ctx, config, keys); err != nil {
		unused := n.host == nil || len(n.host.Ledgers()) == 0
		err = errors.Join(datadir.ExplainOpen(err, config.Data), n.close())
		if unused {
			err = errors.Join(err, made.Remove())
		}
		return nil, err
	}
	return n, nil
}

// makeSpool makes an empty folder for results that wait for slow clients.
func makeSpool(data string) error {
	return errors.Join(os.RemoveAll(datadir.Spool(data)), os.MkdirAll(datadir.Spool(data), 0o700))
}

// open opens what is over the database.
func (n *node) open(ctx context.Context, config serveConfig, keys ledger.Keys) (err error) {
	ledgerConfig := func(name string) ledger.Config {
		return ledger.Config{Log: n.log.With("ledger", name), Marks: datadir.Marks(config.Data)}
	}
	if err := makeSpool(config.Data); err != nil && !n.fullBy(err) {
		return fmt.Errorf("making a folder for results that wait: %w", err)
	}
	if err := datadir.SnapshotsOf(config.Data).Clear(); err != nil && !errors.Is(err, storage.ErrInUse) && !n.fullBy(err) {
		return fmt.Errorf("making a folder for copies: %w", err)
	}
	if n.host, err = ledger.OpenHost(ctx, n.database, keys, ledgerConfig); err != nil {
		return err
	}
	if err := n.makeDefault(ctx); err != nil {
		return err
	}
	n.index, err = index.Open(index.Config{Dir: datadir.Index(config.Data), Log: n.log.With("part", "index"), Memory: int64(config.IndexCache), ReadOnly: n.database.ReadOnly()})
	return err
}

// fullBy reports whether a folder that only writes need could not be made because the
// disk is full, which a server that reads alone goes on without.
func (n *node) fullBy(err error) bool {
	return n.database.ReadOnly() && errors.Is(err, syscall.ENOSPC)
}

func (n *node) makeDefault(ctx context.Context) error {
	_, err := n.host.Ledger(ledger.Default)
	if errors.Is(err, ledger.ErrUnknown) {
		_, err = n.host.Create(ctx, ledger.New{Name: ledger.Default})
		n.madeDefault = err == nil
	}
	return err
}

// serve answers requests until ctx is done, then finishes those under way.
func (n *node) serve(ctx context.Context, c *cli.Console, config serveConfig, g gate, at addresses) error {
	metrics := api.NewMetrics(prometheus.NewRegistry())
	metrics.Register(storageCollector{n.database, n.log})
	service, err := api.New(api.Config{
		Host: n.host, Index: n.index, Log: n.log, Metrics: metrics, Version: buildVersion(), Access: g.who,
		Hosts: api.Hosts(config.AllowHost), MetricsElsewhere: config.MetricsListen != "",
		SpoolDir: datadir.Spool(config.Data), MaxBody: int64(config.MaxBody), MaxLine: int(config.MaxLine), MaxPage: config.MaxPage, IndexWait: config.IndexWait,
		Limits: record.Limits{Labels: config.MaxLabels, LabelBytes: config.MaxLabelBytes, Values: config.MaxValues},
		Load:   config.limits(), BodyTimeout: config.BodyTimeout,
		Snapshot: func(ctx context.Context) (string, int, error) {
			return datadir.SnapshotsOf(config.Data).Answer(ctx, n.database)
		},
	})
	if err != nil {
		return fmt.Errorf("making the server: %w", err)
	}
	checkOpenFiles(config.loadConfig, n.log)
	server := service.HTTP()
	var underWay sync.RWMutex // read-locked by every request
	server.Handler = locked(server.Handler, underWay.RLocker())
	ended := make(chan error, 1)
	go func() { ended <- g.serve(server, service.Listen(at.server)) }()
	// Close does not wait for handlers, and they read the database: nobody may
	// close it before they have ended.
	defer underWay.Lock()
	if at.metrics != nil {
		defer serveMetrics(config, n.log, at.metrics, metrics, underWay.RLocker()).Close()
	}
	if !n.welcomed {
		if err := n.welcome(c, config, g, at); err != nil {
			return errors.Join(fmt.Errorf("writing to stdout: %w", err), server.Close())
		}
	}
	var room error
	watched, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("serving: %w", err), server.Close())
	case <-ctx.Done():
		n.log.Info("ending: finishing the requests that are under way", "limit", config.ShutdownLimit)
	case <-n.room(watched):
		room = errRoom
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.ShutdownLimit)
	defer cancel()
	if err := server.Shutdown(limited); err != nil {
		n.log.Warn("closing the connections that are left", "reason", err)
		return errors.Join(room, server.Close())
	}
	return room
}

// errRoom: the database is open for reading alone, and there is room to write again.
var errRoom = errors.New("there is room on the disk again")

// roomPause is the time between two looks for room.
const roomPause = time.Second

// room is closed when there is room to open a database for writing that is open for
// reading alone, unless ctx ends before. It is nil of any other.
func (n *node) room(ctx context.Context) <-chan struct{} {
	if !n.database.ReadOnly() {
		return nil
	}
	found := make(chan struct{})
	go func() {
		for n.database.Roomy() != nil {
			select {
			case <-time.After(roomPause):
			case <-ctx.Done():
				return
			}
		}
		close(found)
	}()
	return found
}

// locked holds a lock during each of a handler's requests.
func locked(handler http.Handler, lock sync.Locker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		handler.ServeHTTP(w, r)
	})
}

// welcome says on stdout where everything is, once the server answers.
func (n *node) welcome(c *cli.Console, config serveConfig, g gate, at addresses) error {
	l, err := n.host.Ledger(ledger.Default)
	if err != nil {
		return err
	}
	data, err := filepath.Abs(config.Data)
	if err != nil {
		return err
	}
	url := urlOf(g.scheme(), at.server.Addr().String())
	fmt.Fprintf(c.Out, "Colophon %s is ready.\n\n", buildVersion())
	table := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "  server\t%s\n", url)
	fmt.Fprintf(table, "  docs\t%s/docs\n", url)
	if at.metrics != nil {
		fmt.Fprintf(table, "  metrics\t%s/metrics\n", urlOf("http", at.metrics.Addr().String()))
	}
	fmt.Fprintf(table, "  authentication\t%s\n", g.describe(config))
	fmt.Fprintf(table, "  data\t%s%s\n", data, n.made.Note())
	if n.madeDefault {
		fmt.Fprintf(table, "  made\ta new ledger%s\n", datadir.NewKeyNote(data))
	}
	fmt.Fprintf(table, "  ledger\t%s, at tree size %d\n", l.Name(), l.Head().Size)
	fmt.Fprintf(table, "  origin\t%s\n", l.Info().Origin)
	fmt.Fprintf(table, "  verifier key\t%s\n", l.VerifierKey())
	if err := table.Flush(); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(c.Out, "\nKeep the verifier key: with it `colophon verify` checks a receipt without this server.\n"); err != nil {
		return err
	}
	g.warn(config, n.log, at.server.Addr())
	return nil
}

// close ends the index, drains and closes the ledgers, then closes the database:
// what was opened of them.
func (n *node) close() error {
	var errs []error
	if n.index != nil {
		errs = append(errs, n.index.Close())
	}
	if n.host != nil {
		errs = append(errs, n.host.Close())
	}
	return errors.Join(append(errs, n.database.Close())...)
}
