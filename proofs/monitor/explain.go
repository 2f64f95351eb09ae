package monitor

import (
	"context"
	"errors"
	"syscall"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/proofs/audit"
)

// whatNow is what somebody can do who was told of a finding.
func whatNow(kind audit.Kind) string {
	switch kind {
	case audit.KindSignature, audit.KindCheckpoint:
		return `see that URL and key are of one ledger, and the key from a source that you trust;
            if they are, this server has not the key of the ledger: believe nothing that it shows`
	case audit.KindRollback, audit.KindFork:
		return `keep the state and the files of --against: with the checkpoint that is served now they are
            the proof, for everybody who has the key; ask the operator which of the two he stands by`
	case audit.KindTruncated, audit.KindEntry, audit.KindTile:
		return `what is served is not what was signed, by damage or on purpose: audit again, through
            no proxy; if it stays, the operator has to run colophon fsck and restore from a backup`
	case audit.KindContent, audit.KindRedaction:
		return `the log commits to content that is not there, or not as it should be: the operator has
            to run colophon fsck, which tells what is lost from what is withheld`
	case KindAnswer, KindMetrics, KindReceipt:
		return `the log itself is sound, its server's answers are not: use a server of the same version as
            this program; if it stays, the operator has to run colophon reindex and colophon fsck`
	}
	return `the ledger has signed what cannot be right: keep the checkpoint and the entries around it
            (GET /events?from=), which prove that, and do not rely on what was recorded since`
}

// Explain is the error that ends the audit.
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
		return cli.Exitf(cli.ExitFailed, "the audit could not be finished: %w\nMake room there, or name another place: --state, and TMPDIR for the rest. What a state had before it still has", err)
	}
	return cli.Exitf(cli.ExitFailed, "the audit could not be finished: %w", err)
}

// goesOn says where the next audit begins.
func (a *Auditor) goesOn() string {
	if a.State == "" {
		return "the next audit begins anew; with --state it would go on"
	}
	return "the next audit goes on from what " + a.State + " remembers"
}
