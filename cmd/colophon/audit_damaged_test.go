package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
)

// The audit state lists at most 63 unproved checkpoints, even if a server keeps serving new ones.
func TestUnprovedCheckpointsAreBounded(t *testing.T) {
	w := ledgertest.New(t, 1, 0, 0)
	signer, err := datadir.KeyFiles(w.DataDir).Load("default")
	require.NoError(t, err)
	var number byte
	url := serveRaw(t, w.DataDir, func(answer http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/log/checkpoint") {
			note, _ := signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Size: w.Size + uint64(number), Root: proofs.Hash{number}})
			_, _ = answer.Write(note)
			return true
		}
		http.NotFound(answer, r)
		return true
	})
	state := filepath.Join(t.TempDir(), "state")
	for number = range 64 + 2 {
		_, o := audited(t, url, w.Key, "--state", state)
		require.NotZero(t, o.code)
	}
	require.Len(t, stateOf(t, state).Unproved, 63)
}

// An audit that continues from a state file without checksums uses only the checkpoints in it, and
// checks the whole log again.
func TestStatesWithoutChecksumsAreConverted(t *testing.T) {
	w := newSeenWorld(t)
	state := filepath.Join(t.TempDir(), "state")
	w.audit(t, w.log, state, 0)
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	s := make(map[string]any)
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	require.NoError(t, numbers.Decode(&s))
	s["version"], s["checksum"], s["files"] = 1, "", nil
	text, err = json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	for _, url := range []string{w.fork, w.grown} {
		require.NoError(t, os.WriteFile(state, text, 0o600))
		facts := filepath.Join(state+".d", "facts")
		damaged, err := os.ReadFile(facts)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(facts, append([]byte{0xff}, damaged...), 0o600))
		report, o := audited(t, url, w.Key, "--state", state)
		if url == w.fork {
			require.Equal(t, 33, o.code, "the checkpoints of the earlier audit must be kept: %s%s", o.stdout, o.stderr)
			continue
		}
		require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
		require.Equal(t, report.Size, report.WalkedEntries, "the checks of the earlier audit must not be trusted")
		require.Equal(t, 2, stateOf(t, state).Version)
	}
	s["checkpoint"] = s["checkpoint"].(string)[1:]
	text, err = json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(state, text, 0o600))
	o := commandLine(t.Context(), "audit", w.grown, "--key", w.Key, "--state", state)
	require.Equal(t, cli.ExitUsage, o.code, o.stderr)
	require.Contains(t, o.stderr, "This is not evidence against the ledger")
}
