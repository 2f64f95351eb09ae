package monitor

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
func (a *Auditor) watch(ctx context.Context) error {
	for first := true; ; first = false {
		err := a.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // that is how it ends
		case errors.Is(err, audit.ErrUnavailable) && !first:
			a.Say("%v; trying again", err)
		case err != nil:
			return err
		case first || a.Report.Walked > 0 || !a.Report.Clean:
			if err := a.Report.print(a.Console, a.Json, true); err != nil {
				return err
			}
		}
		if err == nil && !a.Report.Clean {
			return &cli.ExitError{Code: a.Report.Code}
		}
		select {
		case <-time.After(a.Interval):
		case <-ctx.Done():
			return nil
		}
	}
}
