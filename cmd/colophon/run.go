package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"colophon/cmd/colophon/drift"
	"colophon/internal/cli"
	"colophon/internal/completion"
)

// run executes a command line and returns the exit code. env looks up environment variables.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	c := cli.New(stdin, stdout, stderr, env)
	root := newRoot(c)
	root.SetArgs(args)
	// An error that occurs before a command starts is a usage error.
	begun := false
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return cli.ExitOK
	}
	exit := &cli.ExitError{Code: cli.ExitFailed, Err: err}
	if !begun {
		exit.Code = cli.ExitUsage
	}
	errors.As(err, &exit)
	if exit.Err != nil {
		c.PrintErrf("%v", exit.Err)
	}
	if exit.Code == cli.ExitUsage && !exit.OmitHelpHint {
		if text := err.Error(); strings.HasPrefix(text, "accepts ") || strings.HasPrefix(text, "requires ") { // cobra's errors for a wrong number of arguments
			c.PrintErrf("usage: %s", command.UseLine())
		}
		c.PrintErrf("run %q for help", command.CommandPath()+" --help")
	}
	return exit.Code
}

func newRoot(c *cli.Console) *cobra.Command {
	root := &cobra.Command{
		Use:   "colophon",
		Short: "An append-only provenance ledger for generated text",
		Long: `Colophon records what a text was made from, as hashes that it computes itself,
in a log that cannot be changed without detection. For every record it returns a receipt.
Anyone can verify a receipt without the server.`,
		Example: `  colophon serve --data ./data
  colophon import generations.ndjson.gz
  colophon verify receipt.json --key verifier.key`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(cli.ExplainFlagError)
	root.Version = buildVersion()
	root.SetVersionTemplate(versionLine())
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.AddCommand(
		newServe(c), newImport(c), newVerify(c), newReceipt(c), newProve(c), newExport(c), newHash(c),
		newKeygen(c), newKeys(c), newLedger(c), newToken(c), drift.New(c), drift.NewShowCommand(c), newRerun(c), newState(c), newRedact(c), newPaths(c), newFsck(c), newAudit(c), newDoctor(c), newReindex(c), newBackup(c), newRestore(c), newMigrate(c), newMetrics(c), newDemo(c), newPing(c), newVersion(c),
	)
	completion.RegisterAllFlags(c, root)
	return root
}
