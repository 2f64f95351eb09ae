package main

import (
	"context"
	"errors"
	"time"

	"colophon/internal/cli"
	"colophon/proofs/audit"
)

// watch audits the ledger again and again, until it is interrupted or something is
// wrong. It reports whenever the log has grown. A server that does not answer is waited
// for.
func (a *auditor) watch(ctx context.Context) error {
	for first := true; ; first = false {
		err := a.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // that is how it ends
		case errors.Is(err, audit.ErrUnavailable) && !first:
			a.Say("%v; trying again", err)
		case err != nil:
			return err
		case first || a.report.Walked > 0 || !a.report.Clean:
			if err := a.report.print(a.Console, a.json, true); err != nil {
				return err
			}
		}
		if err == nil && !a.report.Clean {
			return &cli.ExitError{Code: a.report.Code}
		}
		select {
		case <-time.After(a.interval):
		case <-ctx.Done():
			return nil
		}
	}
}
