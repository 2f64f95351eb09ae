package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"colophon"
	"colophon/api/access"
	"colophon/api/call"
	"colophon/ledger"
	"colophon/proofs"
)

// callerWith returns a caller whose token grants the given scopes on the default ledger.
func (g *gated) callerWith(name string, scopes ...string) caller {
	g.t.Helper()
	return caller{name: name, authorization: bearer(g.token(name, []string{ledger.DefaultName}, scopes).Text)}
}

func (g *gated) admin() caller { return caller{authorization: bearer(g.root)} }

const atDefault = "/v1/ledgers/default"

// HEAD needs the same scopes as GET. OPTIONS needs no credentials, and its response does not allow
// other origins.
func TestHeadAndOptions(t *testing.T) {
	g := startGated(t)
	for _, e := range expectations() {
		method, _, _ := strings.Cut(e.route, " ")
		for _, c := range []caller{g.admin(), {}} {
			get, head := g.asks(c, http.MethodGet, e, ledger.DefaultName), g.asks(c, http.MethodHead, e, ledger.DefaultName)
			require.Equal(t, get.status, head.status, e.route)
			require.Equal(t, get.header.Get("Content-Type"), head.header.Get("Content-Type"), e.route)
			require.Empty(t, head.body)
			if method != http.MethodGet {
				require.NotContains(t, []int{201, 202, 204}, head.status, e.route)
			}
		}
		for _, c := range []caller{g.admin(), {}} {
			a := g.asks(c, http.MethodOptions, e, ledger.DefaultName).want(http.StatusNoContent)
			require.Contains(t, a.header.Get("Allow"), method, e.route)
			require.Empty(t, a.header.Values("Access-Control-Allow-Origin"))
		}
	}
	require.Equal(t, http.StatusNotFound, g.ask(caller{}, http.MethodGet, atDefault+"/nonsense", "").status)
	require.Equal(t, http.StatusMethodNotAllowed, g.ask(caller{}, http.MethodDelete, atDefault, "").status)
}

// described decodes the parts of a ledger's description that the tests check: its name and the
// visibility of its log.
type described struct{ Name, Log string }

func TestListHasOnlyGrantedLedgers(t *testing.T) {
	g := startGated(t)
	names := func(c caller) (names []string) {
		var list struct {
			Ledgers []described `json:"ledgers"`
		}
		g.ask(c, http.MethodGet, "/v1/ledgers", "").want(http.StatusOK).json(&list)
		for _, l := range list.Ledgers {
			names = append(names, l.Name)
		}
		return names
	}
	require.Equal(t, []string{"default", "other", "spare"}, names(g.admin()))
	require.Equal(t, []string{"default"}, names(g.callerWith("writer", "write")))
	two := g.token("two", []string{"spare", "nowhere"}, []string{"log"})
	require.Equal(t, []string{"spare"}, names(caller{authorization: bearer(two.Text)}))
}

// Derived facts reveal other records, so the write scope alone is not enough to request them.
func TestDerivedFactsNeedRead(t *testing.T) {
	g := startGated(t)
	writer, both := g.callerWith("writer", "write"), g.callerWith("both", "write", "read")
	for path, body := range map[string]string{"/ipc-records": ipcBody("", "o"), "/batch": ipcLine("", "o")} {
		size := g.size()
		p := g.ask(writer, http.MethodPost, atDefault+path+"?derive=true", body).problem(http.StatusForbidden)
		require.Contains(t, p.Detail, "read")
		require.Equal(t, size, g.size())
		require.Equal(t, 2, g.ask(writer, http.MethodPost, atDefault+path+"?derive=false", body).status/100)
		require.Contains(t, string(g.ask(both, http.MethodPost, atDefault+path+"?derive=true", body).body), `"drift"`)
	}
}

// actorOf returns the actor recorded in the log entry of an event.
func (s *service) actorOf(name string, seq uint64) string {
	s.t.Helper()
	l, err := s.host.Ledger(name)
	require.NoError(s.t, err)
	entry, err := l.Reader().Entry(s.t.Context(), seq)
	require.NoError(s.t, err)
	_, body, err := proofs.SplitEntry(entry)
	require.NoError(s.t, err)
	var event struct {
		Actor string `json:"actor"`
	}
	require.NoError(s.t, json.Unmarshal(body, &event))
	return event.Actor
}

