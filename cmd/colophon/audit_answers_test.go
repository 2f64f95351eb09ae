package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api"
	"colophon/api/limits"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/internal/server"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
	"colophon/proofs/monitor"
)

// Package replay refuses answers that exceed these limits. Some answers in these tests exceed them.
const (
	maxAnswer = 16 << 20 // bytes
	maxValues = 400_000
)

type answerRows = []map[string]any

// lie describes how a dishonest server changes one kind of answer, and what the audit must find.
type lie struct {
	name string
	// about reports whether the server changes the answer to a query.
	about func(path, query string) bool
	// change modifies the decoded answer. If text is set, the server passes the encoded answer to
	// text instead.
	change func(answer map[string]any)
	text   func(string) string
	status int // HTTP status to send instead of 200
	// alone requests a separate audit for the lie, because the lie stops the audit or hides
	// findings about other lies.
	alone bool
	// want is a finding that the audit must report. Its Query contains the path, which can be
	// followed by parts of the query string. A path that ends with a slash is a prefix.
	want monitor.Finding
}

// liar runs a real server on a copy of the ledger's folder, behind a proxy that changes answers. If
// several lies apply to a query, the first one is used. Lists have at most 40 rows per page.
func liar(t *testing.T, w *ledgertest.Ledger, lies ...lie) (url string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	data := w.Copy(t)
	n, err := server.OpenNode(context.Background(), server.Config{DataDir: data}.WithDefaults(), datadir.KeyFiles(data), log)
	require.NoError(t, err)
	service, err := api.New(api.Config{Host: n.Host, Index: n.Index, Logger: log, SpoolDir: datadir.SpoolFolder(data), Version: "test", ServerLimits: limits.ServerLimits{MaxPageRows: 40}})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, remote.LedgerPath(ledger.DefaultName))
		at := slices.IndexFunc(lies, func(l lie) bool { return l.about != nil && l.about(path, r.URL.RawQuery) })
		if at < 0 {
			service.ServeHTTP(answer, r)
			return
		}
		l := lies[at]
		r.Header.Del("Accept-Encoding")
		recorded := httptest.NewRecorder()
		service.ServeHTTP(recorded, r)
		text := recorded.Body.String()
		if l.text != nil {
			text = l.text(text)
		} else if l.change != nil && recorded.Code == http.StatusOK {
			var members map[string]any
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.UseNumber()
			require.NoError(t, decoder.Decode(&members))
			l.change(members)
			changed, err := json.Marshal(members)
			require.NoError(t, err)
			text = string(changed)
		}
		for _, name := range []string{"Content-Type", "Link", "Colophon-As-Of"} {
			if value := recorded.Header().Get(name); value != "" {
				answer.Header().Set(name, value)
			}
		}
		if l.status != 0 {
			recorded.Code = l.status
		}
		answer.WriteHeader(recorded.Code)
		_, _ = answer.Write([]byte(text))
	}))
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, n.Close())
	})
	return server.URL + remote.LedgerPath(ledger.DefaultName)
}

func onPath(wanted string, of ...string) func(path, query string) bool {
	return func(path, query string) bool {
		for _, part := range of {
			if !strings.Contains(query, part) {
				return false
			}
		}
		return path == wanted
	}
}

func changeRows(change func(answerRows) answerRows) func(map[string]any) {
	return func(answer map[string]any) {
		rows := answerRows{}
		for _, row := range answer["rows"].([]any) {
			rows = append(rows, row.(map[string]any))
		}
		answer["rows"] = change(rows)
	}
}

