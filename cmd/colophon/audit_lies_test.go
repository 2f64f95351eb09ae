package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/internal/server"
	"colophon/ledger"
	"colophon/ledger/record/pyjson"
	"colophon/proofs/monitor"
)

// answerRequests add to a world what only some answers are about.
var answerRequests = []struct{ method, path, body string }{
	{"POST", "/run-dags", `{"run_id":"dag 2","question":"Who keeps the light?","messages":[{"role":"user","content":"y"}],"timestamp":"2026-01-02T00:00:00Z","inputs":{"context_root":"` + strings.Repeat("1", 64) + `","answer_text":"Bo.","audit_mode":"HYBRID",` +
		`"verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[{"score":1}]}}`},
	{"POST", "/citation-sets", `{"run_id":"set 2","subject":"s","producer":{"id":"maker","seq":1},"citations":[{"source_id":"x","text":"Another.","weight":1,"section":"a"},{"source_id":"z","chunk_hash":"sha256:` + zeroHash + `","weight":0.25}]}`},
	{"POST", "/citation-sets", `{"run_id":"set 3","subject":"s","producer":{"id":"maker","seq":4},"citations":[{"source_id":"x","text":"Ana  Varga keeps it.","weight":1}]}`},
	{"POST", "/ipc-records", `{"run_id":"made","payload":{"q":"Made?"},"output":"Made.","model":"m1","temperature":0.25,"max_tokens":9,"seed":7,"timestamp":"2026-01-01T00:00:00Z","producer":{"id":"maker","seq":4}}`},
	{"PUT", "/sources/x", `{"title":"X","chunk_hashes":["sha256:` + zeroHash + `"]}`},
	{"PUT", "/sources/y", `{"title":"Y"}`},
	{"POST", "/path-fingerprints", `{"run_id":"path 2","project":"p","build":"1","route":["Start","On"],"content":"On."}`},
	{"POST", "/path-fingerprints", `{"run_id":"path 3","project":"p","build":"2","route":["Start"],"content":"The new [[quay]]."}`},
	{"POST", "/ipc-records", `{"run_id":"made","payload":{"q":"Else?"},"output":"Else.","model":"m1","temperature":0.25,"max_tokens":9,"seed":7}`},
}

// newAnswerWorld is a world that every question has an answer about.
func newAnswerWorld(t testing.TB, bulk int) *auditWorld {
	t.Helper()
	w := newAuditWorld(t, bulk, 5, bulk)
	ledger, stop := serveFolder(t, w.data, nil)
	defer stop()
	for _, r := range answerRequests {
		status, answer := send(t, r.method, ledger+r.path, r.body, "application/json")
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status, answer)
	}
	w.size = headOf(t, ledger)
	return w
}

// lyingTransport changes some answers on their way.
type lyingTransport struct {
	through http.RoundTripper
	mu      sync.Mutex
	lie     func(*http.Request, *http.Response) // nil changes none
	asked   int
}

// RoundTrip implements http.RoundTripper.
func (l *lyingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	response, err := l.through.RoundTrip(r)
	if err == nil && l.lie != nil {
		l.lie(r, response)
	}
	return response, err
}

// answersWith puts a body, a status and headers into an answer.
func answersWith(response *http.Response, status int, body []byte, headers map[string]string) {
	_ = response.Body.Close()
	response.StatusCode, response.Status = status, http.StatusText(status)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	for name, value := range headers {
		response.Header.Set(name, value)
	}
}

// comparedWorld is a server over a world, with a comparer that has walked its log.
type comparedWorld struct {
	*monitor.Comparer
	t         testing.TB
	walk      *monitor.WholeWalk
	transport *lyingTransport
	asked     *monitor.Asker
}

