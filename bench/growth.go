package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"colophon/bench/corpus"
)

// growth implements the growth command, which fills one ledger and measures it at several sizes.
type growth struct {
	options
	records int
	limit   time.Duration
	window  int
	memory  string
	rest    bool
}

func newGrowth() *cobra.Command {
	g := new(growth)
	command := &cobra.Command{
		Use:   "growth",
		Short: "Fill one ledger and measure it at each size",
		Long: `Fill one ledger with batches, on a server that is limited to 1 GiB of memory (GOMEMLIMIT).
Measure speed and cost at 10,000 records, and again each time the ledger has grown
tenfold. Each measurement starts at once, while the server still merges files; with
--rest, it waits until the server has merged them.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return g.run(c.Context(), c.OutOrStdout()) },
	}
	g.bind(command)
	g.bindColophon(command)
	command.Flags().IntVar(&g.records, "records", 1_000_000, "`number` of records to fill the ledger with")
	command.Flags().DurationVar(&g.limit, "for", 30*time.Minute, "`time` after which no more records are posted")
	command.Flags().IntVar(&g.window, "window", 50_000, "`number` of records that are posted in batches for each measurement; half as many are posted singly")
	command.Flags().StringVar(&g.memory, "memory", "1GiB", "`limit` of the server's memory, in the form of GOMEMLIMIT; off means no limit")
	command.Flags().BoolVar(&g.rest, "rest", false, "wait before each measurement until the server has merged its files")
	return command
}

// growthFirst is the number of records at which the first measurement is taken.
const growthFirst = 10_000

// fillConnections and fillLines are the numbers of connections, and of lines per batch, used to
// fill the ledger. singleConnections is the number of connections that post single records.
const (
	fillConnections = 8
	fillLines       = 250
	fillRecords     = 50_000 // number of records that are generated at once

	singleConnections = 64
)

func (g *growth) run(ctx context.Context, out io.Writer) error {
	first := growthFirst
	if g.quick {
		g.records, g.window, first = 4000, 1000, 500
	}
	return g.withScratch(func(scratch string) (err error) {
		binaries, err := g.binaries(ctx, scratch)
		if err != nil {
			return err
		}
		f := &filling{dir: filepath.Join(scratch, "growth"), corpus: corpus.New(g.seed), began: time.Now(),
			service: colophonService{binary: binaries[0].file, environment: []string{"GOMEMLIMIT=" + g.memory}}, waitsForIdle: g.rest}
		if f.server, err = f.service.start(ctx, f.dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.server.stop()) }()
		steps, err := g.steps(ctx, f, first, out)
		if err != nil {
			return err
		}
		for _, t := range growthTargets(steps) {
			fmt.Fprintln(out, t)
		}
		return writeJSON(g.json, steps)
	})
}

// steps fills the ledger. It measures the ledger once it contains first records, and again each
// time the number of records has grown tenfold. It prints each step. It stops at g.records records
// or when the time is up.
func (g *growth) steps(ctx context.Context, f *filling, first int, out io.Writer) (steps []step, err error) {
	printStepNames(out)
	bar := newProgress(g.records, "filling")
	defer bar.Finish()
	for size := min(first, g.records); ; size = min(10*size, g.records) {
		inTime, err := f.growTo(ctx, size, f.began.Add(g.limit), bar)
		if err != nil {
			return nil, err
		}
		s, err := f.measure(ctx, g.window)
		if err != nil {
			return nil, fmt.Errorf("at %d records: %w", f.taken, err)
		}
		bar.Add(f.taken - s.Records)
		steps = append(steps, s)
		bar.Clear()
		s.print(out)
		if !inTime || size == g.records {
			return steps, nil
		}
	}
}
