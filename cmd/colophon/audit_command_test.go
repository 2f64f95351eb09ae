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
	"colophon/internal/verify"
	"colophon/proofs"
	"colophon/proofs/monitor"
)

// A sound ledger passes every check there is, and the report says how much was looked at.
func TestAuditOfASoundLedger(t *testing.T) {
	w := newAuditWorld(t, 40, 40, 40)
	url, stop := serveFolder(t, w.data, nil)
	defer stop()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	report, o := audited(t, url, w.key, "--content", "--replay-index", "--receipts", "20")
	require.Equal(t, 0, o.code, "%s%s", o.stdout, o.stderr)
	require.True(t, report.Clean)
	require.Empty(t, report.Unchecked)
	require.Equal(t, []uint64{w.size, w.size, w.size, 20, 1}, []uint64{report.Size, report.Walked, report.AsOf, report.Receipts, report.Redacted})
	require.Equal(t, []uint64{128, 128}, []uint64{report.Derived, report.Confirmed})
	require.Greater(t, report.Queries, uint64(1000))
	require.Greater(t, report.Rows, uint64(5000))

	text := commandLine(t.Context(), "audit", url+"/", "--key", w.key, "--content", "--replay-index", "--receipts", "1", "--sample", "1")
	require.Equal(t, 0, text.code, text.stderr)
	require.Contains(t, text.stdout, "default: clean: 136 events")
	require.Contains(t, text.stdout, "128 of them with their digest confirmed; 1 redacted")
	require.NotContains(t, text.stdout, "NOT CHECKED")
	require.Empty(t, text.stderr)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "temporary folders are removed")
}

