package main

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
	"colophon/proofs/monitor"
)

// An audit that continues from a state distinguishes what it has checked itself from what earlier
// audits checked. In this test, a server alters an old entry that the second audit does not fetch.
func TestReportsSayWhatWasCheckedWhen(t *testing.T) {
	w := ledgertest.New(t, 20, 0, 0)
	var altered atomic.Bool
	url := serveRaw(t, w.DataDir, func(answer http.ResponseWriter, r *http.Request) bool {
		if !altered.Load() || !strings.Contains(r.URL.Path, "/tile/entries/") {
			return false
		}
		_, _ = answer.Write([]byte("altered"))
		return true
	})
	state := filepath.Join(t.TempDir(), "state")
	first, o := audited(t, url, w.Key, "--state", state, "--content")
	require.True(t, first.Clean, "%s%s", o.stdout, o.stderr)
	require.Nil(t, first.PreviousSuccess)
	require.Equal(t, []monitor.SkippedCheck{{Name: monitor.AnswersCheckName}, {Name: monitor.ReceiptsCheckName}}, first.SkippedChecks)

	altered.Store(true)
	report, o := audited(t, url, w.Key, "--state", state)
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	require.Zero(t, report.WalkedEntries)
	require.Equal(t, &monitor.LastSuccess{LogSize: w.Size, Time: first.StartTime}, report.PreviousSuccess)
	require.Equal(t, []monitor.SkippedCheck{{Name: monitor.ContentCheckName, LastSuccess: &monitor.LastSuccess{LogSize: w.Size, Time: first.StartTime}}, {Name: monitor.AnswersCheckName}, {Name: monitor.ReceiptsCheckName}}, report.SkippedChecks)
	text := commandLine(t.Context(), "audit", url, "--key", w.Key, "--state", state).stdout
	require.Contains(t, text, "default: clean: 0 new events checked now; "+cli.FormatUint(w.Size)+" of "+cli.FormatUint(w.Size)+" events were checked before, last at ")
	require.Contains(t, text, ", and were not fetched again")
	require.Contains(t, text, "skipped   content (--content checks it); last checked at "+first.StartTime+", when the log had "+cli.FormatUint(w.Size)+" events")
	require.Contains(t, text, "skipped   answers (--replay-index checks it)\n")

	whole, _ := audited(t, url, w.Key, "--state", state, "--content")
	require.False(t, whole.Clean, "an audit that fetches the entry must find the change")
	again, _ := audited(t, url, w.Key, "--state", state)
	require.Equal(t, &monitor.LastSuccess{LogSize: w.Size, Time: first.StartTime}, again.SkippedChecks[0].LastSuccess, "content that failed the check must not be reported as checked")
}

