package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/safefile"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	"colophon/ledger/query"
	"colophon/proofs/pack"
	"colophon/proofs/pack/browser"
	"colophon/storage/memory"
)

// exportedServer starts a real server with records of every kind, one of which is redacted. It
// returns the server's URL and the verifier key of its ledger.
func exportedServer(t *testing.T) (url, key string) {
	t.Helper()
	host, err := ledger.OpenHost(t.Context(), memory.New(), keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	l, err := host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	folded, err := query.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s, err := api.New(api.Config{Host: host, Index: folded, Version: "test"})
	require.NoError(t, err)
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, folded.Close())
		require.NoError(t, host.Close())
	})
	const zeros = `"0000000000000000000000000000000000000000000000000000000000000000"`
	for _, request := range []struct{ method, path, body string }{
		{"POST", "/ipc-records", `{"run_id":"a","payload":{"q":"Who?","t":1e5},"system_prompt":"Be brief.","output":"Ana  Varga.","model":"m","temperature":0.1,"max_tokens":9,"seed":1}`},
		{"POST", "/run-dags", `{"run_id":"a","question":"Who keeps the \ud83d light?","messages":[{"role":"user","content":"\udc00"}],"inputs":{"context_root":` + zeros + `,"answer_text":"Ana.","audit_mode":"STRICT",` +
			`"verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[]},"cache_dimensions":{"source_root":` + zeros + `,"question_hash":` + zeros + `,"model_profile_hash":` + zeros + `,"conversation_hash":` + zeros +
			`,"governance_policy_hash":` + zeros + `,"schema_version":"1","canonicalization_version":"1","chunking_version":"1"}}`},
		{"POST", "/citation-sets", `{"run_id":"a","subject":"s","citations":[{"source_id":"x","text":"Ana  Varga keeps it.","weight":1},{"source_id":"y","chunk_hash":"sha256:` + zeros[1:] + `,"weight":0.5}]}`},
		{"POST", "/path-fingerprints", `{"run_id":"a","project":"p","route":["Start"],"content":"The [[quay]]."}`},
		{"POST", "/ipc-records", `{"run_id":"b","payload":{},"output":"A secret.","model":"m","temperature":0,"max_tokens":9}`},
		{"DELETE", "/records/5/content", `{"reason":"Asked for."}`},
		{"POST", "/records/1/state", `{"state":"stale","reason":"r"}`},
		{"PUT", "/sources/x", `{}`},
	} {
		r, err := http.NewRequest(request.method, server.URL+"/v1/ledgers/default"+request.path, strings.NewReader(request.body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusCreated, response.StatusCode, request.path)
	}
	return server.URL, l.VerifierKey()
}

// colophon runs a command line with COLOPHON_SERVER set to url.
func colophon(url string, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	env := func(name string) (string, bool) { return url, name == "COLOPHON_SERVER" }
	code = run(context.Background(), args, strings.NewReader(""), &out, &err, env)
	return code, out.String(), err.String()
}

// An exported audit pack can be verified on the command line and in a browser, including all hashes
// that can be computed from its content.
func TestExportedPacksVerify(t *testing.T) {
	url, key := exportedServer(t)
	name := filepath.Join(t.TempDir(), "pack.html")
	code, stdout, stderr := colophon(url, "export", "--pack", name, "1", "2", "3", "4", "5", "7", "8")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, ": 8 events of ledger default at tree size 9, 8 pieces of content, 1 record with erased content\n", "the pack must include the event that erased content")
	require.Contains(t, stdout, "--key "+key)
	code, stdout, stderr = colophon("", "verify", name, "--key", key)
	require.Equal(t, 0, code, stderr)
	require.Contains(t, stdout, "VERIFIED: 8 events of ledger default\n")
	require.Contains(t, stdout, "8 pieces as recorded, 1 record with erased content, 0 pieces not in the pack\n")
	require.Contains(t, stdout, "recomputed for 4 records\n")
	html, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NotContains(t, string(html), "A secret.")

	p := browser.Start(t).NewPage(t)
	p.OpenFile(t, name)
	var verdict string
	p.Eval(t, `auditPack.check("`+key+`")`, &verdict)
	require.Equal(t, "verified", verdict, p.Text(t, ".fails"))
	var opened bool
	p.Eval(t, `auditPack.openAll(), true`, &opened)
	for seq, says := range map[string]string{
		"1": "4 of the 4 hashes in the event were computed again here", "2": "3 of the 15 hashes in the event were computed again here", "3": "1 of the 2 hashes",
		"5": "The content was erased. Event 6 of the log says so.", "7": "a record’s state was changed",
	} {
		require.Contains(t, p.Text(t, `details[data-seq="`+seq+`"]`), says, seq)
	}
	require.Empty(t, p.Activity().Errors)
}

