package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/testing/ledgertest"
)

// If the server does not show its metrics, the audit reports the ledger neither as clean nor as
// damaged.
func TestHiddenMetricsAreNotChecked(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	for _, status := range []int{http.StatusNotFound, http.StatusForbidden, http.StatusUnauthorized, http.StatusInternalServerError, http.StatusFound} {
		report, o := audited(t, liar(t, w, lie{about: onPath("/metrics"), status: status}), w.Key, "--replay-index", "--sample", "1")
		require.Equal(t, cli.ExitWithheld, o.code, "%d: %s%s", status, o.stdout, o.stderr)
		require.False(t, report.Clean)
		require.Empty(t, report.Findings)
		require.Len(t, report.UnperformedChecks, 1)
	}
}