// A report contains the time span that the log covers, the number of failed claims, and the number
// of records in each state. These totals cover all events, even if the audit checked only some of
// them.
func TestReportsHaveTotals(t *testing.T) {
	w := ledgertest.New(t, 20, 0, 0)
	url, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	state := filepath.Join(t.TempDir(), "state")
	check := func(mismatched, refused uint64, states map[string]uint64) {
		t.Helper()
		fresh, o := audited(t, url, w.Key)
		require.True(t, fresh.Clean, "%s%s", o.stdout, o.stderr)
		report, _ := audited(t, url, w.Key, "--state", state)
		for _, r := range []auditReport{fresh, report} {
			require.Equal(t, []any{mismatched, refused, states}, []any{r.MismatchedRecords, r.Refusals, r.RecordsByState})
			require.Equal(t, timeAt(t, url, 0), r.FirstEventTime)
			require.Equal(t, timeAt(t, url, r.Size-1), r.LastEventTime)
		}
		require.Equal(t, fresh.Records, report.Records)
	}
	set := func(name, state string) {
		t.Helper()
		status, answer := ledgertest.Send(t, "POST", url+"/records/"+cli.FormatUint(w.EventSeqs[name])+"/state", `{"state":"`+state+`","reason":"r"}`, "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	check(2, 1, map[string]uint64{"live": 26, "failed": 0, "stale": 1, "quarantined": 0})
	set("claims", "failed")
	set("ipc", "stale")
	set("dag", "quarantined")
	check(2, 1, map[string]uint64{"live": 24, "failed": 1, "stale": 1, "quarantined": 1})
	set("claims", "live")
	set("ipc", "failed")
	set("ipc", "quarantined")
	check(2, 1, map[string]uint64{"live": 25, "failed": 0, "stale": 0, "quarantined": 2})
	text := commandLine(t.Context(), "audit", url, "--key", w.Key).stdout
	require.Contains(t, text, "period    "+timeAt(t, url, 0)+" to ")
	require.Contains(t, text, "records   29, 2 of them with claims that fail, 0 with an idempotency key other than their run_id; 1 refused\n")
	require.Contains(t, text, "states    25 live, 0 failed, 0 stale, 2 quarantined\n")
}

func timeAt(t *testing.T, url string, seq uint64) string {
	t.Helper()
	_, answer := ledgertest.Send(t, "GET", url+"/records/"+cli.FormatUint(seq), "", "")
	_, rest, found := strings.Cut(answer, `"time":"`)
	require.True(t, found, answer)
	at, _, _ := strings.Cut(rest, `"`)
	return at
}

// An audit reports two inconsistent checkpoints even if it reads both of them in one run.
func TestCheckpointsWithinOneAudit(t *testing.T) {
	w := ledgertest.New(t, 20, 0, 20)
	live, stop := ledgertest.Serve(t, w.Copy(t))
	defer stop()
	earlier := w.Copy(t)
	f := newForge(t, w, earlier)
	f.entries = f.entries[:w.Size-5]
	f.sign(w.Size - 5)
	f.done()
	old := noteOf(t, serveRaw(t, earlier, nil))
	for _, state := range []string{"", filepath.Join(t.TempDir(), "state")} {
		var asked atomic.Int32
		url := proxied(t, live, func(answer http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/log/checkpoint") || asked.Add(1) == 1 {
				return false
			}
			_, _ = answer.Write([]byte(old))
			return true
		})
		flags := []string{"--replay-index"}
		if state != "" {
			flags = append(flags, "--state", state)
		}
		report, o := audited(t, url, w.Key, flags...)
		require.Equal(t, 32, o.code, "%s%s", o.stdout, o.stderr)
		require.Equal(t, w.Size-5, *report.Findings[0].Seq)
		if state != "" {
			_, o = audited(t, url, w.Key, "--state", state)
			require.Equal(t, 32, o.code, "the state must keep the larger checkpoint: %s%s", o.stdout, o.stderr)
		}
	}
}

// The audit rejects a bundle that has more entries than the log, even if it contains all of the
// log's entries.
func TestBundlesWithMoreEntries(t *testing.T) {
	w := ledgertest.New(t, 20, 0, 0)
	store := openRaw(t, w.DataDir)
	s := &rawServer{store: store}
	s.instead = func(answer http.ResponseWriter, r *http.Request) bool {
		_, path, found := strings.Cut(r.URL.Path, "/log/")
		if !found || !strings.HasPrefix(path, "tile/entries/") {
			return false
		}
		tile, err := proofs.ParseTilePath(path)
		require.NoError(t, err)
		bundle, err := s.tile(r.Context(), tile)
		require.NoError(t, err)
		entries, err := proofs.ParseBundle(bundle)
		require.NoError(t, err)
		bundle, err = proofs.AppendBundleEntry(bundle, entries[0])
		require.NoError(t, err)
		_, _ = answer.Write(bundle)
		return true
	}
	report, o := audited(t, s.serve(t), w.Key)
	require.Equal(t, 35, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, w.Size, *report.Findings[0].Seq)
}

// The audit rejects the checkpoint of an empty log, because every log contains the event that
// created its ledger.
func TestCheckpointsOfEmptyLogs(t *testing.T) {
	w := ledgertest.New(t, 1, 0, 0)
	signer, err := datadir.KeyFiles(w.DataDir).Load("default")
	require.NoError(t, err)
	note, err := signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Root: sha256.Sum256(nil)})
	require.NoError(t, err)
	url := serveRaw(t, w.DataDir, func(answer http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/log/checkpoint") {
			return false
		}
		_, _ = answer.Write(note)
		return true
	})
	for _, flags := range [][]string{nil, {"--content"}, {"--state", filepath.Join(t.TempDir(), "state")}} {
		_, o := audited(t, url, w.Key, flags...)
		require.Equal(t, 31, o.code, "%s%s", o.stdout, o.stderr)
	}
}

// proxied serves a ledger through a proxy. The proxy calls instead for each request, and forwards
// the request only if instead returns false.
func proxied(t *testing.T, ledgerURL string, instead func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	server, err := url.Parse(strings.TrimSuffix(ledgerURL, remote.LedgerPath("default")))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(server)
	front := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if !instead(answer, r) {
			proxy.ServeHTTP(answer, r)
		}
	}))
	t.Cleanup(front.Close)
	return front.URL + remote.LedgerPath("default")
}