// If a server omits, adds, or changes anything in an answer, the audit's findings name the query
// and the row. The environment variable COLOPHON_AUDIT_SEED overrides the audit's seed.
func TestLiesAreNamed(t *testing.T) {
	w := ledgertest.New(t, 60, 5, 60)
	without := func(i int) func(map[string]any) {
		return changeRows(func(rows answerRows) answerRows { return slices.Delete(rows, min(i, len(rows)), min(i+1, len(rows))) })
	}
	first := func(change func(row map[string]any)) func(map[string]any) {
		return changeRows(func(rows answerRows) answerRows {
			if len(rows) > 0 {
				change(rows[0])
			}
			return rows
		})
	}
	answer := func(query, row, message string) monitor.Finding {
		return monitor.Finding{Kind: monitor.DamageKindAnswer, Query: query, Row: row, Message: message}
	}
	// live selects queries that are answered at the current head because they have neither a tree
	// size nor a cursor.
	live := func(wanted string, of ...string) func(path, query string) bool {
		return func(path, query string) bool {
			return onPath(wanted, of...)(path, query) && !strings.Contains(query, "as_of=") && !strings.Contains(query, "cursor=")
		}
	}
	under := func(prefix, suffix string) func(path, query string) bool {
		return func(path, _ string) bool { return strings.HasPrefix(path, prefix) && strings.HasSuffix(path, suffix) }
	}
	swap := changeRows(func(rows answerRows) answerRows {
		if len(rows) > 1 {
			rows[0], rows[1] = rows[1], rows[0]
		}
		return rows
	})
	lies := []lie{
		{name: "none", alone: true},
		{name: "a record is hidden from queries without a size", alone: true, about: live("/records"), change: without(0), want: answer("/records", "", "a row is missing")},
		{name: "a record is hidden from a list between two times", alone: true, about: live("/records", "since="), change: without(0), want: answer("/records?", "rows[0]", "a row is missing")},
		{name: "a record is hidden from a list by time of occurrence", about: onPath("/records", "clock=occurred"), change: changeRows(func(rows answerRows) answerRows { return append(rows, map[string]any{"seq": 1}) }), want: answer("/records?clock=occurred", "rows[0]", "the list has an extra row")},
		{name: "a group is hidden from a ranking", about: onPath("/drift/groups", "sort="), change: without(0), want: answer("/drift/groups?", "rows[0]", "a row is missing")},
		{name: "two groups of a ranking are swapped", alone: true, about: onPath("/drift/groups", "sort=stability"), change: swap, want: answer("/drift/groups?", "rows[0]", "")},
		{name: "a group of several runs is hidden", about: live("/drift/groups", "min_runs="), change: without(0), want: answer("/drift/groups?", "rows[0]", "")},
		{name: "an erasure by a later event", about: live("/records", "kind=run_dag"), change: first(func(row map[string]any) { row["redacted_by"] = 1 << 30 }), want: answer("/records?", "", "the size in the response is larger than the size of the log")},
		{name: "another count", about: onPath("/stats"), change: func(a map[string]any) { a["records"].(map[string]any)["run_dag"] = 7 }, want: answer("/stats", "records", "the value is not the expected one")},
		{name: "a tree size that is too large", alone: true, about: onPath("/stats"), change: func(a map[string]any) { a["tree_size"] = w.Size + 1 }, want: answer("/stats", "", "the size in the response is larger than the size of the log")},
		{name: "counts at a size that the log does not have", about: onPath("/stats"), change: func(a map[string]any) { a["as_of"], a["tree_size"] = w.Size+1, w.Size+1 }, want: answer("/stats", "", "the size in the response is larger than the size of the log")},
		{name: "another checkpoint of a stage", about: under("/run-dags/", "/stage-proof/answer"), change: func(a map[string]any) {
			r := a["receipt"].(map[string]any)
			r["checkpoint"] = strings.Replace(r["checkpoint"].(string), "\n"+cli.FormatUint(w.Size)+"\n", "\n"+cli.FormatUint(w.Size+1)+"\n", 1)
		}, want: answer("/run-dags/", "receipt", "the value is not the expected one")},
		{name: "another event", alone: true, about: onPath("/events"), text: func(text string) string { return strings.Replace(text, `"anonymous"`, `"somebody"`, 1) }, want: answer("/events?", "", "the line differs from the expected one")},
		{name: "too many values", about: onPath("/sources"), text: func(string) string { return `{"a":[` + strings.Repeat("1,", maxValues) + `1]}` }, want: answer("/sources", "", "")},
		{name: "metrics of an earlier moment", about: onPath("/metrics"), text: func(text string) string {
			return strings.Replace(text, `colophon_ledger_citation_conflicts_total{ledger="default"} 0`, `colophon_ledger_citation_conflicts_total{ledger="default"} 0 1000`, 1)
		}, want: monitor.Finding{Kind: monitor.DamageKindMetrics, Query: "/metrics"}},
		{name: "a tree size that is too large by one", alone: true, about: onPath("/metrics"), text: func(text string) string {
			return strings.Replace(text, `colophon_ledger_tree_size{ledger="default"} `+cli.FormatUint(w.Size), `colophon_ledger_tree_size{ledger="default"} `+cli.FormatUint(w.Size+1), 1)
		}, want: monitor.Finding{Kind: monitor.DamageKindMetrics, Row: "colophon_ledger_tree_size", Message: "the tree size is larger than the size of the log"}},
		{name: "a record is hidden", about: onPath("/records", "events=true"), change: without(7), want: answer("/records?events=true", "rows[7]", "a row is missing")},
		{name: "the first record is hidden", about: onPath("/records", "kind=run_dag"), change: without(0), want: answer("/records?kind=run_dag", "rows[0]", "a row is missing")},
		{name: "a record is added", about: onPath("/records", "state=stale"), change: changeRows(func(rows answerRows) answerRows { return append(rows, rows[:min(1, len(rows))]...) }),
			want: answer("/records?state=stale", "rows[1]", "the list has an extra row")},
		{name: "a record is shown twice", about: onPath("/records", "kind=ipc_record"), change: changeRows(func(rows answerRows) answerRows { return append(rows, rows[max(0, len(rows)-1):]...) }),
			want: answer("/records?", "", "the list has an extra row")},
		{name: "a state is changed", about: onPath("/records", "state=stale"), change: first(func(row map[string]any) { row["state"] = "live" }), want: answer("/records?state=stale", "rows[0]", "the row differs from the expected one")},
		{name: "a failed check is made up", about: onPath("/records", "kind=run_dag"), change: first(func(row map[string]any) { row["mismatches"] = []any{"root"} }), want: answer("/records?kind=run_dag", "rows[0]", "the row differs from the expected one")},
		{name: "an event is changed", about: onPath("/records", "events=true"), text: func(text string) string { return strings.Replace(text, `"model":"m2"`, `"model":"m3"`, 1) },
			want: answer("/records?events=true", "", "the row differs from the expected one")},
		{name: "an erasure is hidden", about: onPath("/records", "events=true"), change: changeRows(func(rows answerRows) answerRows {
			for _, row := range rows {
				delete(row, "redacted_by")
			}
			return rows
		}), want: answer("/records?events=true", "", "the row differs from the expected one")},
		{name: "an erasure is made up", about: onPath("/records/"+cli.FormatUint(w.EventSeqs["dag"]), "derive=true"), change: func(a map[string]any) { a["redacted_by"] = 3 },
			want: answer("/records/"+cli.FormatUint(w.EventSeqs["dag"])+"?derive=true", "redacted_by", "the value is not the expected one")},
		{name: "an erasure by an invalid event", about: onPath("/records", "kind=run_dag"), change: first(func(row map[string]any) { row["redacted_by"] = "nobody" }),
			want: answer("/records?kind=run_dag", "rows[0]", "the row differs from the expected one")},
		{name: "a mismatch is hidden", about: onPath("/records", "mismatch=output_hash"), change: without(0), want: answer("/records?mismatch=output_hash", "rows[0]", "a row is missing")},
		{name: "all mismatches are hidden", about: onPath("/records", "flag=mismatch"), change: changeRows(func(answerRows) answerRows { return answerRows{} }), want: answer("/records?flag=mismatch", "rows[0]", "a row is missing")},
		{name: "a page is cut off", about: onPath("/records", "events=true", "cursor="), change: func(a map[string]any) { delete(a, "next") }, want: answer("/records?events=true", "rows[80]", "a row is missing")},
		{name: "pages without end", about: onPath("/records", "events=true", "cursor="), change: func(a map[string]any) { a["rows"], a["next"] = []any{}, "AAAA" },
			want: answer("/records?events=true", "", "")},
		{name: "a group is hidden", about: onPath("/drift/groups", "by=model", "state=live"), change: without(1), want: answer("/drift/groups?by=model&state=live", "rows[1]", "a row is missing")},
		{name: "a group has a wrong count", about: onPath("/drift/groups", "by=label%3An", "state=any"), change: first(func(row map[string]any) { row["runs"] = 1000 }),
			want: answer("/drift/groups?by=label%3An&", "rows[0]", "the row differs from the expected one")},
		{name: "a run of a group is hidden", about: onPath("/drift/groups/model/m1", "state=live"), change: without(2), want: answer("/drift/groups/model/m1?state=live", "rows[2]", "a row is missing")},
		{name: "an output of a group is hidden", about: onPath("/drift/groups/model/m1", "state=any"), change: func(a map[string]any) {
			outputs := a["outputs"].([]any)
			a["outputs"] = outputs[min(1, len(outputs)):]
		},
			want: answer("/drift/groups/model/m1?state=any", "outputs[0]", "a row is missing")},
		{name: "a cause is changed", about: onPath("/drift/timeline", "model=m1", "state=any"), change: first(func(row map[string]any) { row["cause"] = "nothing" }), want: answer("/drift/timeline?model=m1&state=any", "rows[0]", "the row differs from the expected one")},
		{name: "an effect is played down", about: onPath("/drift/effects", "variable=model"), change: func(a map[string]any) { a["changed"] = 0 }, want: answer("/drift/effects?a=", "changed", "the value is not the expected one")},
		{name: "a pair is hidden", about: onPath("/drift/effects", "variable=model"), change: without(0), want: answer("/drift/effects?a=", "rows[0]", "a row is missing")},
		{name: "a failure is hidden", about: onPath("/run-dags/failures", "state=any"), change: func(a map[string]any) { a["total"] = 0 }, want: answer("/run-dags/failures?state=any", "total", "the value is not the expected one")},
		{name: "a citation is hidden", about: onPath("/citation-sets/by-source/x"), change: without(0), want: answer("/citation-sets/by-source/x", "rows[0]", "a row is missing")},
		{name: "a path is validated", about: onPath("/paths/p"), change: first(func(row map[string]any) { row["validated"] = false }), want: answer("/paths/p", "rows[0]", "the row differs from the expected one")},
		{name: "a source is registered", about: under("/sources/", ""), change: func(a map[string]any) { a["registered"] = a["registered"] != true }, want: answer("/sources/", "registered", "the value is not the expected one")},
		{name: "a run is not found", about: onPath("/run-dags/failures", "state=live"), status: http.StatusNotFound, want: answer("/run-dags/failures?state=live", "", "the response has an unexpected status")},
		{name: "not JSON", about: onPath("/sources"), text: func(string) string { return "<html>" }, want: answer("/sources", "", "")},
		{name: "another size", about: onPath("/sources"), change: func(a map[string]any) { a["as_of"] = 3 }, want: answer("/sources", "", "")},
		{name: "too long an answer", about: onPath("/sources"), text: func(string) string { return strings.Repeat(" ", maxAnswer+1) }, want: answer("/sources", "", "")},
		{name: "not a list", about: onPath("/sources"), change: func(a map[string]any) { a["rows"] = "none" }, want: answer("/sources", "", "")},
		{name: "a counter is changed", about: onPath("/metrics"), text: func(text string) string {
			return strings.Replace(text, `colophon_ledger_records_total{kind="run_dag",ledger="default"} 1`, `colophon_ledger_records_total{kind="run_dag",ledger="default"} 2`, 1)
		}, want: monitor.Finding{Kind: monitor.DamageKindMetrics, Row: `colophon_ledger_records_total{kind="run_dag"}`, Message: "the value is not the expected one", Expected: "1", Got: "2"}},
		{name: "a series is hidden", about: onPath("/metrics"), text: func(text string) string {
			return strings.Replace(text, "colophon_ledger_citation_conflicts_total{ledger=\"default\"} 0\n", "", 1)
		}, want: monitor.Finding{Kind: monitor.DamageKindMetrics, Row: "colophon_ledger_citation_conflicts_total", Message: "the value is not the expected one", Expected: "0", Got: "nothing"}},
		{name: "no metrics", about: onPath("/metrics"), text: func(string) string { return "{}" }, want: monitor.Finding{Kind: monitor.DamageKindMetrics, Query: "/metrics"}},
		{name: "an index ahead of the log", alone: true, about: onPath("/metrics"), text: func(text string) string {
			return strings.Replace(text, "colophon_ledger_index_size{ledger=\"default\"} ", "colophon_ledger_index_size{ledger=\"default\"} 9", 1)
		}, want: monitor.Finding{Kind: monitor.DamageKindMetrics, Row: "colophon_ledger_index_size", Message: "the index is ahead of the log"}},
		{name: "an index that stays behind", alone: true, about: onPath("/metrics"), text: func(text string) string {
			return regexp.MustCompile(`(colophon_ledger_index_size\{.*\}) \d+`).ReplaceAllString(text, "$1 1")
		}, want: monitor.Finding{Kind: monitor.DamageKindMetrics, Row: "colophon_ledger_index_size", Message: "the index is behind the log: responses omit the latest events"}},
	}
	for _, told := range groupLies(lies) {
		names := make([]string, len(told))
		for i, l := range told {
			names[i] = l.name
		}
		t.Run(strings.Join(names, ", "), func(t *testing.T) {
			// The log is small enough for the sample to include all values.
			report, o := audited(t, liar(t, w, told...), w.Key, "--replay-index", "--seed", cmp.Or(os.Getenv("COLOPHON_AUDIT_SEED"), "7"))
			if told[0].want.Kind == "" {
				require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)
				require.Empty(t, report.UnperformedChecks)
				return
			}
			for _, l := range told {
				require.True(t, slices.ContainsFunc(report.Findings, l.matches), "%s: %s%s", l.name, o.stdout, o.stderr)
			}
			for _, f := range report.Findings {
				require.True(t, slices.ContainsFunc(told, func(l lie) bool { return l.matchesKindAndPath(f) }), "%v", f)
			}
		})
	}
}

