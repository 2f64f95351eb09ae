package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/proofs/monitor"
)

// commandResult holds the exit code and the output of a command.
type commandResult struct {
	code           int
	stdout, stderr string
}

// commandLine runs a command, such as audit or fsck, with an empty environment.
func commandLine(ctx context.Context, args ...string) commandResult {
	var out, stderr bytes.Buffer
	c := cli.New(strings.NewReader(""), &out, &stderr, func(string) (string, bool) { return "", false })
	var o commandResult
	if args[0] == "audit" {
		o.code = auditCommand(ctx, c, args[1:]...)
	} else {
		o.code = run(ctx, args, c.In, &out, &stderr, c.LookupEnv)
	}
	o.stdout, o.stderr = out.String(), stderr.String()
	return o
}

// auditCommand runs the audit command without the root command and returns the exit code.
func auditCommand(ctx context.Context, c *cli.Console, args ...string) int {
	command := newAudit(c)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args)
	command.SetOut(c.Out)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return cli.ExitOK
	}
	exit := &cli.ExitError{Code: cli.ExitUsage, Err: err} // an error before the command starts is a usage error
	errors.As(err, &exit)
	if exit.Err != nil {
		c.PrintErrf("%v", exit.Err)
	}
	return exit.Code
}

// audited runs audit --json on a ledger. It returns the parsed report and the result of the
// command.
func audited(t testing.TB, url, key string, flags ...string) (auditReport, commandResult) {
	t.Helper()
	o := commandLine(t.Context(), append([]string{"audit", url, "--key", key, "--json"}, flags...)...)
	report := auditReport{Report: new(monitor.Report)}
	if o.stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &report), "%s%s", o.stdout, o.stderr)
		require.Equal(t, o.code, report.Code)
	}
	return report, o
}