// If the cache dimensions of a run are too long for its event, audit and verify list what they
// cannot check.
func TestUncheckedRulesAreNamed(t *testing.T) {
	server, key := exportedServer(t)
	var dimensions strings.Builder
	for _, name := range []string{"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash"} {
		fmt.Fprintf(&dimensions, `"%s":"%s",`, name, ledgertest.ZeroHash)
	}
	posted := `{"run_id":"c","answer_text":"Ana.","dag":{"root":"` + ledgertest.ZeroHash + `","nodes":[{"stage":"answer","hash":"` + ledgertest.ZeroHash + `"}]},"cache_dimensions":{` + dimensions.String() +
		`"canonicalization_version":"1","chunking_version":"1","schema_version":"` + strings.Repeat("x", 2000) + `"}}`
	status, answer := ledgertest.Send(t, "POST", server+remote.LedgerPath(ledger.DefaultName)+"/run-dags", posted, "application/json")
	require.Equal(t, http.StatusCreated, status, answer)
	report, o := audited(t, server+remote.LedgerPath(ledger.DefaultName), key, "--content")
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
	require.Len(t, report.UnperformedChecks, 1)
	require.Contains(t, report.UnperformedChecks[0], "the cache key and digest of 1 record, because ")

	name := filepath.Join(t.TempDir(), "pack.html")
	code, _, stderr := colophon(server, "export", "--pack", name, "9")
	require.Zero(t, code, stderr)
	code, stdout, stderr := colophon("", "verify", name, "--key", key)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "NOT CHECKED: the cache keys and digests of 1 record; they cover ")
}

// lyingServer forwards requests to the server at url and passes each response body through change.
func lyingServer(t *testing.T, url string, change func(r *http.Request, answer string) string) (address string) {
	t.Helper()
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, answer := answerOf(url + r.URL.RequestURI())
		w.WriteHeader(status)
		_, _ = w.Write([]byte(change(r, answer)))
	}))
	t.Cleanup(liar.Close)
	return liar.URL
}

func answerOf(url string) (status int, body string) {
	response, err := http.Get(url)
	if err != nil {
		return http.StatusBadGateway, ""
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(response.Body) // ignore errors: the client must detect a truncated body
	return response.StatusCode, text.String()
}

// The export command does not write a pack if it cannot verify the server's answers.
func TestExportRefusesWhatDoesNotVerify(t *testing.T) {
	url, _ := exportedServer(t)
	for name, c := range map[string]struct {
		path     string // the test changes answers to requests whose path has this suffix
		old, new string
		says     string
	}{
		"content":    {"/content/output", "Ana", "Eva", `fetching content "output" of event 1: the content returned by the server does not match the size and digest in the event`},
		"event":      {"/receipt", `"actor":"anonymous"`, `"actor":"anonymouse"`, "verifying the pack"},
		"checkpoint": {"/receipt", `\n9\n`, `\n8\n`, "verifying the pack"},
		"receipt":    {"/receipt", `"ledger"`, `"seq":1,"ledger"`, "reading the receipt of event 1"},
		"no receipt": {"/receipt", `"event":{`, `"event":{}}//`, "reading the receipt of event 1"},
		"key":        {"/log/key", `"verifier_key":"`, `"verifier_key":"x`, "unexpected response: parsing the keys from log/key"},
		"not JSON":   {"/records/1", `{`, `[`, "unexpected response to GET /v1/ledgers/default/records/1"},
	} {
		t.Run(name, func(t *testing.T) {
			liar := lyingServer(t, url, func(r *http.Request, answer string) string {
				if strings.HasSuffix(r.URL.Path, c.path) {
					return strings.Replace(answer, c.old, c.new, 1)
				}
				return answer
			})
			file := filepath.Join(t.TempDir(), "pack.html")
			code, _, stderr := colophon(liar, "export", "--pack", file, "1")
			require.NotEqual(t, 0, code)
			require.Contains(t, stderr, c.says)
			require.NoFileExists(t, file)
		})
	}
}

// A pack contains only the requested records of the requested ledger.
func TestExportsHaveTheRequestedRecordsOnly(t *testing.T) {
	url, _ := exportedServer(t)
	for name, c := range map[string]struct {
		old, new string // the server replaces old with new in the paths of requests
		ledger   string
		says     string
	}{
		"another record": {"/records/7/receipt", "/records/8/receipt", "default", `the receipt of event 7: the server returned the receipt of event 8 of ledger "default" instead`},
		"another ledger": {"/ledgers/other", "/ledgers/default", "other", `the receipt of event 7: the server returned the receipt of event 7 of ledger "default" instead`},
	} {
		t.Run(name, func(t *testing.T) {
			liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status, answer := answerOf(url + strings.Replace(r.URL.RequestURI(), c.old, c.new, 1))
				w.WriteHeader(status)
				_, _ = w.Write([]byte(answer))
			}))
			defer liar.Close()
			file := filepath.Join(t.TempDir(), "pack.html")
			code, _, stderr := colophon(liar.URL, "export", "--pack", file, "--ledger", c.ledger, "7")
			require.Equal(t, cli.ExitFailed, code)
			require.Contains(t, stderr, c.says)
			require.NoFileExists(t, file)
		})
	}
}