// A server cannot hide the latest events by answering from an index that has stopped, even if it first
// shows the checkpoint of that index, and whatever its metrics say about the size of the index.
func TestFrozenIndexIsNamed(t *testing.T) {
	w := ledgertest.New(t, 60, 5, 60)
	frozen := liar(t, w)
	to, err := url.Parse(strings.TrimSuffix(frozen, remote.LedgerPath(ledger.DefaultName)))
	require.NoError(t, err)
	old := httputil.NewSingleHostReverseProxy(to)
	grown, stop := ledgertest.Serve(t, w.Copy(t))
	defer stop()
	for i := range 3 {
		status, answer := ledgertest.Send(t, "POST", grown+"/ipc-records", fmt.Sprintf(`{"payload":{},"output":"%d","model":"m1","temperature":0,"max_tokens":9}`, i), "application/json")
		require.Equal(t, http.StatusCreated, status, answer)
	}
	behind := monitor.Finding{Kind: monitor.DamageKindMetrics, Row: "colophon_ledger_index_size", Message: "the index is behind the log: responses omit the latest events"}
	const noSizes = `colophon_ledger_citation_conflicts_total{ledger="default"} 0` + "\n"
	for name, l := range map[string]lie{
		"its metrics": {want: behind},
		"no sizes":    {text: func(string) string { return noSizes }, want: behind},
		"no metrics":  {status: http.StatusNotFound, want: monitor.Finding{Kind: monitor.DamageKindAnswer, Query: "/records"}},
	} {
		t.Run(name, func(t *testing.T) {
			var shown atomic.Int32
			url := proxied(t, grown, func(answer http.ResponseWriter, r *http.Request) bool {
				switch {
				case strings.HasSuffix(r.URL.Path, "/log/checkpoint") && shown.Add(1) == 1:
					old.ServeHTTP(answer, r)
				case strings.Contains(r.URL.Path, "/log/"):
					return false
				case r.URL.Path == "/metrics" && l.text != nil:
					_, _ = answer.Write([]byte(l.text("")))
				case r.URL.Path == "/metrics" && l.status != 0:
					answer.WriteHeader(l.status)
				default:
					query := r.URL.Query()
					query.Del("after") // otherwise, the index would wait
					r.URL.RawQuery = query.Encode()
					old.ServeHTTP(answer, r)
				}
				return true
			})
			report, o := audited(t, url, w.Key, "--replay-index", "--sample", "20", "--seed", "7")
			require.True(t, slices.ContainsFunc(report.Findings, l.matches), "%s%s", o.stdout, o.stderr)
		})
	}
	t.Run("an unsigned checkpoint and no sizes", func(t *testing.T) {
		var shown atomic.Int32
		url := proxied(t, grown, func(answer http.ResponseWriter, r *http.Request) bool {
			unsigned := strings.HasSuffix(r.URL.Path, "/log/checkpoint") && shown.Add(1) == 1
			switch {
			case unsigned:
				_, _ = answer.Write([]byte("x/log\n9\nAAAA\n\n— x/log AAAAAAAA\n"))
			case r.URL.Path == "/metrics":
				_, _ = answer.Write([]byte(noSizes))
			}
			return unsigned || r.URL.Path == "/metrics"
		})
		report, o := audited(t, url, w.Key, "--replay-index", "--sample", "20")
		require.NotEmpty(t, report.Findings, "%s%s", o.stdout, o.stderr)
	})
}

