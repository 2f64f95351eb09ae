package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/otlp"
	"colophon/api/records"
	"colophon/ledger/query"
	"colophon/ledger/record"
)

// route is a method and path that the server handles. The path is in Echo's syntax. needs describes
// the scopes that are required if authentication is configured.
type route struct {
	method, path string
	needs        call.RequiredScopes
	handler      call.Handler
}

// ofLedger is the path prefix of all routes that concern a single ledger.
const ofLedger = "/v1/ledgers/:ledger"

// routes returns all routes. The server also answers HEAD requests for every GET route.
func (s *Server) routes() []route {
	return slices.Concat(s.serverRoutes(), s.ledgerRoutes(), s.writeRoutes(), s.recordRoutes(), s.queryRoutes(), s.logRoutes())
}

// serverRoutes returns the routes that concern the server itself.
func (s *Server) serverRoutes() []route {
	nothing := call.RequiredScopes{Target: call.TargetNone}
	list := []route{
		{http.MethodGet, "/", nothing, s.home},
		{http.MethodGet, "/ui/:version/:file", nothing, s.consoleFile},
		{http.MethodGet, "/healthz", nothing, s.healthz},
		{http.MethodGet, "/readyz", nothing, s.readyz},
		{http.MethodGet, "/version", nothing, s.version},
		{http.MethodGet, "/sign-in", nothing, s.signIn},
		{http.MethodGet, "/example.ndjson", nothing, s.example},
		{http.MethodGet, "/openapi.yaml", nothing, s.openAPI},
		{http.MethodGet, "/docs", nothing, s.docsPage},
		{http.MethodGet, "/docs/:file", nothing, s.docsFile},
		{http.MethodPost, "/v1/snapshots", call.RequiredScopes{Target: call.TargetAllLedgers, AnyOf: access.ScopeAdmin}, s.admin.MakeSnapshot},
		{http.MethodPost, "/v1/compute/:kind", call.RequiredScopes{Target: call.TargetAnyLedger, AnyOf: access.ScopeWrite | access.ScopeRead}, s.records.ComputeHashes},
		{http.MethodPost, "/v1/compute/cache-key", call.RequiredScopes{Target: call.TargetAnyLedger, AnyOf: access.ScopeWrite | access.ScopeRead}, s.records.ComputeCacheKey},
		{http.MethodPost, "/v1/compute/question-hash", call.RequiredScopes{Target: call.TargetAnyLedger, AnyOf: access.ScopeWrite | access.ScopeRead}, s.records.ComputeQuestionHash},
	}
	if !s.config.NoMetricsRoute {
		// The metrics reveal the names of all ledgers.
		metrics := call.RequiredScopes{Target: call.TargetAllLedgers, AnyOf: access.ScopeMetrics}
		list = append(list, route{http.MethodGet, "/metrics", metrics, s.metrics})
	}
	return list
}

// ledgerRoutes returns the routes that concern ledgers as a whole. The description of a ledger
// reveals no more than any of its receipts, so any scope is enough to read it.
func (s *Server) ledgerRoutes() []route {
	admin := call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeAdmin}
	return []route{
		{http.MethodGet, "/v1/ledgers", call.RequiredScopes{Target: call.TargetAnyLedger, AnyOf: access.AllScopes}, s.admin.ListLedgers},
		{http.MethodPost, "/v1/ledgers", call.RequiredScopes{Target: call.TargetAllLedgers, AnyOf: access.ScopeAdmin}, s.admin.CreateLedger},
		{http.MethodGet, ofLedger, call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.AllScopes}, s.admin.DescribeLedger},
		{http.MethodGet, ofLedger + "/stats", call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeRead}, s.questions.ServeStats},
		// Reading the whole index reveals the same data as queries, but costs more than a query.
		{http.MethodGet, ofLedger + "/index", call.RequiredScopes{Target: call.TargetPathLedger, AllOf: access.ScopeAdmin | access.ScopeRead}, s.admin.ServeIndexPart},
		{http.MethodPost, ofLedger + "/freeze", admin, s.admin.FreezeLedger},
		{http.MethodPut, ofLedger + "/visibility", admin, s.admin.SetLogVisibility},
		{http.MethodPut, ofLedger + "/unregistered-sources", admin, s.admin.SetUnregisteredSourcePolicy},
		{http.MethodPut, ofLedger + "/otlp-content", admin, s.admin.SetOTLPContentPolicy},
		{http.MethodPost, ofLedger + "/keys", admin, s.admin.ChangeKeys},
		{http.MethodDelete, ofLedger + "/records/:seq/content", admin, s.records.Redact},
		{http.MethodPost, ofLedger + "/redactions", admin, s.admin.RedactRecords},
	}
}

