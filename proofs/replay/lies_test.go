package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/ledgertest"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
)

// lyingTransport is an http.RoundTripper that lets a test change the server's responses.
type lyingTransport struct {
	through http.RoundTripper
	mu      sync.Mutex
	lie     func(*http.Request, *http.Response) // changes a response; nil leaves responses unchanged
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

// answersWith replaces the body, the status, and the given headers of a response.
func answersWith(response *http.Response, status int, body []byte, headers map[string]string) {
	_ = response.Body.Close()
	response.StatusCode, response.Status = status, http.StatusText(status)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	for name, value := range headers {
		response.Header.Set(name, value)
	}
}

// comparedLedger is a server with a ledger, a transport that can change the server's answers, and
// a comparer that has walked the log.
type comparedLedger struct {
	*comparer
	t         testing.TB
	check     *check
	transport *lyingTransport
	questions *questionBuilder
}

// probe is an AnswerChecker that does not compare answers. It sends the walk to the test and waits
// until the test has finished.
type probe struct {
	*check
	walk chan *monitor.Walk
	done chan struct{}
}

// Finish implements monitor.AnswerChecker.
func (p probe) Finish(_ context.Context, w *monitor.Walk) error {
	p.walk <- w
	<-p.done
	return nil
}

// compareLedger serves a copy of a ledger and walks its log as an audit does. The result can be
// used until the end of the test.
func compareLedger(t testing.TB, l *ledgertest.Ledger) *comparedLedger {
	t.Helper()
	url, stop := ledgertest.Serve(t, l.Copy(t))
	through := http.DefaultTransport.(*http.Transport).Clone()
	through.DisableCompression = true
	transport := &lyingTransport{through: through}
	k := &check{}
	p := probe{k, make(chan *monitor.Walk), make(chan struct{})}
	key, err := proofs.ParseVerifier(l.Key)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := monitor.Run(context.Background(), monitor.Options{
			Server: fetch.Server{URL: strings.TrimSuffix(url, "/v1/ledgers/default"), Transport: transport}, Ledger: "default", Keys: []*proofs.Verifier{key},
			AnswerChecker: p, CheckContent: true, Seed: 5, Concurrency: 4,
		})
		ended <- err
	}()
	var w *monitor.Walk
	select {
	case w = <-p.walk:
	case err := <-ended:
		require.NoError(t, err)
		require.Fail(t, "the log is damaged")
	}
	c, err := k.open(t.Context(), w, w.Size())
	require.NoError(t, err)
	questions, err := k.questions(t.Context(), w.Options())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.reference.Close())
		close(p.done)
		require.NoError(t, <-ended)
		stop()
	})
	return &comparedLedger{c, t, k, transport, questions}
}

// compareWith compares the server's answer to one question with the reference's answer, while lie changes
// the server's responses. It returns the finding, or nil if the comparison finds nothing.
func (w *comparedLedger) compareWith(q question, lie func(*http.Request, *http.Response)) (finding *monitor.Finding, err error) {
	w.transport.lie = lie
	defer func() { w.transport.lie = nil }()
	w.redactions, w.largest = make(map[uint64]claimedRedaction), 0
	w.smallPages.Store(false)
	answer := w.ask(w.t.Context(), q)
	if answer.needsGrowth {
		answer = w.askAgain(w.t.Context(), q)
	}
	if answer.finding == nil && answer.err == nil {
		answer.finding = w.checkClaims()
	}
	return answer.finding, answer.err
}

// lastRowsIn reports whether page has the last rows of a list even though it has a cursor. Such a
// page would also be correct without the cursor.
func (w *comparedLedger) lastRowsIn(q question, page *answerPage) bool {
	root := page.document.Root()
	q.extra = maps.Clone(q.extra)
	if q.extra == nil {
		q.extra = make(url.Values)
	}
	q.extra.Set("cursor", string(root.Member("next").Text()))
	q.asOf = 0 // the cursor already determines the size
	next, err := w.first(w.t.Context(), q)
	require.NoError(w.t, err)
	rows := next.document.Root().Member("rows")
	return next.status == http.StatusOK && rows.Kind() == pyjson.Array && rows.Len() == 0
}