// The state goes on from one audit to the next, whatever comes between.
func TestAuditStateGoesOn(t *testing.T) {
	w := newAuditWorld(t, 300, 0, 0)
	state := filepath.Join(t.TempDir(), "state")
	var broken atomic.Bool
	url := serveRaw(t, w.copied(t), func(answer http.ResponseWriter, r *http.Request) bool {
		if broken.Load() && strings.Contains(r.URL.Path, "entries/001") {
			answer.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	broken.Store(true)
	_, o := audited(t, url, w.key, "--state", state, "--timeout", "200ms")
	require.Equal(t, cli.ExitUnreachable, o.code)
	require.NoFileExists(t, state, "nothing is known yet")
	broken.Store(false)
	report, _ := audited(t, url, w.key, "--state", state)
	require.True(t, report.Clean)
	require.Equal(t, w.size, report.Walked)

	live, stop := serveFolder(t, w.data, nil)
	for i, body := range []string{`{"payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, `{"payload":{},"output":"2","model":"m","temperature":0,"max_tokens":9}`} {
		status, answer := send(t, "POST", live+"/ipc-records", body, "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
		report, o := audited(t, live, w.key, "--state", state)
		require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
		require.Equal(t, []uint64{w.size + uint64(i) + 1, 1}, []uint64{report.Size, report.Walked})
	}
	report, o = audited(t, live, w.key, "--state", state, "--content", "--replay-index", "--sample", "2")
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	require.Equal(t, w.size+2, report.Walked, "all of it once more")
	report, _ = audited(t, live, w.key, "--state", state)
	require.Zero(t, report.Walked)
	stop()

	files, err := os.ReadDir(filepath.Dir(state))
	require.NoError(t, err)
	require.Len(t, files, 2, "the state and its folder, and nothing else")
	var s monitor.AuditState
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &s))
	require.Equal(t, []any{monitor.AuditStateVersion, w.size + 2, "default"}, []any{s.Version, s.Size, s.Ledger})
	require.NotEmpty(t, s.CompactRange)
}

// Two clients who are shown two trees find out when one has the checkpoint, or the state, of the
// other.
func TestTwoClientsTwoTrees(t *testing.T) {
	w := newAuditWorld(t, 300, 0, 20)
	other := w.copied(t)
	f := newForge(t, w, other)
	f.rewrite(290, `"actor":"anonymous"`, `"actor":"somebody"`)
	f.done()
	first, second := serveRaw(t, w.data, nil), serveRaw(t, other, nil)
	dir := t.TempDir()
	for name, url := range map[string]string{"first": first, "second": second} {
		report, o := audited(t, url, w.key, "--state", filepath.Join(dir, name))
		require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
		_, note := send(t, "GET", url+"/log/checkpoint", "", "")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".checkpoint"), []byte(note), 0o600))
	}
	report, o := audited(t, second, w.key, "--against", filepath.Join(dir, "second.checkpoint"))
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	report, o = audited(t, second, w.key, "--against", filepath.Join(dir, "first.checkpoint"))
	require.Equal(t, 33, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, w.size, *report.Findings[0].Seq)
	require.Contains(t, report.Findings[0].Message, "first.checkpoint")
	report, o = audited(t, second, w.key, "--state", filepath.Join(dir, "first"))
	require.Equal(t, 33, o.code, "%s%s", o.stdout, o.stderr)
	require.Equal(t, uint64(290), *report.Findings[0].Seq)
}

// A state that is not that of the log is refused, and never changed.
func TestStatesThatAreRefused(t *testing.T) {
	w, another := newAuditWorld(t, 10, 0, 0), newAuditWorld(t, 5, 0, 0)
	url := serveRaw(t, w.data, nil)
	sound := filepath.Join(t.TempDir(), "state")
	report, _ := audited(t, url, w.key, "--state", sound)
	require.True(t, report.Clean)
	for name, c := range map[string]struct {
		key    string
		change func(t *testing.T, state string)
		says   string
	}{
		"of another log":        {another.key, func(*testing.T, string) {}, "the state of another log"},
		"another log's note":    {w.key, changeState(func(s *monitor.AuditState) { s.Checkpoint = strings.Replace(s.Checkpoint, "\n26\n", "\n27\n", 1) }), "its checkpoint"},
		"another origin":        {w.key, changeState(func(s *monitor.AuditState) { s.Origin = "elsewhere.example" }), "the state of another log"},
		"of a later version":    {w.key, changeState(func(s *monitor.AuditState) { s.Version = 3 }), "version 3"},
		"another size":          {w.key, changeState(func(s *monitor.AuditState) { s.Size-- }), "its files are of 26 events"},
		"other uses of keys":    {w.key, changeState(func(s *monitor.AuditState) { s.KeyUses-- }), "idempotency keys"},
		"another compact range": {w.key, changeState(func(s *monitor.AuditState) { s.CompactRange[0] = zeroHash }), "compact range"},
		"without keys":          {w.key, changeState(func(s *monitor.AuditState) { s.Keys = nil }), "who signs"},
		"another tip":           {w.key, changeState(func(s *monitor.AuditState) { s.Tip = "x" }), "its tip"},
		"no JSON":               {w.key, writeState("x"), "the state is damaged: invalid character"},
		"more members":          {w.key, writeState(`{"version":1,"more":1}`), `the state is damaged: json: unknown field "more"`},
		"without its folder":    {w.key, func(t *testing.T, state string) { require.NoError(t, os.RemoveAll(state+".d")) }, "facts has 0 bytes, not 26"},
		"without some of its own": {w.key, func(t *testing.T, state string) {
			require.NoError(t, os.Truncate(filepath.Join(state+".d", "facts"), 3))
		}, "facts has 3 bytes, not 26"},
		"with other tiles": {w.key, func(t *testing.T, state string) {
			require.NoError(t, os.Truncate(filepath.Join(state+".d", "tile-0"), 64))
		}, "tile-0 has 64 bytes, not 832"},
	} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			copyState(t, sound, state)
			c.change(t, state)
			before := stateFiles(t, state)
			o := commandLine(t.Context(), "audit", url, "--key", c.key, "--state", state)
			require.Equal(t, cli.ExitUsage, o.code, "%s%s", o.stdout, o.stderr)
			require.Contains(t, o.stderr, c.says)
			for name, text := range stateFiles(t, state) {
				require.Equal(t, before[name], text, name)
			}
		})
	}
}

// stateFiles are the files of a state.
func stateFiles(t *testing.T, state string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(state + ".d/*")
	require.NoError(t, err)
	files := make(map[string]string)
	for _, name := range append(names, state) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files[name] = string(text)
	}
	return files
}

func writeState(text string) func(*testing.T, string) {
	return func(t *testing.T, state string) { require.NoError(t, os.WriteFile(state, []byte(text), 0o600)) }
}

func changeState(change func(*monitor.AuditState)) func(*testing.T, string) {
	return func(t *testing.T, state string) {
		text, err := os.ReadFile(state)
		require.NoError(t, err)
		var s monitor.AuditState
		require.NoError(t, json.Unmarshal(text, &s))
		change(&s)
		text, err = s.Encode()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(state, text, 0o600))
	}
}

// Watching goes on while all is well, and ends with what is wrong.
func TestAuditFollows(t *testing.T) {
	w := newAuditWorld(t, 10, 0, 0)
	fork, front := w.copied(t), w.copied(t) // while no server changes the folder
	url, stop := serveFolder(t, w.data, nil)
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

	reports, done := following(t.Context(), proxy, w.key)
	require.Equal(t, w.size, (<-reports).Size)
	post := func() {
		status, answer := send(t, "POST", url+"/ipc-records", `{"payload":{},"output":"1","model":"m","temperature":0,"max_tokens":9}`, "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	post()
	require.Equal(t, w.size+1, (<-reports).Size)
	away.Store(true)
	post()
	away.Store(false)
	require.Equal(t, w.size+2, (<-reports).Size)
	forked.Store(true)
	last := <-reports
	require.False(t, last.Clean)
	require.Equal(t, 33, <-done)

	ctx, cancel := context.WithCancel(t.Context())
	reports, done = following(ctx, url, w.key)
	<-reports
	cancel()
	require.Equal(t, 0, <-done, "it ends when it is told to")
}

// following watches a ledger and gives the reports as they come, and then the exit
// code.
func following(ctx context.Context, url, key string) (<-chan monitor.Report, <-chan int) {
	out, in := io.Pipe()
	reports, done := make(chan monitor.Report), make(chan int, 1)
	go func() {
		c := &cli.Console{In: strings.NewReader(""), Out: in, Err: new(bytes.Buffer), Env: func(string) (string, bool) { return "", false }}
		done <- auditCommand(ctx, c, url, "--key", key, "--follow", "--json", "--interval", "10ms", "--timeout", "1s")
		_ = in.Close()
	}()
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var r monitor.Report
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				reports <- r
			}
		}
	}()
	return reports, done
}

// Whoever has one key of the log follows the others, before, while and after they change.
func TestAuditFollowsKeys(t *testing.T) {
	w := newAuditWorld(t, 20, 0, 0)
	url, stop := serveFolder(t, w.data, nil)
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
	sound(w.key, "--state", state)
	change("rotate")
	sound(w.key, "--state", state)
	change("retire")
	sound(w.key, "--state", state)
	sound(w.key, "--content", "--replay-index", "--sample", "2", "--receipts", "5")
	_, answer := send(t, "GET", url+"/log/key", "", "")
	history, err := proofs.ParseLogKey([]byte(answer))
	require.NoError(t, err)
	sound(history.Current().String())
	sound(history.Current().String(), "--state", state)
	stranger := newAuditWorld(t, 0, 0, 0).key
	report, _ := audited(t, url, stranger)
	require.Equal(t, 30, report.Code)
}

func TestAuditCommandLines(t *testing.T) {
	w := newAuditWorld(t, 0, 0, 0)
	key, sound := w.key, serveRaw(t, w.data, nil)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{}, cli.ExitUsage, "accepts 1 arg"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default"}, cli.ExitUsage, "--key is missing"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", "x"}, cli.ExitUsage, "neither a file nor a verifier key"},
		{[]string{"http://127.0.0.1:1", "--key", key}, cli.ExitUsage, "is not the URL of a ledger"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/", "--key", key}, cli.ExitUsage, "is not the URL of a ledger"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/a/b", "--key", key}, cli.ExitUsage, "is not the URL of a ledger"},
		{[]string{"ftp://127.0.0.1/v1/ledgers/default", "--key", key}, cli.ExitUsage, "is not the URL of a ledger"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--follow", "--content"}, cli.ExitUsage, "--follow watches the log alone"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--sample", "3"}, cli.ExitUsage, "without --replay-index"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--seed", "3"}, cli.ExitUsage, "without --replay-index or --receipts"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--timeout", "3ns", "--receipts", "2", "--seed", "7"}, cli.ExitUnreachable, "no answer from the server"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--timeout", "0s"}, cli.ExitUsage, "must be positive"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--against", "nowhere"}, cli.ExitUsage, "--against"},
		{[]string{sound, "--key", w.key, "--state", filepath.Join(t.TempDir(), "nowhere", "state")}, cli.ExitUsage, "--state: mkdir"},
		{[]string{sound + "s", "--key", w.key}, cli.ExitFailed, "404"},
		{[]string{"http://127.0.0.1:1/v1/ledgers/default", "--key", key, "--timeout", "100ms"}, cli.ExitUnreachable, "no answer from the server"},
	} {
		o := commandLine(t.Context(), append([]string{"audit"}, c.args...)...)
		require.Equal(t, c.code, o.code, "%s: %s", c.args, o.stderr)
		require.Contains(t, o.stderr, c.says, "%s", c.args)
		require.Empty(t, o.stdout)
	}
}

// Every kind of finding has an exit code of its own, and the help names it.
func TestAuditExitCodes(t *testing.T) {
	help := commandLine(t.Context(), "audit", "--help")
	codes, kinds := make(map[int]bool), make(map[string]bool)
	for _, e := range monitor.Exits() {
		require.False(t, codes[e.Code] || kinds[string(e.Kind)], "%d %s", e.Code, e.Kind)
		codes[e.Code], kinds[string(e.Kind)] = true, true
		require.Contains(t, help.stdout, e.Meaning)
	}
	for _, v := range verify.Verdicts() {
		require.False(t, codes[v.Code], "verify has %d", v.Code)
	}
	documented, err := os.ReadFile(filepath.Join("..", "..", "docs", "audit.md"))
	require.NoError(t, err)
	for _, e := range monitor.Exits() {
		require.Contains(t, string(documented), "| "+cli.Decimal(uint64(e.Code))+" | `"+string(e.Kind)+"` |")
	}
}

// What is before the ledgers in a URL stays as it is spelled.
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
