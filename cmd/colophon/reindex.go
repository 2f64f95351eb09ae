package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/indexfetch"
	"colophon/internal/memory"
	"colophon/internal/remote"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/proofs"
	"colophon/storage"
)

// offlineOptions holds the flags of commands that open a data folder without a server.
type offlineOptions struct {
	data   string
	store  string // URL of the PostgreSQL database that contains the log; empty if the data folder contains it
	ledger string
}

func (o *offlineOptions) bind(c *cli.Console, command *cobra.Command, ledger, usage string) {
	command.Flags().StringVar(&o.data, "data", c.EnvOr("COLOPHON_DATA", "data"), "`folder` with the database and the keys, or COLOPHON_DATA")
	command.Flags().StringVar(&o.ledger, "ledger", ledger, usage)
}

// reindexOptions holds the flags of the reindex command.
type reindexOptions struct {
	offlineOptions
	from  remote.Options // server to fetch rows from; its URL is empty if --from is not given
	check bool
}

func newReindex(c *cli.Console) *cobra.Command {
	var o reindexOptions
	var url storeFlag
	command := &cobra.Command{
		Use:   "reindex",
		Short: "Rebuild the index from the log",
		Long: `Empty the index and rebuild it from the events of the log. Use this if you suspect that
the index is wrong. A missing index needs no reindex: the server builds it at startup.
The ledgers do not change. If reindex is interrupted, the next start of the server
rebuilds the index.

Stop the server before you run reindex. With --store, reindex reads the log from a
PostgreSQL database, and other servers that use the database can keep running, because each
has an index of its own. reindex takes more memory than a server: up to 2 GiB, but at most
a quarter of the available memory.

With --from, reindex fetches the rows from a running server that has the same log, and
folds only later events. It checks that the trees of both have the same root. Until you
run reindex --check, only that server vouches for the rows. --check builds another index in
the folder, compares the digests of all rows, and changes nothing.

Exit codes: 0 the index is built or correct, 1 it could not be built or is wrong, 2 bad
arguments or no such folder, 4 another process uses the folder.`,
		Example: `  colophon reindex --data ./data
  colophon reindex --data ./data --ledger generations
  colophon reindex --data ./data --from https://node1.example.org:8443`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.store = url.value(c, command)
			return reindex(command.Context(), c, o)
		},
	}
	url.bind(command.Flags(), "log")
	o.bind(c, command, "", "`name` of the ledger to index; the default is all ledgers")
	command.Flags().StringVar(&o.from.URL, "from", "", "`URL` of a server that has the same log; fetch the index from that server")
	o.from.BindCredentials(c, command.Flags())
	command.Flags().BoolVar(&o.check, "check", false, "build another index, compare its rows with those of the index in the folder, and change nothing")
	return command
}

func reindex(ctx context.Context, c *cli.Console, o reindexOptions) error {
	if o.check && o.from.URL != "" {
		return cli.ExitErrorf(cli.ExitUsage, "--check and --from are mutually exclusive: --check builds the index from the log")
	}
	var from *remote.Connection
	if o.from.URL != "" {
		var err error
		if from, err = o.from.Connect(c, indexfetch.ClientOptions()...); err != nil {
			return err
		}
	}
	database, err := openDatabase(ctx, c, o.data, o.store, o.store != "" || o.check)
	if err != nil {
		return err
	}
	r := reindexer{c: c, o: o, from: from, database: database}
	err = r.open()
	if err == nil {
		err = r.all(ctx)
	}
	return errors.Join(err, r.close(), database.Close())
}

// reindexer rebuilds or checks the indexes of ledgers.
type reindexer struct {
	c        *cli.Console
	o        reindexOptions
	from     *remote.Connection // nil without --from
	database storage.Database
	folded   *index.Store
	stored   *index.Store // existing index to compare with folded; nil without --check
}

// checkDir returns the folder in which --check builds an index. If the command is interrupted, the
// server removes the folder when it next starts.
func (r *reindexer) checkDir() string { return filepath.Join(datadir.SpoolFolder(r.o.data), "index") }

func (r *reindexer) open() (err error) {
	config := index.Config{
		Dir: datadir.IndexFolder(r.o.data), Logger: r.c.WarningLogger(), MemoryBytes: memory.CacheSize(memory.UsableBytes(), 4, index.DefaultMemoryBytes), Rebuild: r.o.ledger == "" && r.from == nil,
	}
	if r.o.check {
		stored := index.Config{Dir: config.Dir, Logger: config.Logger, ReadOnly: true}
		if r.stored, err = query.OpenIndex(stored); err != nil {
			return err
		}
		config.Dir, config.Rebuild = r.checkDir(), true
	}
	r.folded, err = query.OpenIndex(config)
	return err
}

func (r *reindexer) close() (err error) {
	if r.folded != nil {
		err = r.folded.Close()
	}
	if r.stored != nil {
		err = errors.Join(err, r.stored.Close(), os.RemoveAll(r.checkDir()))
	}
	return err
}