// Every event names the caller that wrote it.
func TestActorIsTheTokensName(t *testing.T) {
	g := startGated(t)
	require.Equal(t, ledger.AnonymousActor, g.actorOf(ledger.DefaultName, 0))
	require.Equal(t, "root", g.actorOf(ledger.DefaultName, 1))
	writer := g.callerWith("scribe-7", "write", "read", "admin")
	write := func(c caller, actor, method, path, body string, status int) {
		t.Helper()
		size := g.size()
		g.ask(c, method, atDefault+path, body).want(status)
		require.Equal(t, size+1, g.size(), path)
		require.Equal(t, actor, g.actorOf(ledger.DefaultName, size), path)
	}
	generations := map[string]string{
		"~/otlp/v1/traces": inJSON(t, chatSpan(1)),
		"~/otlp/v1/logs": `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"eventName":"gen_ai.client.inference.operation.details","timeUnixNano":"1764000000000000000",` +
			`"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.request.model","value":{"stringValue":"m"}},` +
			`{"key":"gen_ai.output.messages","value":{"stringValue":"[{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"content\":\"Ana.\"}]}]"}}]}]}]}]}`,
	}
	for _, e := range expectedOfWrites()[:11] {
		method, _, _ := strings.Cut(e.route, " ")
		if body := generations[e.url]; body != "" { // the body in the table would not create an event
			e.body = body
		}
		write(writer, "scribe-7", method, e.url[1:], e.body, e.status)
	}
	write(writer, "scribe-7", http.MethodDelete, "/sources/x", "", http.StatusCreated)
	write(writer, "scribe-7", http.MethodPost, "/state-changes", `{"state":"failed","reason":"r","seqs":[1],"dry_run":false,"as_of":2}`, http.StatusOK)
	write(writer, "scribe-7", http.MethodDelete, "/records/1/content", `{"reason":"r"}`, http.StatusCreated)
	write(writer, "scribe-7", http.MethodPost, "/ipc-records?on_mismatch=reject", claimedWrong, http.StatusUnprocessableEntity)
	write(writer, "scribe-7", http.MethodPost, "/ipc-records", ipcBody("r", "another"), http.StatusConflict)
	write(caller{certificate: g.authority.client("worker")}, "mtls:worker", http.MethodPost, "/ipc-records", ipcBody("", "o"), http.StatusCreated)

	maker := caller{authorization: bearer(g.token("founder", []string{access.AllLedgers}, []string{"admin"}).Text)}
	g.ask(maker, http.MethodPost, "/v1/ledgers", `{"name":"new"}`).want(http.StatusCreated)
	require.Equal(t, "founder", g.actorOf("new", 0))
	g.ask(writer, http.MethodPost, atDefault+"/freeze", "").want(http.StatusOK)
	require.Contains(t, g.log.String(), `msg="ledger frozen" ledger=default actor=scribe-7`)
}

func TestOpenServerNamesNoCaller(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o"), "Authorization", "Bearer nonsense").want(http.StatusCreated)
	require.Equal(t, ledger.AnonymousActor, s.actorOf(ledger.DefaultName, 1))
	s.post(s.http.URL+"/v1/ledgers", `{"name":"new"}`).want(http.StatusCreated)
	require.Equal(t, ledger.AnonymousActor, s.actorOf("new", 0))
	a := s.get("/log/tile/0/000.p/1").want(http.StatusOK)
	require.Equal(t, "public, max-age=31536000, immutable", a.header.Get("Cache-Control"))
	require.Empty(t, a.header.Values("Access-Control-Allow-Origin"), "pages of other origins must not read from a server on loopback")
}