// groupLies divides lies into groups that can each be checked by a single audit. A group contains at
// most four lies, because a report contains at most 100 findings. No two lies in a group affect the
// same path.
func groupLies(lies []lie) (groups [][]lie) {
	path := func(l lie) string {
		if l.want.Kind == monitor.DamageKindMetrics {
			return "/metrics" // some findings about metrics have no query
		}
		path, _, _ := strings.Cut(l.want.Query, "?")
		return path
	}
	for _, l := range lies {
		fits := func(group []lie) bool {
			return len(group) < 4 && !slices.ContainsFunc(group, func(other lie) bool { return l.alone || other.alone || path(l) == path(other) })
		}
		if at := slices.IndexFunc(groups, fits); at >= 0 {
			groups[at] = append(groups[at], l)
		} else {
			groups = append(groups, []lie{l})
		}
	}
	return groups
}

// matches reports whether a finding contains everything that want requires.
func (l *lie) matches(f monitor.Finding) bool {
	_, parts, _ := strings.Cut(l.want.Query, "?")
	for part := range strings.SplitSeq(parts, "&") {
		if !strings.Contains(f.Query, part) {
			return false
		}
	}
	same := func(wanted, got string) bool { return wanted == "" || wanted == got }
	return l.matchesKindAndPath(f) && same(l.want.Row, f.Row) && same(l.want.Message, f.Message) &&
		(l.want.Expected == "" || l.want.Expected == f.Expected && l.want.Got == f.Got)
}