// compareWorld walks the log of a world as an audit does.
func compareWorld(t testing.TB, w *auditWorld, options monitor.Options) *comparedWorld {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	data := w.copied(t)
	n, err := server.Open(context.Background(), server.Config{Data: data}.WithDefaults(), datadir.Keys(data), log)
	require.NoError(t, err)
	service, err := api.New(api.Config{Host: n.Host, Index: n.Index, Log: log, SpoolDir: datadir.Spool(data), Version: "test"})
	require.NoError(t, err)
	server := httptest.NewServer(service)
	through := http.DefaultTransport.(*http.Transport).Clone()
	through.DisableCompression = true
	transport := &lyingTransport{through: through}
	options.Ledger, options.Parallel, options.Timeout, options.Content = ledger.Default, 4, time.Minute, true
	c, _ := consoleWith(nil)
	a := &monitor.Auditor{Console: c, Options: options, Report: &monitor.Report{}}
	keys, err := cli.ParseKeys(w.key, "the key")
	require.NoError(t, err)
	a.Given, a.Keys, a.Known = keys.Keys, keys.Keys, keys.Keys
	a.Fetch, err = monitor.NewFetcher(monitor.RemoteServer{Url: server.URL, Transport: transport}, remote.LedgerPath(ledger.Default), a.Timeout, a.Parallel)
	require.NoError(t, err)
	a.Memory, err = monitor.OpenAuditMemory("", a.Keys)
	require.NoError(t, err)
	published, err := monitor.OpenPublishedLog(t.Context(), a.Fetch, a.Keys, 1)
	require.NoError(t, err)
	walk := &monitor.WholeWalk{Auditor: a, Log: published, Past: a.Memory.Past, Redacts: make(map[uint64]uint64)}
	dir := t.TempDir()
	walk.Replica, err = monitor.NewReplica(dir, ledger.Default, walk.Redacts)
	require.NoError(t, err)
	require.NoError(t, walk.Run(t.Context()))
	r, err := monitor.OpenReference(t.Context(), walk, dir, walk.At.Size)
	require.NoError(t, err)
	compared, err := r.Comparer()
	require.NoError(t, err)
	asked, err := a.AskerOf(walk.Replica)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, walk.Replica.Close())
		require.NoError(t, a.Memory.Close())
		server.Close()
		require.NoError(t, n.Close())
	})
	return &comparedWorld{compared, t, walk, transport, asked}
}

// named asks a question while the server lies, and says what the auditor makes of it.
func (w *comparedWorld) named(q monitor.Question, lie func(*http.Request, *http.Response)) (finding *monitor.Finding, err error) {
	w.transport.lie = lie
	defer func() { w.transport.lie = nil }()
	w.Redacted, w.Largest = make(map[uint64]monitor.RedactionSaid), 0
	w.ShortPage.Store(false)
	answer := w.Ask(w.t.Context(), q)
	if answer.Later {
		answer = w.Settle(w.t.Context(), q)
	}
	if answer.Finding == nil && answer.Err == nil {
		answer.Finding = w.HeldToLog(w.walk.Replica.Written, w.walk.Redacts)
	}
	return answer.Finding, answer.Err
}

// lastRowsIn reports whether a page has the last rows of a list, though it names a next page:
// without that name the answer is the same list.
func (w *comparedWorld) lastRowsIn(q monitor.Question, page *monitor.AnswerPage) bool {
	root := page.Document.Root()
	q.Extra = maps.Clone(q.Extra)
	if q.Extra == nil {
		q.Extra = make(url.Values)
	}
	q.Extra.Set("cursor", string(root.Member("next").Text()))
	q.AsOf = 0 // the cursor has it
	next, err := w.First(w.t.Context(), q)
	require.NoError(w.t, err)
	rows := next.Document.Root().Member("rows")
	return next.Status == http.StatusOK && rows.Kind() == pyjson.Array && rows.Len() == 0
}

// patternOf is the route that answers a question, as the contract names it.
func patternOf(t testing.TB, routes []string, q monitor.Question) string {
	path := q.Path
	if !q.Form.Server {
		path = "/v1/ledgers/{ledger}" + path
	}
	best := ""
	for _, route := range routes {
		pattern, found := strings.CutPrefix(route, "GET ")
		parts, wanted := strings.Split(path, "/"), strings.Split(pattern, "/")
		if !found || len(parts) != len(wanted) {
			continue
		}
		fits := true
		for i := range parts {
			fits = fits && (parts[i] == wanted[i] || strings.HasPrefix(wanted[i], "{"))
		}
		if fits && (best == "" || strings.Count(pattern, "{") < strings.Count(best, "{")) {
			best = pattern
		}
	}
	require.NotEmpty(t, best, q.String())
	return best
}

