package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage/postgres/postgrestest"
)

// TestMain lets the test binary run as a contestant in a separate process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "contestant" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command runs the program with --quick in a new folder. It returns what the program printed, and
// the contents of the file that --json wrote.
func command(t *testing.T, arguments ...string) (printed string, figures []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append(arguments, "--quick", "--dir", t.TempDir(), "--json", file))
	require.NoError(t, root.ExecuteContext(t.Context()))
	figures, err := os.ReadFile(file)
	require.NoError(t, err)
	return out.String(), figures
}

// The run command measures each selected contestant for each way to post records, and verifies the
// answers.
func TestRun(t *testing.T) {
	rounds := filepath.Join(t.TempDir(), "rounds")
	printed, figures := command(t, "run", "--only", "^(colophon|tessera|immudb)/.*/64$", "--benchstat", rounds, "--profiles", filepath.Join(t.TempDir(), "profiles"))
	var r report
	require.NoError(t, json.Unmarshal(figures, &r))
	require.NotEmpty(t, r.Machine.Filesystem)
	require.NotEmpty(t, r.Machine.Modules["github.com/transparency-dev/tessera"])
	require.Contains(t, r.Builds["colophon"], "colophon ")
	require.Positive(t, r.Before.P50)
	require.Positive(t, r.After.P50)
	names := make(map[string]bool)
	for _, s := range r.Rows {
		names[s.Row.name()] = true
		require.Contains(t, printed, s.Row.Contestant)
		require.Len(t, s.Rounds, 1, s.Row.name())
		m := s.Rounds[0]
		require.Positive(t, m.Records, s.Row.name())
		require.Positive(t, m.Verified, s.Row.name())
		require.Positive(t, m.P50, s.Row.name())
		require.LessOrEqual(t, m.P50, m.P99, s.Row.name())
		require.Positive(t, m.Disk, s.Row.name())
		require.Positive(t, m.Peak, s.Row.name())
		if s.Row.Contestant == "colophon" && s.Row.Way == "http" {
			require.NotEmpty(t, s.Profile, s.Row.name())
			require.Contains(t, printed, s.Row.name()+", a record:")
		}
	}
	for _, name := range []string{"colophon/http/single/64", "colophon/http/batch/64", "colophon/http/batch-minimal/64", "colophon/process/single/64",
		"tessera/http/single/64", "tessera/process/single/64", "immudb/process/single/64"} {
		require.True(t, names[name], name)
	}
	require.Len(t, r.Targets, 2)
	text, err := os.ReadFile(rounds)
	require.NoError(t, err)
	require.Contains(t, string(text), "Benchmarkcolophon/http/batch/64 ")
}

// The proofs command measures how fast Colophon and Tessera build and verify proofs.
func TestProofs(t *testing.T) {
	printed, figures := command(t, "proofs")
	var rows []proofRow
	require.NoError(t, json.Unmarshal(figures, &rows))
	require.Len(t, rows, 6)
	for _, r := range rows {
		require.Positive(t, r.Median.Proofs, r.Contestant)
		require.Positive(t, r.Median.Verified, r.Contestant)
	}
	require.Contains(t, printed, "inclusion proofs at 3000 leaves, over Tessera's builder")
}

// The growth command fills a ledger, and measures its speed, disk space, and memory at each size.
func TestGrowth(t *testing.T) {
	printed, figures := command(t, "growth")
	var steps []step
	require.NoError(t, json.Unmarshal(figures, &steps))
	require.Len(t, steps, 2)
	require.Equal(t, 500, steps[0].Records)
	require.Equal(t, 4000, steps[1].Records)
	for _, s := range steps {
		require.Positive(t, s.Batches.Records)
		require.Positive(t, s.Singles.Records)
		require.Positive(t, s.Database)
		require.Positive(t, s.Memory)
		require.Less(t, s.Unique, s.Body)
	}
	require.Contains(t, printed, "disk, index included, over unique bytes at 4000 records")
}

// The postgres command measures Colophon on PostgreSQL and in a data folder, a plain hash chain in SQL,
// and pgbench with both protocols.
func TestPostgres(t *testing.T) {
	installed, err := postgrestest.IsInstalled()
	require.NoError(t, err)
	if !installed {
		t.Skip("PostgreSQL is not installed")
	}
	printed, figures := command(t, "postgres")
	var result struct {
		Rows    []*postgresRow
		Targets []target
	}
	require.NoError(t, json.Unmarshal(figures, &result))
	require.Len(t, result.Rows, 7)
	for _, r := range result.Rows {
		require.Positive(t, r.Median.Records, r.Row.name())
		require.Positive(t, r.Median.P50, r.Row.name())
		if r.Row.Way == "postgres" {
			require.Positive(t, median(r.WAL), r.Row.name())
		}
	}
	require.Len(t, result.Targets, 7)
	require.Contains(t, printed, "single posts over the chain in SQL")
}

// The servers command measures several servers that share one database, including posts that one
// server forwards to another.
func TestServers(t *testing.T) {
	installed, err := postgrestest.IsInstalled()
	require.NoError(t, err)
	if !installed {
		t.Skip("PostgreSQL is not installed")
	}
	printed, figures := command(t, "servers")
	var result struct{ Rows []*serversRow }
	require.NoError(t, json.Unmarshal(figures, &result))
	require.Len(t, result.Rows, 9)
	for _, r := range result.Rows {
		for i, figure := range r.Median.fields() {
			waits := figure == &r.Median.Locks || figure == &r.Median.Disk // these two can be 0
			if r.Clients > 1 && !waits {                                   // processor time is counted in steps of 10 ms, and one client can use less than that
				require.Positive(t, *figure, "figure %d with %d servers and %d ledgers", i, r.Servers, r.Ledgers)
			}
		}
		require.Equal(t, r.Forwarded, r.Predicted == 0)
		require.Positive(t, r.Rounds[0].ByTable["colophon_entries"])
	}
	require.Contains(t, printed, "predicted/measured")
	require.Contains(t, printed, "their own machines")
}