// matchesKindAndPath reports whether a finding has the kind and the path of want.
func (l *lie) matchesKindAndPath(f monitor.Finding) bool {
	wanted, _, _ := strings.Cut(l.want.Query, "?")
	rest, begins := strings.CutPrefix(f.Query, wanted)
	return f.Kind == l.want.Kind && begins && (wanted == "" || rest == "" || strings.HasSuffix(wanted, "/") || rest[0] == '?' || rest[0] == ' ')
}

// If the server refuses to show its metrics, both the JSON report and the text report list them as not
// checked.
func TestForbiddenMetricsAreNotChecked(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	url := liar(t, w, lie{about: onPath("/metrics"), status: http.StatusForbidden})
	report, o := audited(t, url, w.Key, "--replay-index", "--sample", "1")
	require.Equal(t, cli.ExitWithheld, o.code, "%s%s", o.stdout, o.stderr)
	require.False(t, report.Clean)
	require.Empty(t, report.Findings)
	require.Len(t, report.UnperformedChecks, 1)
	require.Contains(t, report.UnperformedChecks[0], "metrics: 403")
	text := commandLine(t.Context(), "audit", url, "--key", w.Key, "--replay-index", "--sample", "1")
	require.Contains(t, text.stdout, "NOT CHECKED: metrics: 403")
}