// changedAnswer is one way to change an answer.
type changedAnswer struct {
	name    string
	status  int
	body    []byte
	headers map[string]string
}

// changesOf are all ways to change an answer: every member, element, line, header and
// status is dropped, changed, swapped, repeated or added, one at a time.
func changesOf(t testing.TB, page *monitor.AnswerPage, lines, text bool) (list []changedAnswer) {
	add := func(name string, body []byte) {
		if !bytes.Equal(body, page.Body) {
			list = append(list, changedAnswer{name: name, status: page.Status, body: body})
		}
	}
	for _, status := range []int{201, 202, 206, 300, 302, 304, 400, 404, 405, 409, 410, 422, 500, 501} {
		if status != page.Status {
			list = append(list, changedAnswer{name: fmt.Sprintf("status %d", status), status: status, body: page.Body})
		}
	}
	for name, value := range map[string]string{"Content-Type": "text/html", "Link": `</elsewhere>; rel="next"`, "Content-Encoding": "br"} {
		list = append(list, changedAnswer{"header " + name, page.Status, page.Body, map[string]string{name: value}})
	}
	add("empty", nil)
	add("cut", bytes.TrimSpace(page.Body)[:len(bytes.TrimSpace(page.Body))-1])
	add("cut in half", page.Body[:len(page.Body)/2])
	add("more behind", append(bytes.Clone(page.Body), "{}\n"...))
	switch {
	case lines:
		all := bytes.SplitAfter(page.Body, []byte("\n"))
		for i := range len(all) - 1 {
			add(fmt.Sprintf("line %d dropped", i), bytes.Join(slices.Delete(slices.Clone(all), i, i+1), nil))
			add(fmt.Sprintf("line %d twice", i), bytes.Join(slices.Insert(slices.Clone(all), i, all[i]), nil))
			if i > 0 {
				swapped := slices.Clone(all)
				swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
				add(fmt.Sprintf("line %d swapped", i), bytes.Join(swapped, nil))
			}
		}
		for at := 0; at < len(page.Body); at += 1 + len(page.Body)/50 {
			changed := bytes.Clone(page.Body)
			changed[at] ^= 1
			add(fmt.Sprintf("byte %d changed", at), changed)
		}
		return list
	case text:
		for at := 0; at < len(page.Body); at += 1 + len(page.Body)/50 {
			changed := bytes.Clone(page.Body)
			changed[at] ^= 1
			add(fmt.Sprintf("byte %d changed", at), changed)
		}
		return list
	}
	add("a member twice", append([]byte(`{"as_of":1,"as_of":1,`), page.Body[1:]...))
	add("an array", append(append([]byte{'['}, page.Body...), ']'))
	add("null", []byte("null"))
	for name, value := range jsonChanges(decoded(t, page.Body)) {
		body, err := json.Marshal(value)
		require.NoError(t, err)
		add(name, body)
	}
	return list
}

func decoded(t testing.TB, text []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&value))
	return value
}

// jsonChanges are values that differ from one in one place.
func jsonChanges(value any) map[string]any {
	all := make(map[string]any)
	add := func(name string, changed any) {
		if !reflect.DeepEqual(changed, value) {
			all[name] = changed
		}
	}
	switch v := value.(type) {
	case map[string]any:
		with := maps.Clone(v)
		with["unknown"] = 1
		add(" with an unknown member", with)
		for name, member := range v {
			left := maps.Clone(v)
			delete(left, name)
			add("/"+name+" dropped", left)
			for what, changed := range jsonChanges(member) {
				with := maps.Clone(v)
				with[name] = changed
				add("/"+name+what, with)
			}
		}
	case []any:
		add(" with an element", append(slices.Clone(v), "more"))
		if len(v) == 0 {
			break
		}
		add(" emptied", []any{})
		for _, i := range slices.Compact([]int{0, len(v) / 2, len(v) - 1}) {
			at := fmt.Sprintf("/%d", i)
			add(at+" dropped", slices.Delete(slices.Clone(v), i, i+1))
			add(at+" twice", slices.Insert(slices.Clone(v), i, v[i]))
			if i > 0 {
				swapped := slices.Clone(v)
				swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
				add(at+" swapped with the one before", swapped)
			}
			for what, changed := range jsonChanges(v[i]) {
				with := slices.Clone(v)
				with[i] = changed
				add(at+what, with)
			}
		}
	case string:
		add(" longer", v+"0")
		add(" empty", "")
		add(" null", nil)
		if len(v) > 0 {
			last := "0"
			if v[len(v)-1] == '0' {
				last = "1"
			}
			add(" changed", v[:len(v)-1]+last)
		}
		if strings.HasPrefix(v, "/v1/") {
			add(" to another host", "https://elsewhere.example"+v)
		}
	case json.Number:
		add(" one more", json.Number(plusOne(v.String())))
		add(" zero", json.Number("0"))
		add(" far on", json.Number("9007199254740993"))
		add(" a string", v.String())
		add(" null", nil)
	case bool:
		add(" negated", !v)
		add(" null", nil)
	case nil:
		add(" zero", json.Number("0"))
		add(" a string", "x")
	}
	return all
}

