package monitor

import (
	"context"
	"errors"
	"time"

	"colophon/internal/cli"
	"colophon/proofs/audit"
)

// watch audits the ledger repeatedly, until it is interrupted or something is wrong. It prints
// a report whenever the log has grown. If the server does not answer, it keeps trying.
func (a *Auditor) watch(ctx context.Context) error {
	for first := true; ; first = false {
		err := a.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // the usual end
		case errors.Is(err, audit.ErrUnavailable) && !first:
			a.Say("%v; trying again", err)
		case err != nil:
			return err
		case first || a.Report.Walked > 0 || !a.Report.Clean:
			if err := a.Report.print(a.Console, a.JSON, true); err != nil {
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