// The audit reports receipts and consistency proofs that do not match the audited tree.
func TestReceiptsOfAnotherTree(t *testing.T) {
	w := ledgertest.New(t, 20, 0, 5)
	for _, l := range []lie{
		{name: "receipt", about: func(path, _ string) bool { return strings.HasSuffix(path, "/receipt") }, text: func(text string) string {
			return strings.Replace(text, `"kind":"`, `"kind":"x`, 1)
		}},
		{name: "consistency", about: onPath("/proofs/consistency"), text: func(text string) string { return `{"as_of":1,"hashes":["` + ledgertest.ZeroHash + `"]}` }},
		{name: "none", about: onPath("/proofs/consistency"), status: http.StatusNotFound},
	} {
		report, o := audited(t, liar(t, w, l), w.Key, "--receipts", "10")
		require.NotEmpty(t, report.Findings, "%s: %s%s", l.name, o.stdout, o.stderr)
		require.Equal(t, monitor.DamageKindReceipt, report.Findings[0].Kind)
		require.Equal(t, 46, o.code)
		require.NotEmpty(t, report.Findings[0].Query)
	}
}

// The audit also checks the answers of a ledger without records.
func TestAnswersOfALedgerWithoutRecords(t *testing.T) {
	w := &ledgertest.Ledger{DataDir: t.TempDir()}
	url, stop := ledgertest.Serve(t, w.DataDir)
	_, text := ledgertest.Send(t, "GET", url, "", "")
	stop()
	var description wire.LedgerDescription
	require.NoError(t, json.Unmarshal([]byte(text), &description))
	w.Key = description.VerifierKey
	report, o := audited(t, liar(t, w, lie{}), w.Key, "--replay-index")
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	require.NotZero(t, report.Queries)
	added := lie{about: onPath("/sources"), change: changeRows(func(rows answerRows) answerRows { return append(rows, map[string]any{"seq": 1}) })}
	report, o = audited(t, liar(t, w, added), w.Key, "--replay-index")
	require.NotEmpty(t, report.Findings, "%s%s", o.stdout, o.stderr)
	require.Equal(t, "the list has an extra row", report.Findings[0].Message)
}

