package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"colophon/bench/contestant"
)

// proofRow holds the measurements of one contestant's inclusion proofs, in trees of one size.
type proofRow struct {
	Contestant string                        `json:"contestant"`
	Leaves     int                           `json:"leaves"`
	Rounds     []contestant.ProofMeasurement `json:"rounds"`
	// Median holds the median of each figure over all rounds, except that counts are summed.
	Median contestant.ProofMeasurement `json:"median"`

	child    string // name of the contestant to run in a child process
	settings []string
}

// Names of the contestants that build proofs. Tessera's builder is measured twice: with one builder
// for all proofs of a size, and with a new builder for each proof.
const (
	proofsOurs   = "colophon"
	proofsReused = "tessera, one builder"
	proofsFresh  = "tessera, fresh builders"
)

func newProofs() *cobra.Command {
	var o options
	var rounds int
	var seconds float64
	command := &cobra.Command{
		Use:   "proofs",
		Short: "Compare only inclusion proofs with Tessera's",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.quick {
				rounds, seconds = 1, 0.1
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding the path of this program: %w", err)
			}
			return o.withScratch(func(scratch string) error {
				rows, err := measureProofs(c.Context(), self, scratch, o.proofSizes(), rounds, secondsOf(seconds))
				if err != nil {
					return err
				}
				if err := printProofs(c.OutOrStdout(), rows); err != nil {
					return err
				}
				for _, t := range proofTargets(rows) {
					fmt.Fprintln(c.OutOrStdout(), t)
				}
				return writeJSON(o.json, rows)
			})
		},
	}
	o.bind(command)
	command.Flags().IntVar(&rounds, "rounds", 5, "`number` of rounds")
	command.Flags().Float64Var(&seconds, "seconds", 1, "`time` of each measurement")
	return command
}

// measureProofs grows one log per contestant to each of the given sizes, smallest first. At each
// size, it measures proofs in rounds. A round measures every contestant once.
func measureProofs(ctx context.Context, self, scratch string, sizes []int, rounds int, time time.Duration) ([]*proofRow, error) {
	bar := newProgress(len(sizes)*(2+3*rounds), "proving inclusion")
	defer bar.Finish()
	var all []*proofRow
	for _, size := range sizes {
		for name, settings := range map[string][]string{"colophon": nil, "tessera": {"--batch", "4096", "--age", "100ms"}} {
			bar.SetDescription(fmt.Sprintf("filling %s with %d", name, size))
			settings := append([]string{"--leaves", strconv.Itoa(size)}, settings...)
			if _, err := runChild(ctx, self, name+"-fill", filepath.Join(scratch, "proofs-"+name), settings...); err != nil {
				return nil, err
			}
			bar.Add(1)
		}
		rows := []*proofRow{
			{Contestant: proofsOurs, Leaves: size, child: "colophon"},
			{Contestant: proofsReused, Leaves: size, child: "tessera"},
			{Contestant: proofsFresh, Leaves: size, child: "tessera", settings: []string{"--fresh"}},
		}
		for range rounds {
			for _, r := range rows {
				bar.SetDescription(fmt.Sprintf("%s, %d leaves", r.Contestant, size))
				settings := append([]string{"--warm", time.String(), "--time", time.String()}, r.settings...)
				var p contestant.ProofMeasurement
				if err := measureChild(ctx, &p, self, r.child+"-proofs", filepath.Join(scratch, "proofs-"+r.child), settings...); err != nil {
					return nil, err
				}
				r.add(p)
				bar.Add(1)
			}
		}
		all = append(all, rows...)
	}
	return all, nil
}

// add adds the figures of a round and updates the medians.
func (r *proofRow) add(p contestant.ProofMeasurement) {
	r.Rounds = append(r.Rounds, p)
	r.Median.Proofs += p.Proofs
	r.Median.Verified += p.Verified
	for _, figure := range [...]func(*contestant.ProofMeasurement) *float64{
		func(p *contestant.ProofMeasurement) *float64 { return &p.Rate },
		func(p *contestant.ProofMeasurement) *float64 { return &p.CPU },
		func(p *contestant.ProofMeasurement) *float64 { return &p.Peak },
	} {
		values := make([]float64, len(r.Rounds))
		for i := range r.Rounds {
			values[i] = *figure(&r.Rounds[i])
		}
		*figure(&r.Median) = median(values)
	}
}

func printProofs(out io.Writer, rows []*proofRow) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "inclusion proofs\tleaves\tproofs/s\tCPU µs\tpeak MiB\tverified\t")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.2f\t%.0f\t%d\t\n", r.Contestant, r.Leaves, r.Median.Rate, r.Median.CPU, r.Median.Peak/(1<<20), r.Median.Verified)
	}
	return table.Flush()
}

// proofTargets returns the targets that compare proofs in the largest trees.
func proofTargets(rows []*proofRow) []target {
	if len(rows) == 0 {
		return nil
	}
	largest := make(map[string]*proofRow)
	for _, r := range rows { // rows are sorted by size, so the largest tree is kept
		largest[r.Contestant] = r
	}
	ours := largest[proofsOurs]
	over := func(theirs string) []float64 {
		list := make([]float64, len(ours.Rounds))
		for i := range list {
			list[i] = ours.Rounds[i].Rate / largest[theirs].Rounds[i].Rate
		}
		return list
	}
	what := fmt.Sprintf("inclusion proofs at %d leaves, over Tessera's builder", ours.Leaves)
	return []target{
		target{What: what + " at its best", AtLeast: 25}.of(over(proofsReused)...),
		target{What: what + " made for each proof", AtLeast: 25}.of(over(proofsFresh)...),
	}
}
