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
	var puts atomic.Int64
	var healthy atomic.Bool
	faults := []buckettest.Fault{buckettest.FaultBeforeCall, buckettest.FaultAfterCall, buckettest.FaultLostPut}
	injected := make([]atomic.Int64, len(faults)) // by the index of the fault
	faulty := s3.FaultyURL(t, "logs", func(method string) buckettest.Fault {
		if method != http.MethodPut || healthy.Load() {
			return buckettest.NoFault
		}
		put := puts.Add(1)
		if put%23 != 0 {
			return buckettest.NoFault
		}
		i := int(put / 23 % 3)
		injected[i].Add(1)
		return faults[i]
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
	last := ""
	for round := range 6 {
		p := start()
		require.True(t, p.up, "%s", p.output)
		if round == 0 {
			status, text := ledgertest.Send(t, http.MethodGet, p.url+remote.LedgerPath(ledger.DefaultName)+"/log/key", "", "")
			require.Equal(t, http.StatusOK, status)
			require.NoError(t, os.WriteFile(key, []byte(text), 0o600))
			require.Eventually(t, func() bool { _, err := os.Stat(checkpoint); return err == nil }, patience, time.Millisecond)
		}
		for posted, text := 0, last; posted < 100 || text == last; posted += 10 { // until the copy has grown
			post(p, 10)
			now, err := os.ReadFile(checkpoint)
			require.NoError(t, err)
			text = string(now)
		}
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
		require.NoError(t, p.cmd.Process.Kill())
		p.wait()
		audit()
		now, err := os.ReadFile(checkpoint)
		require.NoError(t, err)
		last = string(now)
	}
	for i := range injected {
		require.Positive(t, injected[i].Load(), "fault %v", faults[i])
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
	require.Contains(t, output, "VERIFIED: event ")
}
