package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/internal/server"
	"colophon/ledger"
	"colophon/proofs/monitor"
)

// auditWorld is a data folder with a sound ledger of every kind of event, to be copied and damaged.
type auditWorld struct {
	data string
	key  string            // verifier key
	at   map[string]uint64 // seqs of events, by what they are called here
	size uint64

	stored *storedLog // what is in a copy of the folder, once one was read
}

const zeroHash = "0000000000000000000000000000000000000000000000000000000000000000"

// worldRequests are the events of the world that have a name; in between there are many
// that have none.
var worldRequests = []struct{ name, method, path, body string }{
	{"ipc", "POST", "/ipc-records", `{"run_id":"ipc","payload":{"q":"Who?","seed":7},"system_prompt":"Be brief.","output":"Ana  Varga.","model":"m1","temperature":0.5,"max_tokens":9}`},
	{"mismatch", "POST", "/ipc-records", `{"run_id":"mismatch","payload":{"q":"Who?","seed":7},"system_prompt":"Be brief.","output":"Ana.","output_hash":"` + zeroHash + `","model":"m1","temperature":0.5,"max_tokens":9}`},
	{"claims", "POST", "/ipc-records", `{"run_id":"claims","input_hash":"` + zeroHash + `","system_prompt_hash":"` + zeroHash + `","output_hash":"` + zeroHash + `","model":"m2","temperature":0.5,"max_tokens":9,"seed":7,"labels":{"step":"one"}}`},
	{"labelled", "POST", "/ipc-records", `{"run_id":"labelled","payload":{"q":"Who?","seed":7},"system_prompt":"Be brief.","output":"Somebody.","model":"m2","temperature":0.5,"max_tokens":9,"labels":{"step":"one"}}`},
	{"dag", "POST", "/run-dags", `{"run_id":"dag","question":"Who keeps the light?","messages":[{"role":"user","content":"x"}],"inputs":{"context_root":"` + zeroHash + `","answer_text":"Ana.","audit_mode":"HYBRID",` +
		`"verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[{"score":1}]},"cache_dimensions":{"source_root":"` + zeroHash + `","question_hash":"` + zeroHash + `","model_profile_hash":"` + zeroHash + `","conversation_hash":"` + zeroHash +
		`","governance_policy_hash":"` + zeroHash + `","schema_version":"1","canonicalization_version":"1","chunking_version":"1"}}`},
	{"set", "POST", "/citation-sets", `{"run_id":"set","subject":"s","citations":[{"source_id":"x","text":"Ana  Varga keeps it.","weight":1},{"source_id":"y","chunk_hash":"sha256:` + zeroHash + `","weight":0.5}]}`},
	{"path", "POST", "/path-fingerprints", `{"run_id":"path","project":"p","build":"1","route":["Start"],"content":"The [[quay]]."}`},
	{"secret", "POST", "/ipc-records", `{"run_id":"secret","payload":{"q":"A secret?"},"output":"A secret.","model":"m1","temperature":0,"max_tokens":9}`},
	{"other", "POST", "/ipc-records", `{"payload":{"q":"Other?"},"output":"Other.","model":"m1","temperature":0,"max_tokens":9}`},
	{"redaction", "DELETE", "/records/{secret}/content", `{"reason":"Asked for."}`},
	{"stale", "POST", "/records/{claims}/state", `{"state":"stale","reason":"r"}`},
	{"validation", "PUT", "/paths/p/path_id/validation", `{"validated":true}`},
	{"source", "PUT", "/sources/x", `{"title":"X"}`},
	{"refusal", "POST", "/ipc-records", `{"run_id":"ipc","payload":{"q":"Another?","seed":7},"system_prompt":"Be brief.","output":"Another.","model":"m1","temperature":0.5,"max_tokens":9}`},
	{"revocation", "DELETE", "/sources/x", `{}`},
}