func plusOne(number string) string {
	var n uint64
	if _, err := fmt.Sscan(number, &n); err == nil && cli.Decimal(n) == number {
		return cli.Decimal(n + 1)
	}
	return number + "1"
}

// allowedChange reports whether a change is none that a copy of the log can see: docs/audit.md
// says which.
func allowedChange(q monitor.Question, name string) bool {
	if strings.HasSuffix(name, "next changed") { // the last letter of base64 may have bits to spare
		return true
	}
	if q.Form == monitor.OfTwoSizes { // the log may have grown
		return name == "/checkpoint dropped"
	}
	if q.Form == monitor.OfLedger || q.Form == monitor.OfLedgers {
		at := name[strings.LastIndex(name, "/")+1:]
		return strings.HasPrefix(at, "frozen negated") || q.Form == monitor.OfLedgers && strings.HasPrefix(name, "/ledgers/") && at == "created changed"
	}
	return false
}

// Whatever is changed in an answer, of whatever route, is found.
func TestEveryChangeOfAnAnswerIsFound(t *testing.T) {
	w := compareWorld(t, newAnswerWorld(t, 25), monitor.Options{Seed: 5})
	routes := routesOf(t)
	random := rand.New(rand.NewPCG(5, 5))
	chosen := make(map[string]monitor.Question)
	for _, q := range monitor.AsClientsDo(w.asked.All(), w.Size, random) {
		key := patternOf(t, routes, q) + " " + strings.Join(slices.Sorted(maps.Keys(q.Values)), "&") + q.Values.Get("sort") + fmt.Sprint(q.AsOf > 0, q.Extra.Has("proofs"), q.Form.Text)
		if q.AsOf > 0 && q.AsOf < w.Size {
			key += " before"
		}
		if strings.Contains(key, "label:") && !strings.Contains(key, "by=") && len(q.Values) > 1 {
			continue // as all others
		}
		page, err := w.First(t.Context(), q)
		require.NoError(t, err)
		if page.Status == http.StatusOK && (q.Lists == nil || page.Document.Root().Member(q.Lists[0].Members[0]).Len() > 1) {
			chosen[key] = q
		} else if _, known := chosen[key]; !known {
			chosen[key] = q
		}
	}
	most, tried := 40, 0
	for _, key := range slices.Sorted(maps.Keys(chosen)) {
		q := chosen[key]
		page, err := w.First(t.Context(), q)
		require.NoError(t, err)
		finding, err := w.named(q, nil)
		require.NoError(t, err, key)
		require.Nil(t, finding, "%s: %v", key, finding)
		if page.Status != http.StatusOK {
			continue
		}
		changes := changesOf(t, page, q.Form.Lines, q.Form.Text)
		slices.SortFunc(changes, func(a, b changedAnswer) int { return strings.Compare(a.name, b.name) })
		random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		for _, change := range changes[:min(len(changes), most)] {
			if allowedChange(q, change.name) || change.name == "/next dropped" && w.lastRowsIn(q, page) {
				continue
			}
			tried++
			finding, err := w.named(q, func(r *http.Request, response *http.Response) {
				if strings.Contains(r.URL.Path, "/log/") || strings.Contains(r.URL.RawQuery, "cursor=") {
					return
				}
				answersWith(response, change.status, change.body, change.headers)
			})
			if finding == nil && err == nil {
				t.Errorf("%s (%s): unnoticed: %s", key, q, change.name)
			}
		}
	}
	t.Logf("%d changes of the answers to %d questions", tried, len(chosen))
	require.Greater(t, tried, 8_000)
}