// A server that understates the size of content cannot make export fetch more content than
// --max-content allows.
func TestMaxContentBoundsExports(t *testing.T) {
	url, _ := exportedServer(t)
	size := regexp.MustCompile(`"size":\d+`)
	for _, wrongSize := range []string{"0", "-9000000000000000000"} {
		fetched := atomic.Int32{}
		liar := lyingServer(t, url, func(r *http.Request, answer string) string {
			switch {
			case strings.Contains(r.URL.Path, "/content/"):
				fetched.Add(1)
			case strings.HasSuffix(r.URL.Path, "/records/1"):
				return size.ReplaceAllString(answer, `"size":`+wrongSize)
			}
			return answer
		})
		file := filepath.Join(t.TempDir(), "pack.html")
		code, _, stderr := colophon(liar, "export", "--pack", file, "1")
		require.Equal(t, cli.ExitFailed, code)
		require.Regexp(t, "the content returned by the server does not match the size and digest in the event|cannot unmarshal number -9", stderr)
		require.LessOrEqual(t, fetched.Load(), int32(1))
		require.NoFileExists(t, file)
	}
}

// Every command that reads a list stops if the cursors of the pages form a cycle.
func TestCursorCyclesEndCommands(t *testing.T) {
	var asked atomic.Int32
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 100 {
			w.WriteHeader(http.StatusTeapot) // stop a command that follows the cycle endlessly
			return
		}
		next := map[string]string{"": "a", "a": "b", "b": "c", "c": "a"}
		q := r.URL.Query()
		_, _ = fmt.Fprintf(w, `{"as_of":9,"rows":[],"outputs":[],"next":%q,"outputs_next":%q}`, next[q.Get("cursor")], next[q.Get("outputs_cursor")])
	}))
	defer liar.Close()
	for _, args := range [][]string{
		{"export", "--pack", filepath.Join(t.TempDir(), "pack.html"), "--label", "a=b"},
		{"drift", "groups", "--by", "model"},
		{"drift", "timeline", "model", "m"},
		{"drift", "effects", "model", "a", "b"},
		{"drift", "show", "model", "m"},
		{"drift", "show", "model", "m", "--json"},
	} {
		asked.Store(0)
		code, _, stderr := colophon(liar.URL, args...)
		require.Equal(t, cli.ExitFailed, code, "%s: %s", args, stderr)
		require.Contains(t, stderr, "the page cursors form a cycle", args)
	}
}

// safefile.Replace keeps the old file until its replacement is complete.
func TestFilesAreReplacedAtomically(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "pack.html")
	require.NoError(t, safefile.Replace(name, []byte("one")))
	require.NoError(t, safefile.Replace(name, []byte("two")))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "two", string(text))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.ErrorContains(t, safefile.Replace(filepath.Join(dir, "folder"), []byte("x")), "writing ")
	require.Error(t, safefile.Replace(filepath.Join(dir, "missing", "pack.html"), nil))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "no temporary file may be left behind")
	require.False(t, pack.IsPack(text))
}

// The prove command returns a proof of the requested stage, even if a run has several stages with
// the same name.
func TestProofsAreOfTheRequestedStage(t *testing.T) {
	url, _ := exportedServer(t)
	node := func(digit string) string { return `{"stage":"a","hash":"` + strings.Repeat(digit, 64) + `"}` }
	response, err := http.Post(url+"/v1/ledgers/default/run-dags", "application/json",
		strings.NewReader(`{"dag":{"root":"`+strings.Repeat("0", 64)+`","nodes":[`+node("1")+`,`+node("2")+`]}}`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusCreated, response.StatusCode)
	for _, stage := range []string{"a", "a#2"} {
		code, _, stderr := colophon(url, "prove", "9", "--stage", stage)
		require.Zero(t, code, stderr)
		liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			other := map[string]string{"a": "a%232", "a#2": "a"}[r.URL.Query().Get("stage")]
			_, answer := answerOf(url + r.URL.Path + "?stage=" + other)
			_, _ = w.Write([]byte(answer))
		}))
		code, stdout, stderr := colophon(liar.URL, "prove", "9", "--stage", stage)
		liar.Close()
		require.Equal(t, cli.ExitFailed, code)
		require.Contains(t, stderr, "the proof is not for the requested part of the event")
		require.Empty(t, stdout)
	}
}
