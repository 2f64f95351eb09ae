package doctor

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/server"
)

// testNow is the current time in the tests' deployments.
var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newDeployment returns a deployment with the default settings, an empty data folder, and no
// server. It applies the changes in order.
func newDeployment(t testing.TB, changes ...func(*deployment)) *deployment {
	t.Helper()
	nothing := func(string) (string, bool) { return "", false }
	d := &deployment{version: "v1.2.3", console: &cli.Console{Out: io.Discard, Err: io.Discard, LookupEnv: nothing}, now: testNow}
	d.settings.config = server.Config{}.WithDefaults()
	d.settings.config.DataDir = t.TempDir()
	require.NoError(t, os.Chmod(d.data(), 0o700))
	for _, change := range changes {
		change(d)
	}
	return d
}

// withConfig returns a change for newDeployment that applies change to the database server's settings.
func withConfig(change func(*server.Config)) func(*deployment) {
	return func(d *deployment) { change(&d.settings.config) }
}

// requireFinding requires that list contains a finding with the given verdict whose description
// contains words.
func requireFinding(t testing.TB, list []Finding, verdict Verdict, words string) {
	t.Helper()
	require.NotEmpty(t, list)
	for _, d := range list {
		require.NotEmpty(t, d.Message)
		if d.Verdict == verdict && strings.Contains(d.Message, words) {
			require.True(t, d.Advice != "" || verdict == VerdictOK || verdict == VerdictNotChecked, "the finding %q gives no advice", d.Message)
			return
		}
	}
	require.Failf(t, "not found", "%s %q in %v", verdict, words, list)
}

// checkCase consists of a change to a deployment and the finding that a check must return after
// that change.
type checkCase struct {
	name    string
	change  func(*deployment)
	verdict Verdict
	words   string
}

func runCheckCases(t *testing.T, check func(*deployment) []Finding, cases []checkCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			requireFinding(t, check(newDeployment(t, c.change)), c.verdict, c.words)
		})
	}
}

func TestChecksOfAnUnknownDeployment(t *testing.T) {
	names := make(map[string]bool)
	for _, check := range allChecks() {
		require.False(t, names[check.name], check.name)
		names[check.name] = true
	}
	for _, d := range newDeployment(t).runChecks() {
		require.True(t, names[d.Check])
		require.NotEmpty(t, d.Message)
		require.NotEqual(t, VerdictWrong, d.Verdict, "%v", d)
	}
}

func TestExamineConcludesNothingWhenInterrupted(t *testing.T) {
	d := newDeployment(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := Examine(ctx, d.console, Options{Flags: givenFlags(t, "--data", d.data(), "--store", "postgres://127.0.0.1:1/x")})
	require.EqualError(t, err, "interrupted; nothing was concluded")
	require.Empty(t, report.Findings)
}