// What is wrong with a later page, or with the way there, is found.
func TestEveryChangeOfALaterPageIsFound(t *testing.T) {
	w := compareWorld(t, newAnswerWorld(t, 25), monitor.Options{Seed: 5})
	rows := func(change func([]any) []any) func(*testing.T, map[string]any, string) {
		return func(_ *testing.T, answer map[string]any, member string) {
			answer[member] = change(answer[member].([]any))
		}
	}
	lies := map[string]func(t *testing.T, answer map[string]any, member string){
		"first dropped":   rows(func(rows []any) []any { return rows[1:] }),
		"last dropped":    rows(func(rows []any) []any { return rows[:len(rows)-1] }),
		"all dropped":     rows(func([]any) []any { return []any{} }),
		"first twice":     rows(func(rows []any) []any { return append([]any{rows[0]}, rows...) }),
		"one more member": rows(func(rows []any) []any { return append([]any{with(rows[0], "unknown", 1)}, rows[1:]...) }),
		"the end": func(_ *testing.T, answer map[string]any, _ string) {
			delete(answer, "next")
			delete(answer, "outputs_next")
		},
		"another size": func(_ *testing.T, answer map[string]any, _ string) { answer["as_of"] = 3 },
		"no such page": func(_ *testing.T, answer map[string]any, _ string) {
			answer["next"], answer["outputs_next"] = "AAAA", "AAAA"
		},
	}
	tried := 0
	for _, q := range monitor.AsClientsDo(w.asked.All(), w.Size, rand.New(rand.NewPCG(5, 5))) {
		if !q.Paged() || tried > 3000 {
			continue
		}
		q.Limit = 2
		member := q.Lists[len(q.Lists)-1].Members[0]
		for name, lie := range lies {
			lied := false
			finding, err := w.named(q, func(r *http.Request, response *http.Response) {
				if lied && name != "another size" || !strings.Contains(r.URL.RawQuery, "cursor=") || strings.Contains(r.URL.Path, "/log/") || response.StatusCode != http.StatusOK {
					return
				}
				body, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				answer := decoded(t, body).(map[string]any)
				_, more := answer[q.Lists[len(q.Lists)-1].Next]
				if list, _ := answer[member].([]any); len(list) == 0 || name == "the end" && !more {
					answersWith(response, http.StatusOK, body, nil)
					return
				}
				lie(t, answer, member)
				lied = true
				body, err = json.Marshal(answer)
				require.NoError(t, err)
				answersWith(response, http.StatusOK, body, nil)
			})
			if lied {
				tried++
			}
			if lied && finding == nil && err == nil {
				t.Errorf("%s: unnoticed: %s", q, name)
			}
			if !lied {
				require.NoError(t, err)
				require.Nil(t, finding, q.String())
			}
		}
	}
	t.Logf("%d changes", tried)
	require.Greater(t, tried, 1000)
}

// with is an object with another member.
func with(object any, name string, value any) map[string]any {
	changed := maps.Clone(object.(map[string]any))
	changed[name] = value
	return changed
}

// Every route that answers a GET is asked and compared, or docs/audit.md says why not.
func TestEveryRouteIsAskedOrNamed(t *testing.T) {
	w := compareWorld(t, newAnswerWorld(t, 25), monitor.Options{Seed: 5})
	routes := routesOf(t)
	asked := make(map[string]bool)
	for _, q := range monitor.AsClientsDo(w.asked.All(), w.Size, rand.New(rand.NewPCG(5, 5))) {
		asked[patternOf(t, routes, q)] = true
	}
	document, err := os.ReadFile("../../docs/audit.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(document), "## Routes that are not compared")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	for _, route := range routes {
		pattern, get := strings.CutPrefix(route, "GET ")
		if !get {
			continue
		}
		named := strings.Contains(table, "`"+pattern+"`")
		require.NotEqual(t, asked[pattern], named, "%s: either it is asked, or the document says why not", pattern)
	}
}

