package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/ledgertest"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
)

// With --receipts, a receipt that is missing or never ends is reported as a finding, just like a
// wrong answer.
func TestReceiptsThatAreNotServed(t *testing.T) {
	w := ledgertest.New(t, 110, 0, 0)
	for _, c := range []struct {
		name     string
		answer   func(http.ResponseWriter)
		asked    string
		findings int
		message  string
	}{
		{"none", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, "200", monitor.MaxFindings, "404"},
		{"endless", func(w http.ResponseWriter) { endless(w, make([]byte, 1<<20)) }, "1", 2, fetch.ErrTooLong.Error()},
		{"not JSON", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, "200", monitor.MaxFindings, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serveRaw(t, w.DataDir, func(answer http.ResponseWriter, r *http.Request) bool {
				proof := strings.HasSuffix(r.URL.Path, "/receipt") || strings.HasSuffix(r.URL.Path, "/proofs/consistency")
				if proof {
					c.answer(answer)
				}
				return proof
			})
			report, o := audited(t, url, w.Key, "--receipts", c.asked)
			require.Equal(t, 46, o.code, "%s%s", o.stdout, o.stderr)
			require.Equal(t, c.findings, len(report.Findings))
			for _, f := range report.Findings {
				require.Equal(t, monitor.DamageKindReceipt, f.Kind)
				require.Contains(t, f.Message, c.message)
			}
		})
	}
}
