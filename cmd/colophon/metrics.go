package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/query"
	"colophon/storage"
)

func newMetrics(c *cli.Console) *cobra.Command {
	var o offlineOptions
	var url storeFlag
	var asOf uint64
	command := &cobra.Command{
		Use:   "metrics",
		Short: "Print the metrics of a ledger at any size of its log",
		Long: `Read the log from its first event up to a size, and print the metrics that are derived
from it. The lines equal those that a server of this version exports for the ledger at
that size. With this you can check the numbers of a server or of its monitoring.

Stop the server before you run metrics. With --store, metrics reads the log from a
PostgreSQL database. Then stop only the server of this data folder; other servers that use
the database can keep running. The command does not change the data folder. It builds its
own index in the folder for temporary files, and removes it.

Exit codes: 0 the metrics are printed, 1 the log could not be read, 2 bad arguments or
no such folder, 4 another process uses the folder.`,
		Example: `  colophon metrics --data ./data
  colophon metrics --data ./data --ledger generations --as-of 20000`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			size := &asOf
			if !command.Flags().Changed("as-of") {
				size = nil
			}
			o.store = url.value(c, command)
			return printMetrics(command.Context(), c, o, size)
		},
	}
	o.bind(c, command, ledger.DefaultName, "`name` of the ledger")
	url.bind(command.Flags(), "log")
	command.Flags().Uint64Var(&asOf, "as-of", 0, "`size` of the log, in events; default is the whole log")
	return command
}

// printMetrics prints a ledger's metrics at the given tree size, or at its head if size is nil.
func printMetrics(ctx context.Context, c *cli.Console, o offlineOptions, size *uint64) error {
	database, err := openDatabase(ctx, c, o.data, o.store, true)
	if err != nil {
		return err
	}
	return errors.Join(printLedgerMetrics(ctx, c, o, database, size), database.Close())
}

func printLedgerMetrics(ctx context.Context, c *cli.Console, o offlineOptions, database storage.Database, size *uint64) error {
	log, head, err := ledgerLog(ctx, database, o.ledger)
	if errors.Is(err, storage.ErrNotFound) {
		return cli.ExitErrorf(cli.ExitUsage, "ledger %q does not exist in %s; specify an existing ledger with --ledger", o.ledger, o.data)
	}
	if err != nil {
		return err
	}
	if size == nil {
		size = &head.Size
	}
	if *size > head.Size {
		return cli.ExitErrorf(cli.ExitUsage, "ledger %q has only %d events, but --as-of is %d; use a smaller value", o.ledger, head.Size, *size)
	}
	dir, err := os.MkdirTemp("", "colophon-metrics-")
	if err != nil {
		return fmt.Errorf("creating a temporary folder for the index: %w; set TMPDIR to a folder with enough free space", err)
	}
	return errors.Join(foldMetrics(ctx, c, o.ledger, log, *size, dir), os.RemoveAll(dir))
}

// foldMetrics builds an index in dir from the first size events of a log and prints its metrics.
func foldMetrics(ctx context.Context, c *cli.Console, name string, log storage.Reader, size uint64, dir string) error {
	folded, err := query.OpenIndex(index.Config{Dir: filepath.Join(dir, "index"), Logger: c.WarningLogger()})
	if err != nil {
		return err
	}
	bar := cli.NewProgress(c, int64(size), "reading "+name)
	f, err := folded.Refold(ctx, name, log, size, bar.Set)
	bar.Finish()
	if err == nil {
		err = writeMetrics(c.Out, f)
	} else {
		err = explainFold(ctx, err, name)
	}
	return errors.Join(err, folded.Close())
}

// writeMetrics writes, in Prometheus text format, the metrics that a server would export if its
// index covered exactly the events in f.
func writeMetrics(w io.Writer, f *index.Follower) error {
	treeSize := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "colophon_ledger_tree_size", Help: "Events in the ledger.",
	}, []string{"ledger"})
	treeSize.WithLabelValues(f.Name()).Set(float64(f.Size()))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(treeSize, counters.NewCollector(func() []*index.Follower { return []*index.Follower{f} }))
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("collecting the metrics: %w", err)
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(w, family); err != nil {
			return fmt.Errorf("writing the metrics: %w", err)
		}
	}
	return nil
}