// A server cannot know what an audit will ask. The report says how to ask it again.
func TestSeedRepeatsTheQuestions(t *testing.T) {
	world := newAnswerWorld(t, 5)
	w := compareWorld(t, world, monitor.Options{Seed: 5})
	asked := func(seed uint64) (list []string) {
		for _, q := range monitor.AsClientsDo(w.asked.All(), w.Size, rand.New(rand.NewPCG(seed, 1))) {
			list = append(list, q.At(monitor.PagePlace{Size: q.AsOf, Limit: q.Limit}))
		}
		return list
	}
	require.Equal(t, asked(5), asked(5))
	require.NotEqual(t, asked(5), asked(6))
	forms := make(map[string]bool)
	for _, q := range asked(5) {
		for _, name := range []string{"as_of=", "limit=", "after=", "proofs=", "sort=", "since=", "until=", "min_runs=", "min_outputs="} {
			path, parameters, _ := strings.Cut(q, "?")
			if path == "/drift/groups" {
				forms[fmt.Sprint(name, strings.Contains(parameters, name))] = true
			}
		}
	}
	require.Len(t, forms, 18, "each is asked with and without")

	url, stop := serveFolder(t, world.data, nil)
	defer stop()
	first, o := audited(t, url, world.key, "--replay-index", "--sample", "1")
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	second, _ := audited(t, url, world.key, "--replay-index", "--sample", "1")
	require.NotEqual(t, first.Seed, second.Seed)
	require.NotZero(t, first.Seed)
	again, _ := audited(t, url, world.key, "--replay-index", "--sample", "1", "--seed", cli.Decimal(first.Seed))
	require.Equal(t, []uint64{first.Seed, first.Queries, first.Rows}, []uint64{again.Seed, again.Queries, again.Rows})
	text := commandLine(t.Context(), "audit", url, "--key", world.key, "--replay-index", "--sample", "1", "--seed", "9")
	require.Contains(t, text.stdout, "--seed 9 asks the same again")
}

// What is the same answer in another form is no lie, nor are the words of an error.
func TestWhatIsNoLie(t *testing.T) {
	w := compareWorld(t, newAnswerWorld(t, 5), monitor.Options{Seed: 5})
	tried, errors := 0, 0
	for _, q := range monitor.AsClientsDo(w.asked.All(), w.Size, rand.New(rand.NewPCG(5, 5))) {
		if q.Form.Lines || q.Form.Text || q.Form == monitor.OfDocument {
			continue
		}
		finding, err := w.named(q, func(r *http.Request, response *http.Response) {
			if strings.Contains(r.URL.Path, "/log/") {
				return
			}
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			if response.StatusCode != http.StatusOK {
				errors++
				answersWith(response, response.StatusCode, []byte(`{"status":`+cli.Decimal(uint64(response.StatusCode))+`,"detail":"in other words"}`), nil)
				return
			}
			tried++
			other, err := json.MarshalIndent(decoded(t, body), " ", "\t") // sorted, and with other escapes
			require.NoError(t, err)
			answersWith(response, http.StatusOK, other, map[string]string{"Content-Type": "application/json; charset=utf-8"})
		})
		require.NoError(t, err)
		require.Nil(t, finding, "%v", finding)
	}
	require.Greater(t, tried, 300)
	require.NotZero(t, errors)
}

// An audit that may not ask ends with an error, never clean.
func TestAuditsThatMayNotAsk(t *testing.T) {
	w := newAuditWorld(t, 5, 0, 5)
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		report, o := audited(t, liar(t, w, lie{about: onPath("/producers"), status: status}), w.key, "--replay-index", "--sample", "1")
		require.Equal(t, cli.ExitFailed, o.code, "%s%s", o.stdout, o.stderr)
		require.Empty(t, report.Findings)
		require.Contains(t, o.stderr, "the answers cannot be audited")
	}
}

// routesOf are the routes of a server with metrics.
func routesOf(t testing.TB) []string {
	t.Helper()
	data := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	n, err := server.Open(context.Background(), server.Config{Data: data}.WithDefaults(), datadir.Keys(data), log)
	require.NoError(t, err)
	service, err := api.New(api.Config{Host: n.Host, Index: n.Index, Log: log, SpoolDir: datadir.Spool(data), Version: "test"})
	require.NoError(t, err)
	require.NoError(t, n.Close())
	return service.Routes()
}
