package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/testing/ledgertest"
	"colophon/internal/verify"
	"colophon/proofs"
	"colophon/proofs/monitor"
)

// An audit of an intact ledger finds nothing wrong, and its report states how much was checked.
func TestAuditOfASoundLedger(t *testing.T) {
	w := ledgertest.New(t, 40, 40, 40)
	url, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	report, o := audited(t, url, w.Key, "--content", "--replay-index", "--receipts", "20")
	require.Equal(t, 0, o.code, "%s%s", o.stdout, o.stderr)
	require.True(t, report.Clean)
	require.Empty(t, report.UnperformedChecks)
	require.Equal(t, []uint64{w.Size, w.Size, w.Size, 20, 1}, []uint64{report.Size, report.WalkedEntries, report.AnswersAsOfSize, report.Receipts, report.RedactedRecords})
	require.Equal(t, []uint64{128, 128}, []uint64{report.RebuiltRecords, report.ConfirmedRecords})
	require.Greater(t, report.Queries, uint64(1000))
	require.Greater(t, report.Rows, uint64(5000))

	text := commandLine(t.Context(), "audit", url+"/", "--key", w.Key, "--content", "--replay-index", "--receipts", "1", "--sample", "1")
	require.Equal(t, 0, text.code, text.stderr)
	require.Contains(t, text.stdout, "default: clean: 136 events")
	require.Contains(t, text.stdout, "128 of them with their digest confirmed; 1 redacted")
	require.NotContains(t, text.stdout, "NOT CHECKED")
	require.Empty(t, text.stderr)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "the audit must remove its temporary folders")
}

