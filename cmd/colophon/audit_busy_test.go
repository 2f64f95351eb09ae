package main

import (
	"colophon/internal/testing/ledgertest"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An audit of an intact ledger finds nothing wrong even if the ledger grows and erases content during
// the audit. It checks each answer against the tree size that the answer states, and each ranking
// against the head at the time of the request.
func TestAuditOfABusyLedger(t *testing.T) {
	w := ledgertest.NewPopulated(t, 20)
	ledger, stop := ledgertest.Serve(t, w.Copy(t))
	defer stop()
	var done atomic.Bool
	ended, erased := make(chan int), 0
	go func() {
		posted := 0
		for ; posted < 5000 && !done.Load(); posted++ {
			status, answer := ledgertest.Send(t, "POST", ledger+"/ipc-records", fmt.Sprintf(`{"payload":{"q":"%d"},"system_prompt":"Be brief.","output":"%d","model":"m%d","temperature":0.5,"max_tokens":9,"seed":7,"labels":{"n":"%d"}}`,
				posted%5, posted%3, posted%2, posted%10), "application/json")
			assert.Equal(t, http.StatusCreated, status, answer)
			if posted%10 == 0 {
				status, _ = ledgertest.Send(t, "DELETE", fmt.Sprintf("%s/records/%d/content", ledger, 1+posted/10), `{"reason":"r"}`, "application/json")
				assert.Contains(t, []int{http.StatusCreated, http.StatusOK, http.StatusNotFound}, status) // 404 if the content was already erased or never existed
				if status == http.StatusCreated {
					erased++
				}
			}
		}
		ended <- posted
	}()
	report, o := audited(t, ledger, w.Key, "--content", "--replay-index", "--sample", "3", "--receipts", "5")
	done.Store(true)
	posted := <-ended
	require.NotZero(t, posted)
	require.NotZero(t, erased)
	require.Empty(t, report.Findings, "%s%s", o.stdout, o.stderr)
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	t.Logf("%d records written and %d erased during the audit, %d events at the head, %d queries", posted, erased, ledgertest.TreeSize(t, ledger), report.Queries)
}