func (r *reindexer) all(ctx context.Context) error {
	infos, err := r.database.Ledgers(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, info := range infos {
		if r.o.ledger != "" && info.Name != r.o.ledger {
			continue
		}
		found = true
		if err := r.ledger(ctx, info.Name); err != nil {
			return err
		}
	}
	if !found {
		return cli.ExitErrorf(cli.ExitUsage, "ledger %q does not exist in %s; name another ledger with --ledger", r.o.ledger, r.o.data)
	}
	return nil
}

// minEventsForRate is the minimum number of events for which reindex also prints its speed.
const minEventsForRate = 1000

func (r *reindexer) ledger(ctx context.Context, name string) error {
	log, head, err := ledgerLog(ctx, r.database, name)
	if err != nil {
		return err
	}
	var how string
	size := head.Size
	switch {
	case r.stored != nil:
		size, how, err = r.check(ctx, name, log)
	case r.from != nil:
		how, err = r.fetch(ctx, name, log, head)
	default:
		var f *index.Follower
		if f, how, err = r.refold(ctx, name, log, head.Size); err == nil {
			f.Close() // frees its memory for the next ledger
		}
	}
	if err != nil {
		return explainFold(ctx, err, name)
	}
	_, err = fmt.Fprintf(r.c.Out, "%s: %s indexed%s\n", name, cli.FormatCount(size, "event"), how)
	return err
}

// refold builds a new index from the first size events of a log. how is a phrase that states the
// speed, for the caller to print.
func (r *reindexer) refold(ctx context.Context, name string, log storage.Reader, size uint64) (f *index.Follower, how string, err error) {
	bar := cli.NewProgress(r.c, int64(size), "indexing "+name)
	begin := time.Now()
	f, err = r.folded.Refold(ctx, name, log, size, bar.Set)
	took := time.Since(begin)
	bar.Finish()
	if size >= minEventsForRate {
		how = fmt.Sprintf(", %.0f per second", float64(size)/took.Seconds())
	}
	return f, how, err
}

// check builds an index of the events that the stored index covers, and compares the rows of the
// two indexes. It returns the size of the stored index and a phrase that states the result, for the
// caller to print.
func (r *reindexer) check(ctx context.Context, name string, log storage.Reader) (size uint64, how string, err error) {
	stored, err := r.stored.AddStoppedFollower(ctx, name, log)
	if err != nil {
		// Do not wrap err. If the folder has no index, err is storage.ErrNoSpace, which the caller
		// would report as a full disk.
		return 0, "", cli.ExitErrorf(cli.ExitFailed, "reading the index of ledger %q: %v\nThe server rebuilds the index when it next starts", name, err)
	}
	defer stored.Close()
	if size = stored.Size(); size == 0 {
		return 0, "", nil
	}
	have, err := digestOf(ctx, stored)
	if err != nil {
		return 0, "", err
	}
	f, _, err := r.refold(ctx, name, log, size)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	want, err := digestOf(ctx, f)
	if err == nil && have != want {
		err = cli.ExitErrorf(cli.ExitFailed, "the index of ledger %q is WRONG at tree size %d: its rows have the digest %s, but the rows derived from the events have the digest %s\nRebuild it with colophon reindex", name, size, have, want)
	}
	return size, "; the index is correct, digest " + have, err
}

// fetch installs rows from another server's index and then folds the events that these rows do not
// cover. how is a phrase that describes those rows, for the caller to print.
func (r *reindexer) fetch(ctx context.Context, name string, log storage.Reader, head storage.Head) (how string, err error) {
	source := indexfetch.Fetcher{
		Servers: []indexfetch.Server{{URL: r.from.URL, Client: r.from.Client}},
		Root: func(ctx context.Context, _ string, size uint64) (proofs.Hash, error) {
			tiles := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
			tree, err := proofs.OpenTree(head.Size, tiles, nil)
			if err != nil {
				return proofs.Hash{}, err
			}
			if size > head.Size {
				return proofs.Hash{}, fmt.Errorf("the other server's index covers %d events, but the local log has only %d", size, head.Size)
			}
			return proofs.NewProver(tree.Snapshot(), nil, tiles).Root(size)
		},
	}
	fetched, digest, err := r.folded.InstallSnapshot(ctx, name, log, source.Fetch)
	if err != nil {
		return "", fmt.Errorf("%w\nNothing was changed. To build the index from the events instead, omit --from", r.from.Explain(err))
	}
	f, err := r.folded.Follow(name, log)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return fmt.Sprintf(", %d of them fetched, digest %s", fetched, digest), f.WaitForSize(ctx, head.Size)
}

// digestOf returns the hexadecimal digest of all rows in a ledger's index.
func digestOf(ctx context.Context, f *index.Follower) (string, error) {
	v, err := f.LatestView()
	if err != nil {
		return "", err
	}
	digest, err := v.Digest(ctx)
	return hex.EncodeToString(digest[:]), errors.Join(err, v.Close())
}

// ledgerLog returns a ledger's log and the current head of the log.
func ledgerLog(ctx context.Context, database storage.Database, name string) (storage.Reader, storage.Head, error) {
	log, err := database.Ledger(ctx, name)
	if err != nil {
		return nil, storage.Head{}, fmt.Errorf("opening ledger %q: %w", name, err)
	}
	head, err := log.Head(ctx)
	if err != nil {
		return nil, storage.Head{}, fmt.Errorf("reading the head of ledger %q: %w", name, err)
	}
	return log, head, nil
}

// explainFold adds advice to an error from building an index.
func explainFold(ctx context.Context, err error, name string) error {
	switch {
	case ctx.Err() != nil:
		return cli.ExitErrorf(cli.ExitFailed, "interrupted while indexing ledger %q", name)
	case errors.Is(err, storage.ErrNoSpace):
		return cli.ExitErrorf(cli.ExitFailed, "%w\nFree space and run the command again", err)
	}
	return err
}
