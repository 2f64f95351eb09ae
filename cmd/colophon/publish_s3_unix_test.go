//go:build unix

package main

import (
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
	path := remote.LedgerPath(ledger.DefaultName)
	copied := strings.Replace(s3.URL("logs"), "?", path+"?", 1)
	checkpoint := filepath.Join(s3.ObjectFolder(), "logs", filepath.FromSlash(path), "log", "checkpoint")
	data, key := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "key")
	post := func(p *process, n int) (receipt string) {
		for range n {
			var status int
			status, receipt = ledgertest.Send(t, http.MethodPost, p.url+path+"/ipc-records", newRecord(), "application/json")
			require.Equal(t, http.StatusCreated, status, receipt)
		}
		return receipt
	}
	audit := func() {
		t.Helper()
		code, stdout, stderr := colophon("", "audit", copied, "--key", key)
		require.Equal(t, cli.ExitOK, code, stdout+stderr)
	}
	start := func() *process {
		return startProcess(t, data, "--publish", faulty, "--publish-ledgers", ledger.DefaultName, "--publish-every", "1ms")
	}
	last := ""
	for round := range 6 {
		p := start()
		require.True(t, p.up, "%s", p.output)
		if round == 0 {
			status, text := ledgertest.Send(t, http.MethodGet, p.url+path+"/log/key", "", "")
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
	_, want := ledgertest.Send(t, http.MethodGet, p.url+path+"/log/checkpoint", "", "")
	require.Eventually(t, func() bool { text, _ := os.ReadFile(checkpoint); return string(text) == want }, patience, 10*time.Millisecond, "%s", p.output)
	audit()
	code, stdout, stderr := colophon("", "verify", receipt, "--key", key, "--copy", copied)
	require.Equal(t, cli.ExitOK, code, stdout+stderr)
	require.Contains(t, stdout, "VERIFIED: event ")
}
