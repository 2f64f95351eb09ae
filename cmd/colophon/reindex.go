package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/memory"
	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/storage"
)

// offlineOptions holds the flags of commands that open a data folder without a server.
type offlineOptions struct {
	data   string
	store  string // URL of the PostgreSQL database that holds the log; empty if the data folder holds it
	ledger string
}

func (o *offlineOptions) bind(c *cli.Console, command *cobra.Command, ledger, usage string) {
	command.Flags().StringVar(&o.data, "data", c.Environment("COLOPHON_DATA", "data"), "`folder` of database and keys, or COLOPHON_DATA")
	command.Flags().StringVar(&o.ledger, "ledger", ledger, usage)
}

func newReindex(c *cli.Console) *cobra.Command {
	var o offlineOptions
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

Exit codes: 0 the index is built, 1 it could not be built, 2 bad arguments or no such
folder, 4 another process uses the folder.`,
		Example: `  colophon reindex --data ./data
  colophon reindex --data ./data --ledger generations`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.store = url.value(c, command)
			return reindex(command.Context(), c, o)
		},
	}
	url.bind(command.Flags(), "log")
	o.bind(c, command, "", "`name` of the one ledger to index; default all")
	return command
}

func reindex(ctx context.Context, c *cli.Console, o offlineOptions) error {
	database, err := openDatabase(ctx, c, o.data, o.store, o.store != "")
	if err != nil {
		return err
	}
	folded, err := query.Open(index.Config{
		Dir: datadir.Index(o.data), Log: c.Warnings(), Memory: memory.Share(memory.Usable(), 4, index.DefaultMemory), Rebuild: o.ledger == "",
	})
	if err != nil {
		return errors.Join(err, database.Close())
	}
	err = reindexLedgers(ctx, c, o, database, folded)
	return errors.Join(err, folded.Close(), database.Close())
}

func reindexLedgers(ctx context.Context, c *cli.Console, o offlineOptions, database storage.Database, folded *index.Store) error {
	infos, err := database.Ledgers(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, info := range infos {
		if o.ledger != "" && info.Name != o.ledger {
			continue
		}
		found = true
		if err := reindexLedger(ctx, c, database, folded, info.Name); err != nil {
			return err
		}
	}
	if !found {
		return cli.Exitf(cli.ExitUsage, "ledger %q does not exist in %s; name another with --ledger", o.ledger, o.data)
	}
	return nil
}

// minRated is the smallest ledger, in events, for which reindex prints a rate.
const minRated = 1000

func reindexLedger(ctx context.Context, c *cli.Console, database storage.Database, folded *index.Store, name string) error {
	log, head, err := ledgerLog(ctx, database, name)
	if err != nil {
		return err
	}
	bar := cli.NewProgress(c, int64(head.Size), "indexing "+name)
	begin := time.Now()
	f, err := folded.Refold(ctx, name, log, head.Size, bar.Set)
	took := time.Since(begin)
	bar.Finish()
	if err != nil {
		return explainFold(ctx, err, name)
	}
	f.Close() // frees its memory for the next ledger
	rate := ""
	if head.Size >= minRated {
		rate = fmt.Sprintf(", %.0f a second", float64(head.Size)/took.Seconds())
	}
	_, err = fmt.Fprintf(c.Out, "%s: %s indexed%s\n", name, cli.Counted(head.Size, "event"), rate)
	return err
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
