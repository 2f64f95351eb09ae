package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
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
	store  string // URL of the database of the log; empty: in the data folder
	ledger string
}

func (o *offlineOptions) bind(c *cli.Console, command *cobra.Command, ledger, usage string) {
	command.Flags().StringVar(&o.data, "data", c.Environment("COLOPHON_DATA", "data"), "`folder` of database and keys, or COLOPHON_DATA")
	command.Flags().StringVar(&o.ledger, "ledger", ledger, usage)
}

// reindexOptions holds the flags of reindex.
type reindexOptions struct {
	offlineOptions
	from   remote.Options // URL is empty if nothing is fetched
	digest bool
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

Stop the server before you run reindex. With --store, the log is read from a PostgreSQL
database, and other servers on it can continue: each has an index of its own. It takes more memory than a server: up to 2 GiB,
but at most a quarter of the available memory.

With --from, reindex fetches the rows from a running server that has the same log, and
folds only later events. It checks that the trees of both have the same root. Whether the
rows are right is the word of that server: to check them, compare --digest with reindex
of the same log without --from. Rows do not depend on the server, only on the events.

Exit codes: 0 the index is built, 1 it could not be built, 2 bad arguments or no such
folder, 4 another process uses the folder.`,
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
	o.bind(c, command, "", "`name` of the one ledger to index; default all")
	command.Flags().StringVar(&o.from.URL, "from", "", "`URL` of a server with the same log whose index is fetched")
	o.from.BindCredentials(c, command.Flags())
	command.Flags().BoolVar(&o.digest, "digest", false, "print the digest of the rows of each ledger")
	return command
}

func reindex(ctx context.Context, c *cli.Console, o reindexOptions) error {
	var from *remote.Server
	if o.from.URL != "" {
		var err error
		if from, err = o.from.Connect(c, indexfetch.ClientOptions()...); err != nil {
			return err
		}
	}
	database, err := openDatabase(ctx, c, o.data, o.store, o.store != "")
	if err != nil {
		return err
	}
	folded, err := query.Open(index.Config{
		Dir: datadir.Index(o.data), Log: c.Warnings(), Memory: memory.Share(memory.Usable(), 4, index.DefaultMemory), Rebuild: o.ledger == "" && from == nil,
	})
	if err != nil {
		return errors.Join(err, database.Close())
	}
	r := reindexer{c: c, o: o, from: from, database: database, folded: folded}
	err = r.all(ctx)
	return errors.Join(err, folded.Close(), database.Close())
}

// reindexer rebuilds an index.
type reindexer struct {
	c        *cli.Console
	o        reindexOptions
	from     *remote.Server // nil if nothing is fetched
	database storage.Database
	folded   *index.Store
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
		return cli.Exitf(cli.ExitUsage, "ledger %q does not exist in %s; name another with --ledger", r.o.ledger, r.o.data)
	}
	return nil
}

// minRated is the smallest ledger, in events, for which reindex prints a rate.
const minRated = 1000

func (r *reindexer) ledger(ctx context.Context, name string) error {
	log, head, err := ledgerLog(ctx, r.database, name)
	if err != nil {
		return err
	}
	fold := r.refold
	if r.from != nil {
		fold = r.fetch
	}
	f, how, err := fold(ctx, name, log, head)
	if err != nil {
		return explainFold(ctx, err, name)
	}
	defer f.Close() // frees its memory for the next ledger
	if r.o.digest && head.Size > 0 {
		digest, err := digestOf(ctx, f)
		if err != nil {
			return err
		}
		how += ", digest " + digest
	}
	_, err = fmt.Fprintf(r.c.Out, "%s: %s indexed%s\n", name, cli.Counted(head.Size, "event"), how)
	return err
}

// refold folds all events. how says how fast.
func (r *reindexer) refold(ctx context.Context, name string, log storage.Reader, head storage.Head) (f *index.Follower, how string, err error) {
	bar := cli.NewProgress(r.c, int64(head.Size), "indexing "+name)
	begin := time.Now()
	f, err = r.folded.Refold(ctx, name, log, head.Size, bar.Set)
	took := time.Since(begin)
	bar.Finish()
	if head.Size >= minRated {
		how = fmt.Sprintf(", %.0f a second", float64(head.Size)/took.Seconds())
	}
	return f, how, err
}

// fetch installs another server's rows, and folds the events after them.
func (r *reindexer) fetch(ctx context.Context, name string, log storage.Reader, head storage.Head) (f *index.Follower, how string, err error) {
	source := indexfetch.Fetcher{
		Servers: []indexfetch.Server{{URL: r.from.URL, Client: r.from.Client}},
		Root: func(ctx context.Context, _ string, size uint64) (proofs.Hash, error) {
			tiles := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
			tree, err := proofs.OpenTree(head.Size, tiles, nil)
			if err != nil {
				return proofs.Hash{}, err
			}
			if size > head.Size {
				return proofs.Hash{}, fmt.Errorf("the other server's index covers %d events, but the log has %d here", size, head.Size)
			}
			return proofs.NewProver(tree.Snapshot(), nil, tiles).Root(size)
		},
	}
	fetched, digest, err := r.folded.InstallFrom(ctx, name, log, source.Fetch)
	if err != nil {
		return nil, "", fmt.Errorf("%w\nNothing was changed; without --from, reindex folds the events", r.from.Explain(err))
	}
	if f, err = r.folded.Follow(name, log); err != nil {
		return nil, "", err
	}
	if err := f.Wait(ctx, head.Size); err != nil {
		f.Close()
		return nil, "", err
	}
	how = fmt.Sprintf(", %d of them fetched", fetched)
	if !r.o.digest {
		how += ", digest " + digest
	}
	return f, how, nil
}

// digestOf returns the digest of all rows of a ledger.
func digestOf(ctx context.Context, f *index.Follower) (string, error) {
	v, err := f.Latest()
	if err != nil {
		return "", err
	}
	digest, err := v.Digest(ctx)
	return hex.EncodeToString(digest[:]), errors.Join(err, v.Close())
}

// ledgerLog returns the log of a ledger, and its head.
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

// explainFold adds advice to an error that occurred while an index was built.
func explainFold(ctx context.Context, err error, name string) error {
	switch {
	case ctx.Err() != nil:
		return cli.Exitf(cli.ExitFailed, "interrupted while indexing ledger %q", name)
	case errors.Is(err, storage.ErrNoSpace):
		return cli.Exitf(cli.ExitFailed, "%w\nFree space and run the command again", err)
	}
	return err
}
