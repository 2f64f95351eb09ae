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
	"colophon/proofs/monitor/fetch"
)

// The text of a report gives advice for each finding, and a position unless the whole log is
// affected.
func TestFindingsGiveAdvice(t *testing.T) {
	for _, e := range auditExits {
		seq := uint64(0)
		r := newAuditReport(&monitor.Report{Ledger: "default", Findings: []monitor.Finding{{Kind: e.kind, Seq: &seq, Message: "because"}}})
		require.Equal(t, e.code, r.Code)
		text := r.String()
		require.Contains(t, text, "\n  what now  ")
		_, where, _ := strings.Cut(text, string(e.kind)+": ")
		nowhere := e.kind == audit.DamageKindSignature || e.kind == audit.DamageKindCheckpoint || e.kind == audit.DamageKindRoot || e.kind == audit.DamageKindRollback
		require.Equal(t, nowhere, strings.HasPrefix(where, "because"), text)
	}
	require.Equal(t, "rollback: at size 7: because", (&audit.Damage{Kind: audit.DamageKindRollback, Seq: 7, Message: "because"}).Error())
}

// The error from an unfinished audit states the cause, and where the next audit begins.
func TestUnfinishedAuditsSayHowToContinue(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx   context.Context
		state string
		err   error
		code  int
		says  []string
	}{
		{interrupted, "", context.Canceled, cli.ExitFailed, []string{"interrupted", "begins at the start of the log; with --state, it would continue"}},
		{interrupted, "seen", context.Canceled, cli.ExitFailed, []string{"interrupted", "continues from the state in seen"}},
		{t.Context(), "", fmt.Errorf("audit: %w", fetch.UnavailableError{Reason: errors.New("no answer")}), cli.ExitUnreachable, []string{"audit: no answer\nOnce the server answers, the next audit begins at the start of the log"}},
		{t.Context(), "seen", fmt.Errorf("audit: %w", &os.PathError{Op: "write", Path: "seen.d/facts", Err: syscall.ENOSPC}), cli.ExitFailed, []string{"seen.d/facts", "Free up disk space"}},
		{t.Context(), "", fmt.Errorf("/producers: %w", &monitor.UncheckableError{Subject: "the answers", Reason: "403 not yours"}), cli.ExitFailed, []string{"the answers cannot be audited: 403 not yours"}},
		{t.Context(), "", fmt.Errorf("fetching: %w", fetch.UnavailableError{Reason: fetch.ErrForbidden}), cli.ExitFailed, []string{fetch.ErrForbidden.Error()}},
		{t.Context(), "seen", &monitor.CheckpointError{Name: "theirs", Err: errors.New("not signed")}, cli.ExitUsage, []string{"--against: theirs: not signed"}},
		{t.Context(), "seen", &monitor.StateError{File: "seen", Folder: "seen.d", Reason: monitor.ErrStateInUse, Err: errors.New("locked")}, cli.ExitInUse, []string{"--state: another audit is using seen: locked", "Wait for that audit to finish"}},
		{t.Context(), "seen", &monitor.StateError{File: "seen", Folder: "seen.d", Reason: monitor.ErrStateDamaged, Err: errors.New("a checksum")}, cli.ExitUsage, []string{"--state: seen: a checksum", "This is not evidence against the ledger", "seen.d"}},
		{t.Context(), "seen", &monitor.StateError{File: "seen", Folder: "seen.d", Reason: monitor.ErrStateMismatch, Err: errors.New("version 3")}, cli.ExitUsage, []string{"--state: seen: version 3", "Specify a different file, or remove this one and seen.d"}},
		{t.Context(), "seen", &monitor.StateError{File: "seen", Folder: "seen.d", Reason: monitor.ErrStateIncomplete, Err: errors.New("no file")}, cli.ExitUsage, []string{"--state: seen is missing, but seen.d from an earlier audit exists", "Restore the file"}},
		{t.Context(), "", errors.New("else"), cli.ExitFailed, []string{"cannot finish the audit: else"}},
	} {
		err := explainAudit(c.ctx, monitor.Options{Ledger: "default", StateFile: c.state}, c.err)
		exit := new(cli.ExitError)
		require.ErrorAs(t, err, &exit)
		require.Equal(t, c.code, exit.Code)
		for _, text := range c.says {
			require.ErrorContains(t, err, text)
		}
	}
	require.NoError(t, explainAudit(t.Context(), monitor.Options{}, nil))
}

// The first line of a report does not claim more than the audit has checked.
func TestSummariesSayWhatWasNotChecked(t *testing.T) {
	r := auditReport{Clean: true, Report: &monitor.Report{Ledger: "default", Clean: true, Size: 3, WalkedEntries: 3}}
	require.Contains(t, r.String(), "default: clean: 3 events")
	r.UnperformedChecks = []string{"metrics: 404"}
	require.Contains(t, r.String(), "default: clean, except for what is NOT CHECKED: 3 events")
	r.WalkedEntries, r.PreviousSuccess = 1, &monitor.LastSuccess{LogSize: 2, Time: "2026-01-02T03:04:05Z"}
	require.Contains(t, r.String(), "default: clean, except for what is NOT CHECKED: 1 new event checked now; 2 of 3 events were checked before, last at 2026-01-02T03:04:05Z, and were not fetched again")
}