// newAuditWorld makes one, with so many nameless events before, between and behind the
// others, one in four of which brings content.
func newAuditWorld(t testing.TB, before, between, behind int) *auditWorld {
	t.Helper()
	w := &auditWorld{data: t.TempDir(), at: make(map[string]uint64)}
	url, stop := serveFolder(t, w.data, &w.key)
	defer stop()
	posted := 0
	fill := func(bulk int) {
		var lines strings.Builder
		for range bulk {
			posted++
			said := fmt.Sprintf(`"input_hash":"%064x","system_prompt_hash":"%064x","output_hash":"%064x","seed":%d`, posted%5, 1, posted%4, posted%3)
			if posted%4 == 1 {
				said = fmt.Sprintf(`"payload":{"q":"%d","seed":%d},"system_prompt":"Be brief.","output":"Text %d."`, posted%5, posted%3, posted%7)
			}
			fmt.Fprintf(&lines, `{"kind":"ipc_record","record":{"run_id":"bulk %d",%s,"model":"m%d","temperature":0.5,"max_tokens":9,"labels":{"n":"%d"}}}`+"\n",
				posted, said, posted%2, posted%10)
		}
		_, answer := send(t, "POST", url+"/batch", lines.String(), "application/x-ndjson")
		require.NotContains(t, answer, `"status"`)
	}
	fill(before)
	for i, r := range worldRequests {
		path := r.path
		for name, seq := range w.at {
			path = strings.ReplaceAll(path, "{"+name+"}", fmt.Sprint(seq))
		}
		if start, rest, found := strings.Cut(path, "path_id"); found {
			path = start + pathIDOf(t, url, w.at["path"]) + rest
		}
		status, answer := send(t, r.method, url+path, r.body, "application/json")
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status, "%s: %s", r.name, answer)
		w.at[r.name] = headOf(t, url) - 1
		if i == len(worldRequests)/2 {
			fill(between)
		}
	}
	fill(behind)
	w.size = headOf(t, url)
	return w
}

func send(t testing.TB, method, url, body, kind string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(answer)
}

func headOf(t testing.TB, url string) uint64 {
	t.Helper()
	_, answer := send(t, "GET", url, "", "")
	var info wire.LedgerDescription
	require.NoError(t, json.Unmarshal([]byte(answer), &info))
	return info.TreeSize
}

// pathIDOf is the id of the one path of project p, which the event at seq has brought.
func pathIDOf(t testing.TB, url string, seq uint64) string {
	t.Helper()
	_, answer := send(t, "GET", url+"/paths/p?after="+cli.Decimal(seq), "", "")
	var list struct {
		Rows []struct {
			PathID string `json:"path_id"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &list))
	return list.Rows[0].PathID
}

// serveFolder runs a real server over a data folder until stop is called; key, if not
// nil, gets the verifier key. url is that of the ledger.
func serveFolder(t testing.TB, data string, key *string) (url string, stop func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n, err := server.Open(context.Background(), server.Config{Data: data}.WithDefaults(), datadir.Keys(data), log)
	require.NoError(t, err)
	service, err := api.New(api.Config{Host: n.Host, Index: n.Index, Log: log, SpoolDir: datadir.Spool(data), Version: "test"})
	require.NoError(t, err)
	server := httptest.NewServer(service)
	l, err := n.Host.Ledger(ledger.Default)
	require.NoError(t, err)
	require.NoError(t, n.Index.Follower(ledger.Default).Wait(context.Background(), l.Head().Size)) // an audit asks about what is indexed
	if key != nil {
		*key = l.VerifierKey()
	}
	return server.URL + remote.LedgerPath(ledger.Default), func() {
		server.Close()
		require.NoError(t, n.Close())
	}
}

// copied is a copy of the world's folder.
func (w *auditWorld) copied(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.CopyFS(dir, os.DirFS(w.data)))
	require.NoError(t, os.Chmod(datadir.Keys(dir).Path(ledger.Default), 0o600))
	return dir
}

// outcome is what a command line came to.
type outcome struct {
	code           int
	stdout, stderr string
}

// commandLine runs a command line of audit or fsck, without environment.
func commandLine(ctx context.Context, args ...string) outcome {
	var out, stderr bytes.Buffer
	c := cli.New(strings.NewReader(""), &out, &stderr, func(string) (string, bool) { return "", false })
	var o outcome
	if args[0] == "audit" {
		o.code = auditCommand(ctx, c, args[1:]...)
	} else {
		o.code = run(ctx, args, c.In, &out, &stderr, c.Env)
	}
	o.stdout, o.stderr = out.String(), stderr.String()
	return o
}

// auditCommand runs the command audit by itself, and gives its exit code.
func auditCommand(ctx context.Context, c *cli.Console, args ...string) int {
	command := newAudit(c)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args)
	command.SetOut(c.Out)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return cli.ExitOK
	}
	exit := &cli.ExitError{Code: cli.ExitUsage, Err: err} // what fails before it has begun is the command line
	errors.As(err, &exit)
	if exit.Err != nil {
		c.Say("%v", exit.Err)
	}
	return exit.Code
}

// audited audits a ledger and reads the report.
func audited(t testing.TB, url, key string, flags ...string) (monitor.Report, outcome) {
	t.Helper()
	o := commandLine(t.Context(), append([]string{"audit", url, "--key", key, "--json"}, flags...)...)
	var report monitor.Report
	if o.stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &report), "%s%s", o.stdout, o.stderr)
		require.Equal(t, o.code, report.Code)
	}
	return report, o
}