// With --state, each audit continues from the state of the previous one, even if the server has
// changed or failed in the meantime.
func TestAuditStateContinues(t *testing.T) {
	w := ledgertest.New(t, 300, 0, 0)
	state := filepath.Join(t.TempDir(), "state")
	var broken atomic.Bool
	url := serveRaw(t, w.Copy(t), func(answer http.ResponseWriter, r *http.Request) bool {
		if broken.Load() && strings.Contains(r.URL.Path, "entries/001") {
			answer.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	broken.Store(true)
	_, o := audited(t, url, w.Key, "--state", state, "--timeout", "200ms")
	require.Equal(t, cli.ExitUnreachable, o.code)
	s := stateOf(t, state)
	require.Zero(t, s.Size, "the audit verified nothing")
	require.Equal(t, noteOf(t, url), s.Checkpoint)
	broken.Store(false)
	report, _ := audited(t, url, w.Key, "--state", state)
	require.True(t, report.Clean)
	require.Equal(t, w.Size, report.WalkedEntries)

	live, stop := ledgertest.Serve(t, w.DataDir)
	for i, body := range []string{`{"payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, `{"payload":{},"output":"2","model":"m","temperature":0,"max_tokens":9}`} {
		status, answer := ledgertest.Send(t, "POST", live+"/ipc-records", body, "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
		report, o := audited(t, live, w.Key, "--state", state)
		require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
		require.Equal(t, []uint64{w.Size + uint64(i) + 1, 1}, []uint64{report.Size, report.WalkedEntries})
	}
	report, o = audited(t, live, w.Key, "--state", state, "--content", "--replay-index", "--sample", "2")
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	require.Equal(t, w.Size+2, report.WalkedEntries, "the whole log must be checked again")
	report, _ = audited(t, live, w.Key, "--state", state)
	require.Zero(t, report.WalkedEntries)
	stop()

	files, err := os.ReadDir(filepath.Dir(state))
	require.NoError(t, err)
	require.Len(t, files, 2, "only the state file and its folder may exist")
	s = stateOf(t, state)
	require.Equal(t, []any{2, w.Size + 2, "default"}, []any{s.Version, s.Size, s.Ledger})
	require.NotEmpty(t, s.CompactRange)
}

// If a server shows different trees to two clients, each client detects the fork if it has the
// other's checkpoint or state.
func TestTwoClientsDetectTwoTrees(t *testing.T) {
	w := ledgertest.New(t, 300, 0, 20)
	other := w.Copy(t)
	f := newForge(t, w, other)
	f.rewrite(290, `"actor":"anonymous"`, `"actor":"somebody"`)
	f.done()
	first, second := serveRaw(t, w.DataDir, nil), serveRaw(t, other, nil)
	dir := t.TempDir()
	for name, url := range map[string]string{"first": first, "second": second} {
		report, o := audited(t, url, w.Key, "--state", filepath.Join(dir, name))
		require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
		_, note := ledgertest.Send(t, "GET", url+"/log/checkpoint", "", "")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".checkpoint"), []byte(note), 0o600))
	}
	report, o := audited(t, second, w.Key, "--against", filepath.Join(dir, "second.checkpoint"))
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	report, o = audited(t, second, w.Key, "--against", filepath.Join(dir, "first.checkpoint"))
	require.Equal(t, 33, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, w.Size, *report.Findings[0].Seq)
	require.Contains(t, report.Findings[0].Message, "first.checkpoint")
	report, o = audited(t, second, w.Key, "--state", filepath.Join(dir, "first"))
	require.Equal(t, 33, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, uint64(290), *report.Findings[0].Seq)
}

// audit --follow continues while the ledger is intact and stops at the first finding.
func TestAuditFollows(t *testing.T) {
	w := ledgertest.New(t, 10, 0, 0)
	fork, front := w.Copy(t), w.Copy(t) // copied before a server starts to change the folder
	url, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	var away, forked atomic.Bool
	f := newForge(t, w, fork)
	f.rewrite(9, `"actor":"anonymous"`, `"actor":"somebody"`)
	f.done()
	other := serveRaw(t, fork, nil)
	proxy := serveRaw(t, front, func(answer http.ResponseWriter, r *http.Request) bool {
		from := url
		if forked.Load() {
			from = other
		}
		if away.Load() {
			answer.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		response, err := http.Get(from + strings.TrimPrefix(r.URL.Path, "/v1/ledgers/default"))
		if err != nil {
			answer.WriteHeader(http.StatusBadGateway)
			return true
		}
		defer response.Body.Close()
		answer.WriteHeader(response.StatusCode)
		_, _ = io.Copy(answer, response.Body)
		return true
	})

	reports, done := following(t.Context(), proxy, w.Key)
	require.Equal(t, w.Size, (<-reports).Size)
	post := func() {
		status, answer := ledgertest.Send(t, "POST", url+"/ipc-records", `{"payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	post()
	require.Equal(t, w.Size+1, (<-reports).Size)
	away.Store(true)
	post()
	away.Store(false)
	require.Equal(t, w.Size+2, (<-reports).Size)
	forked.Store(true)
	last := <-reports
	require.False(t, last.Clean)
	require.Equal(t, 33, <-done)

	ctx, cancel := context.WithCancel(t.Context())
	reports, done = following(ctx, url, w.Key)
	<-reports
	cancel()
	require.Equal(t, 0, <-done, "audit --follow must stop when it is interrupted")
}

// following runs audit --follow until ctx is done. It returns channels that receive the reports and
// the exit code.
func following(ctx context.Context, url, key string) (<-chan auditReport, <-chan int) {
	out, in := io.Pipe()
	reports, done := make(chan auditReport), make(chan int, 1)
	go func() {
		c := &cli.Console{In: strings.NewReader(""), Out: in, Err: new(bytes.Buffer), LookupEnv: func(string) (string, bool) { return "", false }}
		done <- auditCommand(ctx, c, url, "--key", key, "--follow", "--json", "--interval", "10ms", "--timeout", "1s")
		_ = in.Close()
	}()
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			r := auditReport{Report: new(monitor.Report)}
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				reports <- r
			}
		}
	}()
	return reports, done
}

// An auditor that knows only one of the log's keys finds the other keys before, during, and after a
// key rotation.
func TestAuditFollowsKeys(t *testing.T) {
	w := ledgertest.New(t, 20, 0, 0)
	url, stop := ledgertest.Serve(t, w.DataDir)
	defer stop()
	server := strings.TrimSuffix(url, remote.LedgerPath("default"))
	state := filepath.Join(t.TempDir(), "state")
	sound := func(key string, flags ...string) {
		t.Helper()
		report, o := audited(t, url, key, flags...)
		require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	}
	change := func(step string) {
		t.Helper()
		var out, stderr bytes.Buffer
		env := func(name string) (string, bool) { return server, name == "COLOPHON_SERVER" }
		require.Zero(t, run(t.Context(), []string{"keys", step, "default"}, strings.NewReader(""), &out, &stderr, env), stderr.String())
	}
	sound(w.Key, "--state", state)
	change("rotate")
	sound(w.Key, "--state", state)
	change("retire")
	sound(w.Key, "--state", state)
	sound(w.Key, "--content", "--replay-index", "--sample", "2", "--receipts", "5")
	_, answer := ledgertest.Send(t, "GET", url+"/log/key", "", "")
	history, err := proofs.ParseKeyHistory([]byte(answer))
	require.NoError(t, err)
	sound(history.CurrentKey().String())
	sound(history.CurrentKey().String(), "--state", state)
	stranger := ledgertest.New(t, 0, 0, 0).Key
	report, _ := audited(t, url, stranger)
	require.Equal(t, 30, report.Code)
}

func TestAuditCommandLines(t *testing.T) {
	w := ledgertest.New(t, 0, 0, 0)
	key, sound := w.Key, serveRaw(t, w.DataDir, nil)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{}, cli.ExitUsage, "accepts 1 arg"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default"}, cli.ExitUsage, "--key is required"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", "x"}, cli.ExitUsage, "neither a file nor a verifier key"},
		{[]string{"http://127.0.0.1:1", "--key", key}, cli.ExitUsage, "is not the URL of a ledger"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/", "--key", key}, cli.ExitUsage, "is not the URL of a ledger"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/a/b", "--key", key}, cli.ExitUsage, "is not the URL of a ledger"},
		{[]string{"ftp://127.0.0.1/v1/ledgers/default", "--key", key}, cli.ExitUsage, "is not the URL of a ledger"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--follow", "--content"}, cli.ExitUsage, "--follow watches only the log"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--sample", "3"}, cli.ExitUsage, "require --replay-index"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--seed", "3"}, cli.ExitUsage, "requires --replay-index or --receipts"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--timeout", "3ns", "--receipts", "2", "--seed", "7"}, cli.ExitUnreachable, "no response from the server"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--timeout", "0s"}, cli.ExitUsage, "must be positive"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--against", "nowhere"}, cli.ExitUsage, "--against"},
		{[]string{sound, "--key", w.Key, "--state", filepath.Join(t.TempDir(), "nowhere", "state")}, cli.ExitUsage, "--state: mkdir"},
		{[]string{sound + "s", "--key", w.Key}, cli.ExitFailed, "404"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--timeout", "100ms"}, cli.ExitUnreachable, "no response from the server"},
	} {
		o := commandLine(t.Context(), append([]string{"audit"}, c.args...)...)
		require.Equal(t, c.code, o.code, "%s: %s", c.args, o.stderr)
		require.Contains(t, o.stderr, c.says, "%s", c.args)
		require.Empty(t, o.stdout)
	}
}