// patternOf returns the route that answers a question, in the notation of openapi.yaml.
func patternOf(t testing.TB, routes []string, q question) string {
	path := q.path
	if !q.form.ofServer {
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

// changedAnswer is an answer with one change. name describes the change.
type changedAnswer struct {
	name    string
	status  int
	body    []byte
	headers map[string]string
}

// changesOf returns changed copies of an answer. In each copy, either the status is different, or one
// member, element, line, or header is dropped, changed, swapped, repeated, or added.
func changesOf(t testing.TB, page *answerPage, lines, text bool) (list []changedAnswer) {
	add := func(name string, body []byte) {
		if !bytes.Equal(body, page.body) {
			list = append(list, changedAnswer{name: name, status: page.status, body: body})
		}
	}
	for _, status := range []int{201, 202, 206, 300, 302, 304, 400, 404, 405, 409, 410, 422, 500, 501} {
		if status != page.status {
			list = append(list, changedAnswer{name: fmt.Sprintf("status %d", status), status: status, body: page.body})
		}
	}
	for name, value := range map[string]string{"Content-Type": "text/html", "Link": `</elsewhere>; rel="next"`, "Content-Encoding": "br"} {
		list = append(list, changedAnswer{"header " + name, page.status, page.body, map[string]string{name: value}})
	}
	add("empty", nil)
	add("cut", bytes.TrimSpace(page.body)[:len(bytes.TrimSpace(page.body))-1])
	add("cut in half", page.body[:len(page.body)/2])
	add("more behind", append(bytes.Clone(page.body), "{}\n"...))
	switch {
	case lines:
		all := bytes.SplitAfter(page.body, []byte("\n"))
		for i := range len(all) - 1 {
			add(fmt.Sprintf("line %d dropped", i), bytes.Join(slices.Delete(slices.Clone(all), i, i+1), nil))
			add(fmt.Sprintf("line %d twice", i), bytes.Join(slices.Insert(slices.Clone(all), i, all[i]), nil))
			if i > 0 {
				swapped := slices.Clone(all)
				swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
				add(fmt.Sprintf("line %d swapped", i), bytes.Join(swapped, nil))
			}
		}
		for at := 0; at < len(page.body); at += 1 + len(page.body)/50 {
			changed := bytes.Clone(page.body)
			changed[at] ^= 1
			add(fmt.Sprintf("byte %d changed", at), changed)
		}
		return list
	case text:
		for at := 0; at < len(page.body); at += 1 + len(page.body)/50 {
			changed := bytes.Clone(page.body)
			changed[at] ^= 1
			add(fmt.Sprintf("byte %d changed", at), changed)
		}
		return list
	}
	add("a member twice", append([]byte(`{"as_of":1,"as_of":1,`), page.body[1:]...))
	add("an array", append(append([]byte{'['}, page.body...), ']'))
	add("null", []byte("null"))
	for name, value := range jsonChanges(decoded(t, page.body)) {
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

// jsonChanges returns values that differ from value in one place, keyed by a description of the
// change.
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
				add(at+" swapped with the previous element", swapped)
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
	if _, err := fmt.Sscan(number, &n); err == nil && decimal(n) == number {
		return decimal(n + 1)
	}
	return number + "1"
}

// allowedChange reports whether a change concerns something that the log does not determine.
// docs/audit.md lists such cases.
func allowedChange(q question, name string) bool {
	if strings.HasSuffix(name, "next changed") { // the change can affect only unused bits of the cursor
		return true
	}
	if q.form == consistencyForm { // the log can have grown in the meantime
		return name == "/checkpoint dropped"
	}
	if q.form == ledgerForm || q.form == ledgersForm {
		at := name[strings.LastIndex(name, "/")+1:]
		return strings.HasPrefix(at, "frozen negated") || strings.Contains(name, "/scopes/") && strings.HasSuffix(name, " dropped") || q.form == ledgersForm && strings.HasPrefix(name, "/ledgers/") && at == "created changed"
	}
	return false
}

// For every route, the comparison detects every change to a part of the answer that the log
// determines.
func TestEveryChangeOfAnAnswerIsFound(t *testing.T) {
	w := compareLedger(t, ledgertest.NewPopulated(t, 25))
	routes := routesOf(t)
	random := rand.New(rand.NewPCG(5, 5))
	chosen := make(map[string]question)
	for _, q := range asClientsAsk(w.questions.all(), w.size, 5) {
		key := patternOf(t, routes, q) + " " + strings.Join(slices.Sorted(maps.Keys(q.values)), "&") + q.values.Get("sort") + fmt.Sprint(q.asOf > 0, q.extra.Has("proofs"), q.form.text)
		if q.asOf > 0 && q.asOf < w.size {
			key += " before"
		}
		if strings.Contains(key, "label:") && !strings.Contains(key, "by=") && len(q.values) > 1 {
			continue // these questions are similar to others that the test covers
		}
		page, err := w.first(t.Context(), q)
		require.NoError(t, err)
		if page.status == http.StatusOK && (q.lists == nil || page.document.Root().Member(q.lists[0].members[0]).Len() > 1) {
			chosen[key] = q
		} else if _, known := chosen[key]; !known {
			chosen[key] = q
		}
	}
	most, tried := 40, 0
	for _, key := range slices.Sorted(maps.Keys(chosen)) {
		q := chosen[key]
		page, err := w.first(t.Context(), q)
		require.NoError(t, err)
		finding, err := w.compareWith(q, nil)
		require.NoError(t, err, key)
		require.Nil(t, finding, "%s: %v", key, finding)
		if page.status != http.StatusOK {
			continue
		}
		changes := changesOf(t, page, q.form.lines, q.form.text)
		slices.SortFunc(changes, func(a, b changedAnswer) int { return strings.Compare(a.name, b.name) })
		random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		for _, change := range changes[:min(len(changes), most)] {
			if allowedChange(q, change.name) || change.name == "/next dropped" && w.lastRowsIn(q, page) {
				continue
			}
			tried++
			finding, err := w.compareWith(q, func(r *http.Request, response *http.Response) {
				if strings.Contains(r.URL.Path, "/log/") || strings.Contains(r.URL.RawQuery, "cursor=") {
					return
				}
				answersWith(response, change.status, change.body, change.headers)
			})
			if finding == nil && err == nil {
				t.Errorf("%s (%s): the change was not noticed: %s", key, q, change.name)
			}
		}
	}
	t.Logf("tried %d changes of the answers to %d questions", tried, len(chosen))
	require.Greater(t, tried, 8_000)
}

// The comparison detects changes to later pages and to cursors.
func TestEveryChangeOfALaterPageIsFound(t *testing.T) {
	w := compareLedger(t, ledgertest.NewPopulated(t, 25))
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
	for _, q := range asClientsAsk(w.questions.all(), w.size, 5) {
		if !q.paged() || tried > 3000 {
			continue
		}
		q.limit = 2
		member := q.lists[len(q.lists)-1].members[0]
		for name, lie := range lies {
			lied := false
			finding, err := w.compareWith(q, func(r *http.Request, response *http.Response) {
				if lied && name != "another size" || !strings.Contains(r.URL.RawQuery, "cursor=") || strings.Contains(r.URL.Path, "/log/") || response.StatusCode != http.StatusOK {
					return
				}
				body, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				answer := decoded(t, body).(map[string]any)
				_, more := answer[q.lists[len(q.lists)-1].next]
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
				t.Errorf("%s: the change was not noticed: %s", q, name)
			}
			if !lied {
				require.NoError(t, err)
				require.Nil(t, finding, q.String())
			}
		}
	}
	t.Logf("tried %d changes", tried)
	require.Greater(t, tried, 1000)
}

// The comparison detects rows that a server omits from filtered lists, such as run-DAGs with a
// given outcome, groups of run-DAGs, effects of labels, or runs with a seed.
func TestRowsLeftOutOfFilteredListsAreFound(t *testing.T) {
	lied := make(map[string]int)
	for seed := range 3 { // several ledgers, because a list of one ledger can be empty
		leaveRowsOut(t, compareLedger(t, ledgertest.NewPopulated(t, 25+seed)), lied)
	}
	require.ElementsMatch(t, []string{"/run-dags failure_stage", "/run-dags audit_mode", "/run-dags shape", "/run-dags verifier_method", "/run-dags document_root", "/run-dags evidence_id",
		"/records failure_stage", "/records audit_mode", "/records shape", "/records verifier_method", "/records document_root", "/records evidence_id",
		"groups seeded", "timeline seeded", "effects seeded", "effects of labels", "groups at the head",
		"groups by question_hash", "groups by model_profile_hash", "groups by governance_policy_hash", "groups by cache_key"}, slices.Collect(maps.Keys(lied)))
}

// leaveRowsOut makes the server omit the last row of each page of the filtered lists and requires
// that the comparison detects it. lied counts the changed lists, keyed by the kind of list.
func leaveRowsOut(t *testing.T, w *comparedLedger, lied map[string]int) {
	t.Helper()
	for _, q := range w.questions.all() { // these questions ask about the head, where few lists are empty
		var lists []string
		for _, name := range []string{"failure_stage", "audit_mode", "shape", "verifier_method", "document_root", "evidence_id"} {
			if q.values.Has(name) && (q.path == "/run-dags" || q.path == "/records") {
				lists = append(lists, q.path+" "+name)
			}
		}
		switch {
		case q.values.Get("seeded") == "true":
			list, _, _ := strings.Cut(strings.TrimPrefix(q.path, "/drift/"), "/")
			lists = append(lists, list+" seeded")
		case q.path == "/run-dags/groups":
			lists = append(lists, "groups by "+q.values.Get("by"))
			if q.atHead {
				lists = append(lists, "groups at the head")
			}
		case strings.HasPrefix(q.values.Get("variable"), "label:"):
			lists = append(lists, "effects of labels")
		}
		if lists == nil {
			continue
		}
		left := false
		finding, err := w.compareWith(q, func(r *http.Request, response *http.Response) {
			if strings.Contains(r.URL.Path, "/log/") || response.StatusCode != http.StatusOK {
				return
			}
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			answer := decoded(t, body).(map[string]any)
			if rows := answer["rows"].([]any); len(rows) > 0 {
				left, answer["rows"] = true, rows[:len(rows)-1]
			}
			body, err = json.Marshal(answer)
			require.NoError(t, err)
			answersWith(response, http.StatusOK, body, nil)
		})
		require.NoError(t, err)
		if !left {
			require.Nil(t, finding, q.String())
			continue
		}
		require.NotNil(t, finding, q.String())
		require.Contains(t, []string{"a row is missing", "the cursor points to a different row"}, finding.Message, q.String())
		for _, list := range lists {
			lied[list]++
		}
	}
}

// with returns a copy of an object with an additional member.
func with(object any, name string, value any) map[string]any {
	changed := maps.Clone(object.(map[string]any))
	changed[name] = value
	return changed
}

// The comparison accepts an answer that has the same JSON value in a different encoding, and an
// error that has the same status but different wording.
func TestDifferencesThatAreNotLies(t *testing.T) {
	w := compareLedger(t, ledgertest.NewPopulated(t, 5))
	tried, errors := 0, 0
	for _, q := range asClientsAsk(w.questions.all(), w.size, 5) {
		if q.form.lines || q.form.text || q.form == documentForm {
			continue
		}
		finding, err := w.compareWith(q, func(r *http.Request, response *http.Response) {
			if strings.Contains(r.URL.Path, "/log/") {
				return
			}
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			if response.StatusCode != http.StatusOK {
				errors++
				answersWith(response, response.StatusCode, []byte(`{"status":`+decimal(uint64(response.StatusCode))+`,"detail":"in other words"}`), nil)
				return
			}
			tried++
			other, err := json.MarshalIndent(decoded(t, body), " ", "\t") // members are sorted, and strings are escaped differently
			require.NoError(t, err)
			answersWith(response, http.StatusOK, other, map[string]string{"Content-Type": "application/json; charset=utf-8"})
		})
		require.NoError(t, err)
		require.Nil(t, finding, "%v", finding)
	}
	require.Greater(t, tried, 300)
	require.NotZero(t, errors)
}
