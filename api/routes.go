package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	questions "colophon/ledger/query"
	"colophon/ledger/record"
)

// route is a method and path that the server answers. path is in the syntax of Echo. needs
// applies if authentication is configured.
type route struct {
	method, path string
	needs        needs
	handler      echo.HandlerFunc
}

// ofLedger begins the paths of all routes about one ledger.
const ofLedger = "/v1/ledgers/:ledger"

// routes returns all routes. The server answers HEAD for each GET route.
func (s *Server) routes() []route {
	return slices.Concat(s.serverRoutes(), s.ledgerRoutes(), s.writeRoutes(), s.recordRoutes(), s.queryRoutes(), s.logRoutes())
}

// serverRoutes are about the server itself.
func (s *Server) serverRoutes() []route {
	nothing := needs{on: noLedger}
	list := []route{
		{http.MethodGet, "/", nothing, s.home},
		{http.MethodGet, "/healthz", nothing, s.healthz},
		{http.MethodGet, "/readyz", nothing, s.readyz},
		{http.MethodGet, "/version", nothing, s.version},
		{http.MethodGet, "/openapi.yaml", nothing, s.openAPI},
		{http.MethodGet, "/docs", nothing, s.docsPage},
		{http.MethodGet, "/docs/:file", nothing, s.docsFile},
		{http.MethodPost, "/v1/snapshots", needs{on: allLedgers, any: access.Admin}, s.snapshot},
		{http.MethodPost, "/v1/compute/:kind", needs{on: anyLedger, any: access.Write | access.Read}, s.compute},
		{http.MethodPost, "/v1/compute/cache-key", needs{on: anyLedger, any: access.Write | access.Read}, s.computeCacheKey},
		{http.MethodPost, "/v1/compute/question-hash", needs{on: anyLedger, any: access.Write | access.Read}, s.computeQuestionHash},
	}
	if !s.config.MetricsElsewhere {
		// The metrics name all ledgers.
		metrics := needs{on: allLedgers, any: access.Metrics}
		list = append(list, route{http.MethodGet, "/metrics", metrics, s.metrics})
	}
	return list
}

// ledgerRoutes are about ledgers as a whole. The description of a ledger reveals no more than
// any of its receipts, so any scope suffices for it.
func (s *Server) ledgerRoutes() []route {
	admin := needs{on: theLedger, any: access.Admin}
	return []route{
		{http.MethodGet, "/v1/ledgers", needs{on: anyLedger, any: access.AllScopes}, s.listLedgers},
		{http.MethodPost, "/v1/ledgers", needs{on: allLedgers, any: access.Admin}, s.createLedger},
		{http.MethodGet, ofLedger, needs{on: theLedger, any: access.AllScopes}, s.describeLedger},
		{http.MethodGet, ofLedger + "/stats", needs{on: theLedger, any: access.Read}, s.stats},
		{http.MethodPost, ofLedger + "/freeze", admin, s.freeze},
		{http.MethodPut, ofLedger + "/visibility", admin, s.changeVisibility},
		{http.MethodPost, ofLedger + "/keys", admin, s.changeKeys},
		{http.MethodDelete, ofLedger + "/records/:seq/content", admin, s.redactRecord},
		{http.MethodPost, ofLedger + "/redactions", admin, s.redactRecords},
	}
}

// writeRoutes add records and events to a ledger.
func (s *Server) writeRoutes() []route {
	write := needs{on: theLedger, any: access.Write}
	list := []route{
		{http.MethodPost, ofLedger + "/batch", write, s.batch},
		{http.MethodPost, ofLedger + "/records/:seq/state", write, s.changeState},
		{http.MethodPut, ofLedger + "/paths/:project/:path_id/validation", write, s.validatePath},
		{http.MethodPut, ofLedger + "/sources/:source_id", write, s.registerSource},
		{http.MethodDelete, ofLedger + "/sources/:source_id", write, s.revokeSource},
	}
	for _, kind := range record.Kinds {
		list = append(list, route{http.MethodPost, ofLedger + writePaths[kind], write, s.write(kind)})
	}
	return list
}

// recordRoutes read single records and events.
func (s *Server) recordRoutes() []route {
	follow := needs{on: theLedger, any: access.Log | access.Read}
	return []route{
		{http.MethodGet, ofLedger + "/records/:seq/receipt", follow, s.receipt},
		{http.MethodGet, ofLedger + "/records/:seq/proof", follow, s.proof},
		{http.MethodGet, ofLedger + "/records/:seq/content/*", needs{on: theLedger, any: access.Content}, s.content},
		{http.MethodGet, ofLedger + "/events", follow, s.events},
		{http.MethodGet, ofLedger + "/events/:hash", follow, s.event},
	}
}

// queryRoutes read the index (spec: Index and as_of).
func (s *Server) queryRoutes() []route {
	read := needs{on: theLedger, any: access.Read}
	// Weights and sources are in the log, but texts are content.
	document := needs{on: theLedger, all: access.Read | access.Content}
	list := []route{
		{http.MethodPost, ofLedger + "/drift/reproduce", read, s.reproduce},
		{http.MethodGet, ofLedger + "/run-dags/:seq/stage-proof/:stage", read, s.stageProof},
		{http.MethodGet, ofLedger + "/citation-sets/:seq/document", document, s.citationsDocument},
		{http.MethodPost, ofLedger + "/run-dags/lookup", document, s.lookUp},
		{http.MethodPost, ofLedger + "/citation-sets/:seq/pinned-retrieval", read, s.pinnedRetrieval},
	}
	for _, q := range questions.Questions() {
		list = append(list, route{http.MethodGet, ofLedger + q.Path, read, s.ask(&q)})
	}
	return list
}

// logRoutes serve the transparency log (spec: Tiles and entry bundles; Inclusion and
// consistency proofs) and the proofs of RFC 6962. If the log is public, only the routes that
// tlog-tiles clients need are public. Their answers are cheap and cacheable, and the tiles
// contain all entries.
func (s *Server) logRoutes() []route {
	follow := needs{on: theLedger, any: access.Log | access.Read}
	public := needs{on: theLog, any: access.Log | access.Read}
	return []route{
		{http.MethodGet, ofLedger + "/proofs/inclusion", follow, s.inclusion},
		{http.MethodGet, ofLedger + "/proofs/consistency", follow, s.consistency},
		{http.MethodGet, ofLedger + "/log/checkpoint", public, s.checkpoint},
		{http.MethodGet, ofLedger + "/log/key", public, s.key},
		{http.MethodGet, ofLedger + "/log/tile/*", public, s.tile},
	}
}

// register adds the routes to Echo.
func (s *Server) register() {
	for _, r := range s.routes() {
		s.echo.Add(r.method, r.path, s.guard(r))
		if r.needs.on == theLog {
			s.echo.OPTIONS(r.path, s.preflight)
		}
	}
}

// Routes lists the routes, each like "GET /v1/ledgers/{ledger}", sorted.
func (s *Server) Routes() []string {
	var names []string
	for _, r := range s.routes() {
		names = append(names, r.name())
	}
	slices.Sort(names)
	return names
}

var pathParameter = regexp.MustCompile(`:([a-z_]+)`)

// name returns the route in the syntax of OpenAPI.
func (r route) name() string {
	path := pathParameter.ReplaceAllString(r.path, "{$1}")
	return r.method + " " + strings.Replace(path, "*", "{path}", 1)
}
