// Package api is the REST API (specification part 3): routes, limits, strict
// decoding, problem+json. A handler decodes, checks, calls and encodes; what is
// true is decided elsewhere.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/record"
)

// Config is what a server needs. Zero limits mean the defaults of part 3.
type Config struct {
	Host    *ledger.Host
	Index   *index.Store
	Log     *slog.Logger
	Metrics *Metrics
	Version string

	MaxBody int64 // bytes of a request body; default 8 MiB
	MaxLine int   // bytes of a line of a batch; default 8 MiB
	MaxPage int   // rows of a page; default 1,000
	// BodyTimeout is how long the body of a request, except a batch, may take.
	// Default 1 minute.
	BodyTimeout time.Duration
	// Limits of what a record puts into its event; default record.DefaultLimits.
	Limits record.Limits
	// SpoolMemory bounds, in bytes and a batch, the results held in memory for
	// a client that does not read yet; the rest goes to a temporary file in
	// SpoolDir (default: the system's). Default 1 MiB.
	SpoolMemory int
	SpoolDir    string
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if c.MaxBody == 0 {
		c.MaxBody = 8 << 20
	}
	if c.MaxLine == 0 {
		c.MaxLine = 8 << 20
	}
	if c.MaxPage == 0 {
		c.MaxPage = 1000
	}
	if c.BodyTimeout == 0 {
		c.BodyTimeout = time.Minute
	}
	if c.Limits == (record.Limits{}) {
		c.Limits = record.DefaultLimits()
	}
	if c.SpoolMemory == 0 {
		c.SpoolMemory = 1 << 20
	}
	return c
}

// Server answers the API's requests.
type Server struct {
	config Config
	host   *ledger.Host
	echo   *echo.Echo
	// origins refuses what a web page of another origin makes a browser send.
	origins *http.CrossOriginProtection
	docs    []byte // the page at /docs
	totals  effectTotals
}

// New makes a server over a host and an index that are open. It follows every
// ledger of the host; the index is closed before the host.
func New(config Config) (*Server, error) {
	s := &Server{config: config.withDefaults(), host: config.Host, echo: echo.New(), origins: http.NewCrossOriginProtection()}
	var err error
	if s.docs, err = renderDocs(); err != nil {
		return nil, err
	}
	if err := s.host.OnOpen(s.follow); err != nil {
		return nil, err
	}
	s.config.Metrics.watch(s.host, config.Index)
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.HTTPErrorHandler = s.fail
	s.echo.Use(s.observe, s.recoverPanic, secure)
	s.routes()
	return s, nil
}

// follow begins to index a ledger, and goes on with every commit.
func (s *Server) follow(l *ledger.Ledger) error {
	follower, err := s.config.Index.Follow(l.Name(), l.Store())
	if err != nil {
		return err
	}
	l.OnCommit(func(c ledger.Commit) {
		s.config.Metrics.observeCommit(l.Name(), c)
		follower.Wake()
	})
	// What was committed between the two would be noticed with the next commit
	// only.
	follower.Wake()
	return nil
}

// indexAt is the index of a ledger when it has covered the head.
func (s *Server) indexAt(ctx context.Context, l *ledger.Ledger, head *ledger.Head) (*index.Follower, error) {
	follower := s.config.Index.Follower(l.Name())
	if err := follower.Wait(ctx, head.Size); err != nil {
		return nil, fmt.Errorf("waiting for the index of ledger %q: %w", l.Name(), err)
	}
	return follower, nil
}

// ServeHTTP answers one request. HEAD is routed like GET: net/http, which knows
// the original, leaves the body out.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A browser lets any web page post to a server on loopback.
	if err := s.origins.Check(r); err != nil {
		s.fail(fault(http.StatusForbidden, "refused: the request comes from a web page of another origin"), s.echo.NewContext(r, w))
		return
	}
	if r.Method == http.MethodHead {
		get := r.WithContext(r.Context())
		get.Method = http.MethodGet
		r = get
	}
	s.echo.ServeHTTP(w, r)
}