// If the server rejects the audit's queries with status 401 or 403, the audit fails and reports no
// findings.
func TestAuditsWithoutReadScope(t *testing.T) {
	w := ledgertest.New(t, 5, 0, 5)
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		report, o := audited(t, liar(t, w, lie{about: onPath("/producers"), status: status}), w.Key, "--replay-index", "--sample", "1")
		require.Equal(t, cli.ExitFailed, o.code, "%s%s", o.stdout, o.stderr)
		require.Empty(t, report.Findings)
		require.Contains(t, o.stderr, "the answers cannot be audited")
	}
}

// An audit that is given the seed from an earlier report makes the same queries again.
func TestReportsNameTheSeed(t *testing.T) {
	world := ledgertest.NewPopulated(t, 5)
	url, stop := ledgertest.Serve(t, world.DataDir)
	defer stop()
	first, o := audited(t, url, world.Key, "--replay-index", "--sample", "1")
	require.Zero(t, o.code, "%s%s", o.stdout, o.stderr)
	second, _ := audited(t, url, world.Key, "--replay-index", "--sample", "1")
	require.NotEqual(t, first.Seed, second.Seed)
	require.NotZero(t, first.Seed)
	again, _ := audited(t, url, world.Key, "--replay-index", "--sample", "1", "--seed", cli.FormatUint(first.Seed))
	require.Equal(t, []uint64{first.Seed, first.Queries, first.Rows}, []uint64{again.Seed, again.Queries, again.Rows})
	text := commandLine(t.Context(), "audit", url, "--key", world.Key, "--replay-index", "--sample", "1", "--seed", "9")
	require.Contains(t, text.stdout, "--seed 9 repeats the same choices")
}
