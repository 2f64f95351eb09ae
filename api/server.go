// Package api is the REST API (openapi.yaml): routes, limits, strict
// decoding, problem+json. A handler decodes, checks, calls and encodes; what is
// true is decided elsewhere.
package api

import (
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"colophon/api/access"
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

	// Access says who may do what; nil, and one that requires nothing, let
	// everybody do everything.
	Access *access.Authenticator
	// Hosts are the names that the server may be asked by without authentication.
	Hosts Hosts
	// MetricsElsewhere leaves /metrics to another address.
	MetricsElsewhere bool

	MaxBody int64 // bytes of a request body; default 8 MiB
	MaxLine int   // bytes of a line of a batch; default 8 MiB
	MaxPage int   // rows of a page; default 1,000
	// BodyTimeout is how long the body of a request, except a batch, may take.
	// Default 1 minute.
	BodyTimeout time.Duration
	// Limits of what a record puts into its event; default record.DefaultLimits.
	Limits record.Limits
	// IndexWait is how long a request waits for an index that is behind. Default 5
	// seconds.
	IndexWait time.Duration
	// SpoolMemory bounds, in bytes and a batch, the results held in memory for
	// a client that does not read yet; the rest goes to a temporary file in
	// SpoolDir (default: the system's). Default 256 KiB.
	SpoolMemory int
	SpoolDir    string
	// Load bounds what clients may ask for.
	Load Load
	// Snapshot makes copies for backups; nil where there are none.
	Snapshot Snapshot
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
	if c.IndexWait == 0 {
		c.IndexWait = 5 * time.Second
	}
	if c.SpoolMemory == 0 {
		c.SpoolMemory = 256 << 10
	}
	c.Load = c.Load.withDefaults()
	return c
}

// Server answers the API's requests.
type Server struct {
	config Config
	host   *ledger.Host
	echo   *echo.Echo
	// origins refuses what a web page of another origin makes a browser send.
	origins *http.CrossOriginProtection
	// everybody is who makes a request where nobody is asked: he may do all.
	everybody *access.Identity
	totals    effectTotals
	limits    *bounds
	streams   *streams
	parsing   parsing
}

// New makes a server over a host and an index that are open. It follows every
// ledger of the host; the index is closed before the host.
func New(config Config) (*Server, error) {
	s := &Server{config: config.withDefaults(), host: config.Host, echo: echo.New(), origins: http.NewCrossOriginProtection()}
	s.limits, s.streams = newBounds(s.config.Load), newStreams()
	s.parsing = newParsing(runtime.GOMAXPROCS(0), s.limits.heavy)
	everything := access.Grant{Ledgers: []string{access.AllLedgers}, Scopes: access.AllScopes}
	s.everybody = &access.Identity{Actor: ledger.Anonymous, Grants: []access.Grant{everything}}
	s.echo.IPExtractor = extractor(s.config.Load.TrustedProxies)
	if err := s.host.OnOpen(s.follow); err != nil {
		return nil, err
	}
	s.config.Metrics.watch(s.host, config.Index)
	s.config.Metrics.Register(loadCollector{s.limits})
	s.register()
	return s, nil
}

// follow begins to index a ledger, and goes on with every commit.
func (s *Server) follow(l *ledger.Ledger) error {
	follower, err := s.config.Index.Follow(l.Name(), l.Store())
	if err != nil {
		return err
	}
	stream := s.streams.open(l)
	l.OnCommit(func(c ledger.Commit) {
		s.config.Metrics.observeCommit(l.Name(), c)
		follower.Wake()
		stream.committed()
	})
	// What was committed between the two would be noticed with the next commit
	// only.
	follower.Wake()
	return nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setDefaults(w.Header())
	c := s.newCall(w, r)
	s.handle(c)
	s.echo.ReleaseContext(c.Context)
}

// strange refuses what a web page may have made a browser send: any page can post to
// a server on loopback.
func (s *Server) strange(r *http.Request) error {
	if err := s.origins.Check(r); err != nil {
		return fault(http.StatusForbidden, "refused: the request comes from a web page of another origin")
	}
	if err := s.config.Hosts.Check(r); err != nil && !s.config.Access.Required() {
		return err
	}
	return nil
}

// maxStreams is how many requests a connection over HTTP/2 has under way.
const maxStreams = 100

// HTTP is an http.Server for s with the time-outs of a service that slow clients
// cannot hold. Reads and writes have no deadline for the whole of them, since a batch
// streams for as long as it likes, but for each of their parts. A shutdown ends who
// follows events.
func (s *Server) HTTP() *http.Server {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnContext:       withConnection,
		ConnState:         noteState,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(s.streams.end)
	return server
}