// HTTP is an http.Server for s with the time-outs of a service that slow clients
// cannot hold. Reads and writes have no deadline of their own: a batch streams
// for as long as it likes.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
	}
}

func (s *Server) routes() {
	e := s.echo
	e.GET("/", s.home)
	e.GET("/healthz", s.healthz)
	e.GET("/readyz", s.readyz)
	e.GET("/version", s.version)
	e.GET("/metrics", echo.WrapHandler(s.config.Metrics.Handler()))
	e.GET("/openapi.yaml", s.openAPI)
	e.GET("/docs", s.docsPage)

	e.GET("/v1/ledgers", s.listLedgers)
	e.POST("/v1/ledgers", s.createLedger)
	e.POST("/v1/compute/:kind", s.compute)

	l := e.Group("/v1/ledgers/:ledger")
	l.GET("", s.describeLedger)
	for kind, path := range writePaths {
		l.POST(path, s.write(kind))
	}
	l.POST("/batch", s.batch)
	l.POST("/freeze", s.freeze)
	l.GET("/stats", s.stats)
	l.GET("/records", s.records)
	l.GET("/records/:seq", s.record)
	l.GET("/runs/:run_id", s.run)
	l.POST("/records/:seq/state", s.changeState)
	l.GET("/records/:seq/receipt", s.receipt)
	l.GET("/records/:seq/content/*", s.content)
	l.GET("/paths", s.projects)
	l.GET("/paths/:project", s.paths)
	l.GET("/paths/:project/builds", s.builds)
	l.GET("/paths/:project/builds/:build/gone", s.goneFromBuild)
	l.GET("/paths/:project/collisions", s.collisions)
	l.GET("/paths/:project/:path_id", s.pathHistory)
	l.PUT("/paths/:project/:path_id/validation", s.validatePath)
	l.PUT("/sources/:source_id", s.registerSource)
	l.DELETE("/sources/:source_id", s.revokeSource)
	l.GET("/drift/groups", s.groups)
	l.GET("/drift/groups/:by/:value", s.group)
	l.GET("/drift/attribution", s.attribute)
	l.GET("/drift/timeline", s.timeline)
	l.GET("/drift/effects", s.effects)
	l.POST("/drift/reproduce", s.reproduce)
	l.GET("/run-dags/compare", s.compareRuns)
	l.GET("/run-dags/divergence", s.divergence)
	l.GET("/run-dags/failures", s.failures)
	l.GET("/run-dags/by-cache-key/:key", s.runByCacheKey)
	l.GET("/run-dags/:seq/stage-proof/:stage", s.stageProof)
	l.GET("/citation-sets/drift", s.citationDrift)
	l.GET("/citation-sets/conflicts", s.conflicts)
	l.GET("/citation-sets/stale", s.stale)
	l.GET("/citation-sets/by-chunk/:hash", s.citationsOfChunk)
	l.GET("/citation-sets/by-source/:source_id", s.citationsOfSource)
	l.GET("/citation-sets/:seq/document", s.citationsDocument)
	l.POST("/citation-sets/:seq/pinned-retrieval", s.pinnedRetrieval)
	l.GET("/sources", s.sources)
	l.GET("/sources/:source_id", s.source)
	l.GET("/producers", s.producers)
	l.GET("/producers/:id", s.producer)
	l.GET("/events", s.events)
	l.GET("/events/:hash", s.event)
	l.GET("/proofs/inclusion", s.inclusion)
	l.GET("/proofs/consistency", s.consistency)
	l.GET("/log/checkpoint", s.checkpoint)
	l.GET("/log/key", s.key)
	l.GET("/log/tile/*", s.tile)
}

// Routes lists what the server answers, as "GET /v1/ledgers/{ledger}".
func (s *Server) Routes() []string {
	var routes []string
	for _, r := range s.echo.Routes() {
		path := pathParameter.ReplaceAllString(r.Path, "{$1}")
		routes = append(routes, r.Method+" "+strings.Replace(path, "*", "{path}", 1))
	}
	slices.Sort(routes)
	return routes
}

var pathParameter = regexp.MustCompile(`:([a-z_]+)`)