// After the first token has been created, requests without a token are refused, even if that token
// is revoked later.
func TestFirstTokenClosesTheServer(t *testing.T) {
	g := &gated{service: &service{t: t}, tokens: access.TokenStore{Dir: accessDir(t), Now: time.Now}}
	who, err := access.Open(access.Config{Dir: g.tokens.Dir})
	require.NoError(t, err)
	t.Cleanup(who.Close)
	s := start(t, func(c *Config) { c.Authenticator = who })
	s.get("/stats").want(http.StatusOK)
	made := g.token("first", []string{ledger.DefaultName}, []string{"read"})
	s.get("/stats").problem(http.StatusUnauthorized)
	s.get("/stats", "Authorization", "Bearer "+made.Text).want(http.StatusOK)
	const command = `curl -sS -H \"Authorization: Bearer $COLOPHON_TOKEN\" '`
	require.Contains(t, string(s.get(s.http.URL+"/docs/openapi.json").want(http.StatusOK).body), command)
	_, err = g.tokens.Revoke("first")
	require.NoError(t, err)
	s.get("/stats").problem(http.StatusUnauthorized) // requests still need a token
	s.get("/stats", "Authorization", "Bearer "+made.Text).problem(http.StatusUnauthorized)
}

// Anyone can read a public log, even from a web page on another origin, but nothing else in the
// ledger.
func TestPublicLog(t *testing.T) {
	g := startGated(t)
	publish := func(c caller, path, log string) answer {
		return g.ask(c, http.MethodPut, path+"/visibility", `{"log":"`+log+`"}`)
	}
	publish(g.callerWith("reader", "read", "log", "write"), atDefault, "public").problem(http.StatusForbidden)
	var row described
	publish(g.admin(), atDefault, "public").want(http.StatusOK).json(&row)
	require.Equal(t, "public", row.Log)
	require.Contains(t, g.log.String(), "log=public actor=root")

	logs := []string{"/log/checkpoint", "/log/key", "/log/tile/0/000.p/1", "/log/tile/entries/000.p/1"}
	callers := []caller{{name: "anonymous"}, {name: "bad token", authorization: bearer("nonsense")}, g.admin(), g.callerWith("writer", "write"),
		{name: "stranger", authorization: bearer(g.token("stranger", []string{"other"}, []string{"read"}).Text)}}
	for _, c := range callers {
		for _, path := range logs {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				a := g.ask(c, method, atDefault+path, "").want(http.StatusOK)
				require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"), "%s %s", c.name, path)
			}
		}
	}
	anonymous := callers[0]
	a := g.ask(anonymous, http.MethodGet, atDefault+"/log/tile/0/000.p/1", "")
	require.Equal(t, "public, max-age=31536000, immutable", a.header.Get("Cache-Control"))
	a = g.ask(anonymous, http.MethodGet, atDefault+"/log/tile/0/009", "").want(http.StatusNotFound)
	require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"), "a page must be able to read the 404")
	a = g.ask(anonymous, http.MethodOptions, atDefault+"/log/checkpoint", "").want(http.StatusNoContent)
	require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "GET, HEAD", a.header.Get("Access-Control-Allow-Methods"))
	for _, e := range expectations() {
		if place, _, _ := e.place(); place != unlessPublic && place != "" {
			method, _, _ := strings.Cut(e.route, " ")
			require.Equal(t, http.StatusUnauthorized, g.asks(anonymous, method, e, ledger.DefaultName).status, e.route)
		}
	}
	g.ask(anonymous, http.MethodGet, "/v1/ledgers/spare/log/key", "").problem(http.StatusUnauthorized)

	publish(g.admin(), atDefault, "private").want(http.StatusOK).json(&row)
	require.Equal(t, "private", row.Log)
	g.ask(anonymous, http.MethodGet, atDefault+"/log/checkpoint", "").problem(http.StatusUnauthorized)
	a = g.ask(g.admin(), http.MethodGet, atDefault+"/log/tile/0/000.p/1", "").want(http.StatusOK)
	require.Equal(t, "private, max-age=31536000, immutable", a.header.Get("Cache-Control"))
	require.Empty(t, a.header.Values("Access-Control-Allow-Origin"))
	require.Empty(t, g.ask(anonymous, http.MethodOptions, atDefault+"/log/key", "").header.Values("Access-Control-Allow-Origin"))
}

