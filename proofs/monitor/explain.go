package monitor

import (
	"context"
	"errors"
	"syscall"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/proofs/audit"
)

// whatNow says what the reader of a finding can do.
func whatNow(kind audit.Kind) string {
	switch kind {
	case audit.KindSignature, audit.KindCheckpoint:
		return `check that URL and key belong to one ledger, and that the key comes from a source that you
            trust; if so, this server does not have the ledger's key: do not rely on anything it shows`
	case audit.KindRollback, audit.KindFork:
		return `keep the state and the files of --against: together with the checkpoint that is served now
            they prove it to everyone who has the key; ask the operator which of the two is theirs`
	case audit.KindTruncated, audit.KindEntry, audit.KindTile:
		return `the server shows something else than it has signed, by damage or on purpose: audit again
            without a proxy; if it stays, the operator has to run colophon fsck and restore a backup`
	case audit.KindContent, audit.KindRedaction:
		return `content that the log commits to is missing or different: the operator has to run
            colophon fsck, which distinguishes lost content from withheld content`
	case KindAnswer, KindMetrics, KindReceipt:
		return `the log is valid, but the server's answers do not follow from it: use a server of the same
            version as this program; if it stays, the operator has to run colophon reindex and fsck`
	}
	return `the ledger has signed something that cannot be valid: keep the checkpoint and the entries
            around it (GET /events?from=) as proof, and do not rely on what was recorded since`
}

// Explain returns the error that the command ends with: what happened, and what to do.
func (a *Auditor) Explain(ctx context.Context, err error) error {
	var exit *cli.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return cli.Exitf(cli.ExitFailed, "interrupted while auditing %q; %s", a.Ledger, a.goesOn())
	case errors.As(err, &exit):
		return err
	case errors.Is(err, errNoRight):
		return cli.Exitf(cli.ExitFailed, "%w", err)
	case errors.Is(err, client.ErrMisdirected):
		return cli.Exitf(cli.ExitUnreachable, "the audit could not be finished: %w", err)
	case errors.Is(err, audit.ErrUnavailable):
		return cli.Exitf(cli.ExitUnreachable, "the audit could not be finished: %w\nOnce the server answers, %s", err, a.goesOn())
	case errors.Is(err, syscall.ENOSPC):
		return cli.Exitf(cli.ExitFailed, "the audit could not be finished: %w\nMake room there, or name another place: --state, and TMPDIR for the rest. The state is unchanged", err)
	}
	return cli.Exitf(cli.ExitFailed, "the audit could not be finished: %w", err)
}

// goesOn says where the next audit begins.
func (a *Auditor) goesOn() string {
	if a.State == "" {
		return "the next audit begins at the start of the log; with --state it would continue"
	}
	return "the next audit goes on from what " + a.State + " remembers"
}
