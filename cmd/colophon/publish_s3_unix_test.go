//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/publish/bucket/buckettest"
	"colophon/internal/remote"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
)

// A server publishes to a real S3 server through a faulty line, and is killed again and again. After each
// kill, audit accepts the copy. After the faults, the copy has the whole log, and verify accepts a receipt with it.
func TestKilledPublisherOnS3(t *testing.T) {
	s3 := buckettest.StartS3(t)
	var calls atomic.Int64
	var healthy atomic.Bool
	faults := []buckettest.Fault{buckettest.FaultBeforeCall, buckettest.FaultAfterCall, buckettest.FaultLostPut}
	faulty := s3.FaultyURL(t, "logs", func(string) buckettest.Fault {
		if call := calls.Add(1); call%7 == 0 && !healthy.Load() {
			return faults[call/7%3]
		}
		return buckettest.NoFault
	})
	copied := strings.Replace(s3.URL("logs"), "?", remote.LedgerPath(ledger.DefaultName)+"?", 1)
	checkpoint := filepath.Join(s3.ObjectFolder(), "logs", filepath.FromSlash(remote.LedgerPath(ledger.DefaultName)), "log", "checkpoint")
	data, key := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "key")
	command := func(args ...string) (code int, output string) {
		var text bytes.Buffer
		code = run(t.Context(), args, nil, &text, &text, os.LookupEnv)
		return code, text.String()
	}
	post := func(p *process, n int) (receipt string) {
		for range n {
			var status int
			status, receipt = ledgertest.Send(t, http.MethodPost, p.url+remote.LedgerPath(ledger.DefaultName)+"/ipc-records",
				fmt.Sprintf(`{"run_id":"r-%d","payload":{"n":1},"system_prompt":"s","output":"o","model":"m","temperature":0.5,"max_tokens":16}`, records.Add(1)), "application/json")
			require.Equal(t, http.StatusCreated, status, receipt)
		}
		return receipt
	}
	audit := func() {
		t.Helper()
		code, output := command("audit", copied, "--key", key)
		require.Equal(t, cli.ExitOK, code, output)
	}
	start := func() *process {
		return startProcess(t, data, "--publish", faulty, "--publish-ledgers", ledger.DefaultName, "--publish-every", "1ms")
	}
	for round := range 6 {
		p := start()
		require.True(t, p.up, "%s", p.output)
		if round == 0 {
			status, text := ledgertest.Send(t, http.MethodGet, p.url+remote.LedgerPath(ledger.DefaultName)+"/log/key", "", "")
			require.Equal(t, http.StatusOK, status)
			require.NoError(t, os.WriteFile(key, []byte(text), 0o600))
			require.Eventually(t, func() bool { _, err := os.Stat(checkpoint); return err == nil }, patience, time.Millisecond)
		}
		post(p, 100)
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		require.NoError(t, p.cmd.Process.Kill())
		p.wait()
		audit()
	}
	healthy.Store(true)
	p := start()
	require.True(t, p.up, "%s", p.output)
	receipt := filepath.Join(t.TempDir(), "receipt.json")
	require.NoError(t, os.WriteFile(receipt, []byte(post(p, 1)), 0o600))
	_, want := ledgertest.Send(t, http.MethodGet, p.url+remote.LedgerPath(ledger.DefaultName)+"/log/checkpoint", "", "")
	require.Eventually(t, func() bool { text, _ := os.ReadFile(checkpoint); return string(text) == want }, patience, 10*time.Millisecond, "%s", p.output)
	audit()
	code, output := command("verify", receipt, "--key", key, "--copy", copied)
	require.Equal(t, cli.ExitOK, code, output)
	require.Contains(t, output, "VERIFIED: event 601 ")
	require.Greater(t, calls.Load(), int64(21), "each fault must have been injected")
}
