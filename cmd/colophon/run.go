package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// console is what a command has of the world around it.
type console struct {
	in       io.Reader
	out, err io.Writer
	// env looks up an environment variable, like os.LookupEnv.
	env func(name string) (string, bool)
}

// environment is the value of a variable, fallback if it is unset or empty.
func (c *console) environment(name, fallback string) string {
	if value, set := c.env(name); set && value != "" {
		return value
	}
	return fallback
}

// say writes one line to the standard error.
func (c *console) say(format string, args ...any) {
	fmt.Fprintf(c.err, "colophon: "+format+"\n", args...)
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) int {
	c := &console{in: stdin, out: stdout, err: stderr, env: env}
	root := newRoot(c)
	root.SetArgs(args)
	// What fails before a command has begun is the command line.
	begun := false
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	exit := &exitError{code: exitFailed, err: err}
	if !begun {
		exit.code = exitUsage
	}
	errors.As(err, &exit)
	if exit.err != nil {
		c.say("%v", exit.err)
	}
	if exit.code == exitUsage && !exit.plain {
		c.say("run %q for help", command.CommandPath()+" --help")
	}
	return exit.code
}

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:   "colophon",
		Short: "An append-only provenance ledger for generated text",
		Long: `Colophon records what a text was made from and by, as hashes that it recomputes
itself, in a log that nobody can change unnoticed, and hands back a receipt for
every record that anybody can verify without asking the server again.`,
		Example: `  colophon serve --data ./data
  colophon import generations.ndjson.gz
  colophon verify receipt.json --key verifier.key`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(explainFlag)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.AddCommand(
		newServe(c), newImport(c), newVerify(c), newProve(c), newExport(c), newHash(c),
		newKeygen(c), newKeys(c), newLedger(c), newToken(c), newDrift(c), newRedact(c), newFsck(c), newAudit(c), newDoctor(c), newReindex(c), newBackup(c), newRestore(c), newMetrics(c), newPing(c), newVersion(c),
	)
	return root
}
