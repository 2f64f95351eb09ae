package main

import (
	"context"
	"errors"
	"syscall"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
)

// explainAudit turns an error from an audit into the error that the command returns, whose message
// states what happened and what to do.
func explainAudit(ctx context.Context, o monitor.Options, err error) error {
	var state *monitor.StateError
	var note *monitor.CheckpointError
	var uncheckable *monitor.UncheckableError
	var exit *cli.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return cli.Exitf(cli.ExitFailed, "interrupted while auditing %q; %s", o.Ledger, nextAudit(o.State))
	case errors.As(err, &exit):
		return err
	case errors.As(err, &state):
		return explainState(state)
	case errors.As(err, &note):
		return cli.StateErrorf("--against: %w", note)
	case errors.As(err, &uncheckable):
		return cli.Exitf(cli.ExitFailed, "%w", uncheckable)
	case errors.Is(err, fetch.ErrForbidden):
		return cli.Exitf(cli.ExitFailed, "%w", err)
	case errors.Is(err, client.ErrMisdirected):
		return cli.Exitf(cli.ExitUnreachable, "the audit could not be finished: %w", err)
	case errors.Is(err, audit.ErrUnavailable):
		return cli.Exitf(cli.ExitUnreachable, "the audit could not be finished: %w\nOnce the server answers, %s", err, nextAudit(o.State))
	case errors.Is(err, syscall.ENOSPC):
		return cli.Exitf(cli.ExitFailed, "the audit could not be finished: %w\nFree space there, or use another disk: --state names the state's file, TMPDIR the folder for temporary files. The state is unchanged", err)
	}
	return cli.Exitf(cli.ExitFailed, "the audit could not be finished: %w", err)
}

// explainState returns the error for a state file that cannot be used.
func explainState(e *monitor.StateError) error {
	switch e.Reason {
	case monitor.ErrStateInUse:
		return cli.Exitf(cli.ExitInUse, "--state: another audit uses %s: %w\nWait for it, or name another file", e.File, e.Err)
	case monitor.ErrStateDamaged:
		return cli.StateErrorf("--state: %s: %w\nThis says nothing about the ledger: a disk or a program has changed what the last audit wrote. "+
			"Restore copies of this file and of %s that were made at the same time. Without copies, remove both and audit the log from its beginning. That audit does not know what earlier audits saw; "+
			"if you have checkpoints of the ledger, give them with --against", e.File, e.Err, e.Folder)
	case monitor.ErrStateMismatch:
		return cli.StateErrorf("--state: %s: %w\nName another file, or remove this one and %s to audit the log from its beginning. That audit does not know what earlier audits saw", e.File, e.Err, e.Folder)
	case monitor.ErrStateIncomplete:
		return cli.StateErrorf("--state: %s is missing, but %s from an earlier audit exists. With a new file, what that audit saw would be forgotten\n"+
			"Restore the file, or remove the folder too and audit the log from its beginning", e.File, e.Folder)
	}
	return cli.StateErrorf("--state: %w", e.Err)
}

// nextAudit returns a clause for error messages that states where the next audit will begin.
func nextAudit(state string) string {
	if state == "" {
		return "the next audit begins at the start of the log; with --state, it would continue from here"
	}
	return "the next audit continues from the state in " + state
}