// writeRoutes returns the routes that add records and events to a ledger.
func (s *Server) writeRoutes() []route {
	write := call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeWrite}
	list := []route{
		{http.MethodPost, ofLedger + "/batch", write, s.batch.PostBatch},
		{http.MethodPost, ofLedger + otlp.SignalTraces.Path(), write, s.otlp.ExportHandler(otlp.SignalTraces)},
		{http.MethodPost, ofLedger + otlp.SignalLogs.Path(), write, s.otlp.ExportHandler(otlp.SignalLogs)},
		{http.MethodPost, ofLedger + "/records/:seq/state", write, s.records.ChangeState},
		// The response reveals how many records a filter selects.
		{http.MethodPost, ofLedger + "/state-changes", call.RequiredScopes{Target: call.TargetPathLedger, AllOf: access.ScopeWrite | access.ScopeRead}, s.admin.ChangeStates},
		{http.MethodPost, ofLedger + "/records/:seq/notes", write, s.records.AddNote},
		{http.MethodPut, ofLedger + "/paths/:project/:path_id/validation", write, s.records.ValidatePath},
		// The response reveals paths and their status.
		{http.MethodPost, ofLedger + "/paths/:project/validations", call.RequiredScopes{Target: call.TargetPathLedger, AllOf: access.ScopeWrite | access.ScopeRead}, s.records.ChangeValidations},
		{http.MethodPut, ofLedger + "/sources/:source_id", write, s.records.RegisterSource},
		{http.MethodDelete, ofLedger + "/sources/:source_id", write, s.records.RevokeSource},
	}
	for _, kind := range record.RecordKinds {
		list = append(list, route{http.MethodPost, ofLedger + records.WriteRoutes[kind], write, s.records.WriteHandler(kind)})
	}
	return list
}

// recordRoutes returns the routes that read single records and events.
func (s *Server) recordRoutes() []route {
	follow := call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeLog | access.ScopeRead}
	return []route{
		{http.MethodGet, ofLedger + "/records/:seq/receipt", follow, s.log.ServeReceipt},
		{http.MethodGet, ofLedger + "/records/:seq/proof", follow, s.log.ServeNestedProof},
		{http.MethodGet, ofLedger + "/records/:seq/content/*", call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeContent}, s.questions.ServeContent},
		{http.MethodGet, ofLedger + "/member-secret", call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeContent}, s.questions.ServePayloadMemberSecret},
		{http.MethodGet, ofLedger + "/live", call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeRead}, s.log.ServeLiveSummary},
		{http.MethodGet, ofLedger + "/events", follow, s.log.ServeEvents},
		{http.MethodGet, ofLedger + "/events/:hash", follow, s.log.ServeEventByHash},
	}
}

// queryRoutes returns the routes that read the index (spec: Index and as_of).
func (s *Server) queryRoutes() []route {
	read := call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeRead}
	// A document contains the texts of citations. The texts require ScopeContent, unlike their
	// weights and sources.
	document := call.RequiredScopes{Target: call.TargetPathLedger, AllOf: access.ScopeRead | access.ScopeContent}
	list := []route{
		{http.MethodGet, ofLedger + "/export", read, s.questions.ServeExport},
		{http.MethodPost, ofLedger + "/drift/reproduce", read, s.questions.CompareRerun},
		{http.MethodGet, ofLedger + "/run-dags/:seq/stage-proof/:stage", read, s.questions.ServeStageProof},
		{http.MethodGet, ofLedger + "/citation-sets/:seq/document", document, s.questions.ServeCitationsDocument},
		{http.MethodGet, ofLedger + "/diff", document, s.questions.ServeDiff},
		{http.MethodPost, ofLedger + "/run-dags/lookup", document, s.questions.LookUpRunDAG},
		{http.MethodPost, ofLedger + "/citation-sets/:seq/pinned-retrieval", read, s.questions.ServePinnedRetrieval},
	}
	for _, q := range query.Questions() {
		list = append(list, route{http.MethodGet, ofLedger + q.Path, read, s.questions.QueryHandler(&q)})
	}
	return list
}

// logRoutes returns the routes of the transparency log (spec: Tiles and entry bundles;
// Inclusion and consistency proofs) and of the proofs of RFC 6962. If a log is public, only
// the routes that tlog-tiles clients need are public. Their answers are cheap and cacheable,
// and the tiles contain all entries.
func (s *Server) logRoutes() []route {
	follow := call.RequiredScopes{Target: call.TargetPathLedger, AnyOf: access.ScopeLog | access.ScopeRead}
	public := call.RequiredScopes{Target: call.TargetPrivateLog, AnyOf: access.ScopeLog | access.ScopeRead}
	return []route{
		{http.MethodGet, ofLedger + "/proofs/inclusion", follow, s.log.ServeInclusionProof},
		{http.MethodGet, ofLedger + "/proofs/consistency", follow, s.log.ServeConsistencyProof},
		{http.MethodGet, ofLedger + "/log/checkpoint", public, s.log.ServeCheckpoint},
		{http.MethodGet, ofLedger + "/log/key", public, s.log.ServeVerifierKeys},
		{http.MethodGet, ofLedger + "/log/tile/*", public, s.log.ServeTile},
	}
}

// register adds the routes to Echo.
func (s *Server) register() {
	for _, r := range s.routes() {
		s.echo.Add(r.method, r.path, handlerFunc(s.guard(r)))
		if r.needs.Target == call.TargetPrivateLog {
			s.echo.OPTIONS(r.path, handlerFunc(s.preflight))
		}
	}
}

// handlerFunc adapts a handler to Echo. Every echo.Context of this server is a *call.Call.
func handlerFunc(h call.Handler) echo.HandlerFunc {
	return func(c echo.Context) error { return h(c.(*call.Call)) }
}

// Routes returns the sorted names of all routes, such as "GET /v1/ledgers/{ledger}".
func (s *Server) Routes() []string {
	var names []string
	for _, r := range s.routes() {
		names = append(names, r.name())
	}
	slices.Sort(names)
	return names
}

var pathParameter = regexp.MustCompile(`:([a-z_]+)`)

// name returns the method and the path of the route, in OpenAPI syntax.
func (r route) name() string {
	path := pathParameter.ReplaceAllString(r.path, "{$1}")
	return r.method + " " + strings.Replace(path, "*", "{path}", 1)
}
