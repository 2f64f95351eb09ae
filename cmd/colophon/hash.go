package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/ledger/record"
	"colophon/ledger/record/strict"
)

func newHash(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "hash KIND FILE",
		Short: "Compute the hashes and checks of a record, without a server",
		Long: `Compute what the ledger would store about a record, and print it as JSON: its hashes,
checks and digests. KIND is ipc_record, run_dag, citation_set or path_fingerprint. FILE
has the record in the form of a POST request; - is the standard input.

Exit codes: 0 the hashes are printed, 1 a ledger would refuse the record, 2 bad arguments
or no such file.`,
		Example: `  colophon hash ipc_record record.json`,
		Args:    cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			defer c.ExitOnInterrupt(command.Context())()
			kind := record.Kind(args[0])
			if !slices.Contains(record.RecordKinds[:], kind) {
				return cli.ExitErrorf(cli.ExitUsage, "%q is not a kind; use one of %s", kind, record.RecordKinds)
			}
			body, err := c.ReadFile(args[1])
			if err != nil {
				return err
			}
			return printHashes(c, kind, body)
		},
	}
}

func printHashes(c *cli.Console, kind record.Kind, body []byte) error {
	r, err := record.WidestLimits().ParseRecord(kind, body)
	if refused := (*strict.Error)(nil); errors.As(err, &refused) {
		for _, p := range refused.Problems {
			c.PrintErrf("%s", wire.FieldProblem{Pointer: p.Pointer, Detail: p.Detail})
		}
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	if err != nil {
		return err
	}
	defer r.Release()
	return cli.PrintJSON(c.Out, r.AppendComputedJSON(nil))
}
