// Command bench compares Colophon with other logs, all measured in one run on one machine.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"colophon/bench/contestant"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:          "bench",
		Short:        "Compare Colophon with other logs",
		SilenceUsage: true,
	}
	root.AddCommand(newRun(), newProofs(), newGrowth(), newQueries(), newPostgres(), newServers(), newContestant())
	return root
}

// newContestant returns a hidden command. The program uses it to run itself as one contestant in a
// separate process. The contestant either serves until it receives a signal, or prints its
// measurement.
func newContestant() *cobra.Command {
	var config contestant.Config
	command := &cobra.Command{
		Use:    "contestant",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runContestant(c.Context(), args[0], config, c.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.Dir, "dir", "", "")
	flags.IntVar(&config.Callers, "callers", 1, "")
	flags.IntVar(&config.Bodies, "bodies", 1000, "")
	flags.Uint64Var(&config.Seed, "seed", 1, "")
	flags.DurationVar(&config.Warm, "warm", 300*time.Millisecond, "")
	flags.DurationVar(&config.Time, "time", time.Second, "")
	flags.UintVar(&config.Batch, "batch", 1, "")
	flags.DurationVar(&config.Age, "age", 10*time.Millisecond, "")
	flags.Uint64Var(&config.Leaves, "leaves", 0, "")
	flags.BoolVar(&config.Fresh, "fresh", false, "")
	return command
}

func runContestant(ctx context.Context, name string, config contestant.Config, out io.Writer) error {
	switch name {
	case "colophon":
		return printed(contestant.MeasureColophon)(ctx, config, out)
	case "tessera":
		return printed(contestant.MeasureTessera)(ctx, config, out)
	case "immudb":
		return printed(contestant.MeasureImmudb)(ctx, config, out)
	case "tessera-server":
		return contestant.ServeTessera(ctx, config, out)
	case "colophon-fill":
		return contestant.FillColophon(ctx, config)
	case "tessera-fill":
		return contestant.FillTessera(ctx, config)
	case "colophon-proofs":
		return printed(contestant.MeasureColophonProofs)(ctx, config, out)
	case "tessera-proofs":
		return printed(contestant.MeasureTesseraProofs)(ctx, config, out)
	}
	return fmt.Errorf("no contestant is called %q", name)
}

// printed returns a function that calls measure and prints its result as JSON.
func printed[M any](measure func(context.Context, contestant.Config) (M, error)) func(context.Context, contestant.Config, io.Writer) error {
	return func(ctx context.Context, config contestant.Config, out io.Writer) error {
		m, err := measure(ctx, config)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(m)
	}
}
