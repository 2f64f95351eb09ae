package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
)

// Whoever is told of a finding is told what to do, and where it is if it is anywhere.
func TestFindingsSayWhatNow(t *testing.T) {
	for _, e := range monitor.Exits() {
		seq := uint64(0)
		r := monitor.Report{Ledger: "default"}
		r.Found(monitor.Finding{Kind: e.Kind, Seq: &seq, Message: "because"})
		r.Conclude()
		text := r.String()
		require.Contains(t, text, "\n  what now  ")
		_, where, _ := strings.Cut(text, string(e.Kind)+": ")
		nowhere := e.Kind == audit.KindSignature || e.Kind == audit.KindCheckpoint || e.Kind == audit.KindRoot || e.Kind == audit.KindRollback
		require.Equal(t, nowhere, strings.HasPrefix(where, "because"), text)
	}
	require.Equal(t, "rollback: at size 7: because", (&audit.Damage{Kind: audit.KindRollback, Seq: 7, Message: "because"}).Error())
}

// An audit that could not be finished says why, and how the next goes on.
func TestAuditsThatAreCutShortSayHowToGoOn(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx   context.Context
		state string
		err   error
		code  int
		says  []string
	}{
		{interrupted, "", context.Canceled, cli.ExitFailed, []string{"interrupted", "begins at the start of the log; with --state it would continue"}},
		{interrupted, "seen", context.Canceled, cli.ExitFailed, []string{"interrupted", "goes on from what seen remembers"}},
		{t.Context(), "", fmt.Errorf("audit: %w", monitor.UnavailableError{Reason: errors.New("no answer")}), cli.ExitUnreachable, []string{"audit: no answer\nOnce the server answers, the next audit begins at the start of the log"}},
		{t.Context(), "seen", fmt.Errorf("audit: %w", &os.PathError{Op: "write", Path: "seen.d/facts", Err: syscall.ENOSPC}), cli.ExitFailed, []string{"seen.d/facts", "Make room"}},
		{t.Context(), "", monitor.UnavailableError{Reason: cli.Exitf(cli.ExitUsage, "403 not yours")}, cli.ExitUsage, []string{"403 not yours"}},
		{t.Context(), "", errors.New("else"), cli.ExitFailed, []string{"the audit could not be finished: else"}},
	} {
		a := &monitor.Auditor{Options: monitor.Options{Ledger: "default", State: c.state}}
		err := a.Explain(c.ctx, c.err)
		exit := new(cli.ExitError)
		require.ErrorAs(t, err, &exit)
		require.Equal(t, c.code, exit.Code)
		for _, text := range c.says {
			require.ErrorContains(t, err, text)
		}
	}
	require.NoError(t, new(monitor.Auditor).Explain(t.Context(), nil))
}

// Who reads the first line alone is not told more than was seen.
func TestSummariesSayWhatWasNotChecked(t *testing.T) {
	r := monitor.Report{Ledger: "default", Clean: true, Size: 3, Walked: 3}
	require.Contains(t, r.String(), "default: clean: 3 events")
	r.Unchecked = []string{"metrics: 404"}
	require.Contains(t, r.String(), "default: clean but for what is NOT CHECKED: 3 events")
	r.Walked, r.Earlier = 1, &monitor.CheckedAt{Size: 2, Time: "2026-01-02T03:04:05Z"}
	require.Contains(t, r.String(), "default: clean but for what is NOT CHECKED: 1 new event checked now; 2 of 3 events were checked before, last at 2026-01-02T03:04:05Z, and were not fetched again")
}