func TestBadVisibility(t *testing.T) {
	s := start(t)
	for body, status := range map[string]int{`{"log":"open"}`: 422, `{}`: 422, `{"log":null}`: 422, `{"log":true}`: 422, `{"public":true}`: 400, `{`: 400, `[]`: 422} {
		s.put("/visibility", body).problem(status)
	}
	s.put("/visibility?log=public", `{"log":"public"}`).problem(http.StatusBadRequest)
	s.put(s.http.URL+"/v1/ledgers/none/visibility", `{"log":"public"}`).problem(http.StatusNotFound)
	require.False(t, s.ledger().HasPublicLog())
}

// For each operation, the contract states the scopes that the route needs, both in x-scopes and in
// the description.
func TestContractSaysWhatRoutesNeed(t *testing.T) {
	type operation struct {
		Description string
		Security    *[]map[string][]string
		Scopes      *struct {
			On       string
			Any, All []string
		} `yaml:"x-scopes"`
		Responses map[string]yaml.Node
	}
	var contract struct {
		Security []map[string][]string
		Paths    map[string]struct{ Get, Post, Put, Delete *operation }
	}
	require.NoError(t, yaml.Unmarshal(colophon.OpenAPI, &contract))
	require.Len(t, contract.Security, 2)
	require.Contains(t, string(colophon.OpenAPI), "\n        detail: \""+call.UnauthorizedProblem().Detail+"\"\n", "the example of a 401")
	places := map[call.Target]string{call.TargetPathLedger: "ledger", call.TargetPrivateLog: "log", call.TargetAnyLedger: "any ledger", call.TargetAllLedgers: "all ledgers"}
	sentences := map[call.Target]string{call.TargetPathLedger: " on the ledger.", call.TargetPrivateLog: " on the ledger, unless its log is public.",
		call.TargetAnyLedger: " on any ledger.", call.TargetAllLedgers: " on all ledgers."}
	for _, r := range start(t).http.Config.Handler.(*Server).routes() {
		method, path, _ := strings.Cut(r.name(), " ")
		of := contract.Paths[path]
		o := map[string]*operation{http.MethodGet: of.Get, http.MethodPost: of.Post, http.MethodPut: of.Put, http.MethodDelete: of.Delete}[method]
		require.NotNil(t, o, r.name())
		if r.needs.Target == call.TargetNone {
			require.Nil(t, o.Scopes, r.name())
			require.NotNil(t, o.Security, r.name())
			require.Empty(t, *o.Security, r.name())
			continue
		}
		require.NotNil(t, o.Scopes, r.name())
		require.Equal(t, places[r.needs.Target], o.Scopes.On, r.name())
		require.ElementsMatch(t, r.needs.AnyOf.Names(), slices.Concat(o.Scopes.Any), r.name())
		require.ElementsMatch(t, r.needs.AllOf.Names(), slices.Concat(o.Scopes.All), r.name())
		require.True(t, strings.HasSuffix(strings.TrimSpace(o.Description), sentence(o.Scopes.Any, o.Scopes.All)+sentences[r.needs.Target]), "%s: %s", r.name(), o.Description)
		require.Equal(t, r.needs.Target == call.TargetPrivateLog, o.Security != nil, "%s: only the routes of a log can be used without a token", r.name())
		for _, status := range []string{"401", "403"} {
			require.Contains(t, o.Responses, status, r.name())
		}
	}
}

// sentence returns the beginning of the last sentence of an operation's description, which states
// the scopes that the operation requires.
func sentence(oneOf, all []string) string {
	list := func(names []string, word string) string { return "`" + strings.Join(names, "` "+word+" `") + "`" }
	switch {
	case len(oneOf) == len(scopeNames):
		return "Needs any scope"
	case len(all) > 0:
		return "Needs the scopes " + list(all, "and")
	}
	return "Needs the scope " + list(oneOf, "or")
}

func TestForbiddenSaysWhetherARuleMatched(t *testing.T) {
	for granted, want := range map[string]string{
		"": "; no rule in the access file matches these credentials", "other": ", where the credentials grant no scope",
	} {
		i := &access.Identity{Actor: "oidc:someone"}
		if granted != "" {
			i.Grants = []access.Grant{{Ledgers: []string{granted}, Scopes: access.ScopeRead}}
		}
		require.ErrorContains(t, call.RequiredScopes{Target: call.TargetAllLedgers, AllOf: access.ScopeAdmin}.Check(i, ""), "this request needs the scope admin on all ledgers"+want)
	}
}
