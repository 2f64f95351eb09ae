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
		return cli.ExitErrorf(cli.ExitFailed, "interrupted while auditing %q; %s", o.Ledger, nextAudit(o.StateFile))
	case errors.As(err, &exit):
		return err
	case errors.As(err, &state):
		return explainState(state)
	case errors.As(err, &note):
		return cli.FileStateErrorf("--against: %w", note)
	case errors.As(err, &uncheckable):
		return cli.ExitErrorf(cli.ExitFailed, "%w", uncheckable)
	case errors.Is(err, fetch.ErrForbidden):
		return cli.ExitErrorf(cli.ExitFailed, "%w", err)
	case errors.Is(err, client.ErrTLSMismatch):
		return cli.ExitErrorf(cli.ExitUnreachable, "cannot finish the audit: %w", err)
	case errors.Is(err, audit.ErrUnavailable):
		return cli.ExitErrorf(cli.ExitUnreachable, "cannot finish the audit: %w\nOnce the server answers, %s", err, nextAudit(o.StateFile))
	case errors.Is(err, syscall.ENOSPC):
		return cli.ExitErrorf(cli.ExitFailed, "cannot finish the audit: %w\nFree up disk space, or use another disk: --state sets the path of the state file, and TMPDIR sets the folder for temporary files. The state is unchanged", err)
	}
	return cli.ExitErrorf(cli.ExitFailed, "cannot finish the audit: %w", err)
}

// explainState returns the error for a state file that cannot be used.
func explainState(e *monitor.StateError) error {
	switch e.Reason {
	case monitor.ErrStateInUse:
		return cli.ExitErrorf(cli.ExitInUse, "--state: another audit is using %s: %w\nWait for that audit to finish, or specify a different file", e.File, e.Err)
	case monitor.ErrStateDamaged:
		return cli.FileStateErrorf("--state: %s: %w\nThis is not evidence against the ledger: the local state has changed since the last audit wrote it. "+
			"Restore copies of this file and of %s that were made at the same time. Without copies, remove both and audit the log from its beginning. The new audit will not know what earlier audits saw; "+
			"if you have checkpoints of the ledger, pass them with --against", e.File, e.Err, e.Folder)
	case monitor.ErrStateMismatch:
		return cli.FileStateErrorf("--state: %s: %w\nSpecify a different file, or remove this one and %s to audit the log from its beginning. The new audit will not know what earlier audits saw", e.File, e.Err, e.Folder)
	case monitor.ErrStateIncomplete:
		return cli.FileStateErrorf("--state: %s is missing, but %s from an earlier audit exists. A new state file would lose what that audit saw\n"+
			"Restore the file, or remove the folder and audit the log from its beginning", e.File, e.Folder)
	}
	return cli.FileStateErrorf("--state: %w", e.Err)
}

// nextAudit returns a clause for error messages that states where the next audit will begin.
func nextAudit(state string) string {
	if state == "" {
		return "the next audit begins at the start of the log; with --state, it would continue from here"
	}
	return "the next audit continues from the state in " + state
}