// Each kind of finding has its own exit code, and the help explains each code.
func TestAuditExitCodes(t *testing.T) {
	help := commandLine(t.Context(), "audit", "--help")
	codes, kinds := make(map[int]bool), make(map[string]bool)
	for _, e := range auditExits {
		require.False(t, codes[e.code] || kinds[string(e.kind)], "%d %s", e.code, e.kind)
		codes[e.code], kinds[string(e.kind)] = true, true
		require.Contains(t, help.stdout, e.meaning)
	}
	for _, v := range verify.FailureKinds() {
		require.False(t, codes[v.ExitCode], "verify also uses the exit code %d", v.ExitCode)
	}
	documented, err := os.ReadFile(filepath.Join("..", "..", "docs", "audit.md"))
	require.NoError(t, err)
	for _, e := range auditExits {
		require.Contains(t, string(documented), "| "+cli.FormatUint(uint64(e.code))+" | `"+string(e.kind)+"` |")
	}
}

// The part of an audit URL before /v1/ledgers/ keeps its percent-escapes.
func TestAuditURLs(t *testing.T) {
	for text, server := range map[string]string{
		"http://h:1/a%20b/v1/ledgers/x":    "http://h:1/a%20b",
		"https://h/a%2Fb/v1/ledgers/x%20/": "https://h/a%2Fb",
		"https://h/v1/ledgers/x":           "https://h",
		"https://h/v1/ledgers/x#top":       "https://h",
		"https://h/v1/ledgers/x?":          "https://h",
	} {
		var o auditFlags
		require.NoError(t, o.parse(text))
		require.Equal(t, server, o.server.URL)
		require.Equal(t, "x", strings.TrimSpace(o.Ledger))
	}
}
