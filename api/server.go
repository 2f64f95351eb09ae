// Package api implements the REST API that openapi.yaml describes: routes, limits, strict
// decoding, and RFC 9457 problems. A handler decodes the request, calls the ledger or the
// index, and encodes the answer. It makes no domain decisions itself.
package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"colophon/api/access"
	"colophon/api/admin"
	"colophon/api/batch"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/log"
	"colophon/api/otlp"
	"colophon/api/problem"
	"colophon/api/questions"
	"colophon/api/records"
	"colophon/ledger"
	"colophon/ledger/figures"
	"colophon/ledger/index"
)

// Config configures a server. A limit of 0 stands for the default limit (docs/spec).
type Config struct {
	Host    *ledger.Host
	Index   *index.Store
	Logger  *slog.Logger
	Metrics *Metrics
	Version string // version of the program

	// Authenticator determines who a caller is and what the caller is allowed to do. If it is nil
	// or requires no credentials, every caller is allowed to do everything.
	Authenticator *access.Authenticator
	// AllowedHosts lists the names that are allowed in Host headers if the server requires no
	// authentication.
	AllowedHosts AllowedHosts
	// NoMetricsRoute removes the route /metrics. It is set if the metrics are served at another
	// address.
	NoMetricsRoute bool

	// SpoolDir is the folder for the temporary files of batches. The default is the system's folder
	// for temporary files.
	SpoolDir string
	// ServerLimits holds the limits for clients.
	limits.ServerLimits
	// WriterURL returns the URL of the server that writes a ledger. ok is false if this server
	// writes the ledger or does not know it. The URL is empty if no server currently writes the
	// ledger. A nil WriterURL means that this server writes all ledgers.
	WriterURL func(ledger string) (url string, ok bool)
	// ReadOnly makes the server refuse requests that change a ledger, instead of forwarding them.
	ReadOnly bool
	// StalenessError returns an error while this server is not up to date with the ledgers that it
	// follows. Callers without credentials can see the text of the error. A nil StalenessError
	// means that the server does not follow any ledgers.
	StalenessError func() error
	// Snapshot copies the database for a backup. It is nil if the storage cannot make copies.
	Snapshot admin.SnapshotFunc
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	c.ServerLimits = c.ServerLimits.WithDefaults()
	return c
}

// Server is an http.Handler that serves the API.
type Server struct {
	config Config
	host   *ledger.Host
	echo   *echo.Echo
	// origins detects requests that were caused by a web page from another origin.
	origins *http.CrossOriginProtection
	shared  *call.ServerState
	forward *forwarder // nil if this server writes all ledgers

	// These handlers implement the routes.
	records   *records.Handlers
	batch     *batch.Handlers
	otlp      *otlp.Handlers
	log       *log.Handlers
	questions *questions.Handlers
	admin     *admin.Handlers
}

// New returns a server for an open host and an open index. It starts indexing every ledger of the
// host. The caller must close the index before the host.
func New(config Config) (*Server, error) {
	config = config.withDefaults()
	s := &Server{config: config, host: config.Host, echo: echo.New(), origins: http.NewCrossOriginProtection(), shared: config.shared()}
	s.records = &records.Handlers{ServerState: s.shared, AppendDuration: config.Metrics.appended}
	s.batch = &batch.Handlers{ServerState: s.shared, Records: s.records, SpoolDir: config.SpoolDir}
	s.otlp = &otlp.Handlers{ServerState: s.shared, Metrics: config.Metrics.telemetry}
	s.log = log.New(s.shared)
	s.questions = &questions.Handlers{ServerState: s.shared, FiguresCache: figures.NewCache()}
	s.admin = &admin.Handlers{ServerState: s.shared, OnFrozen: s.log.NotifyFrozen, Snapshot: config.Snapshot}
	if config.WriterURL != nil && !config.ReadOnly {
		s.forward = newForwarder(s)
		config.Metrics.Register(s.forward.requests)
	}
	if err := s.host.OnOpen(s.follow); err != nil {
		return nil, err
	}
	config.Metrics.watch(s.host, config.Index)
	config.Metrics.Register(limits.Collector{Limiter: s.shared.Limiter})
	s.register()
	return s, nil
}

// shared returns the state that is shared by all calls to a server with this configuration.
func (c Config) shared() *call.ServerState {
	everything := access.Grant{Ledgers: []string{access.AllLedgers}, Scopes: access.AllScopes}
	return &call.ServerState{
		Host: c.Host, Index: c.Index, Logger: c.Logger, Limiter: limits.New(c.ServerLimits), LimitMetrics: c.Metrics.load,
		Authenticator:        c.Authenticator,
		UnrestrictedIdentity: &access.Identity{Actor: ledger.AnonymousActor, Grants: []access.Grant{everything}},
		ClientAddress:        limits.AddressExtractor(c.ServerLimits.TrustedProxies),
		RecordLimits:         c.ServerLimits.RecordLimits(),
	}
}

// follow starts indexing a ledger, and wakes its index after every commit.
func (s *Server) follow(l *ledger.Ledger) error {
	follower, err := s.config.Index.Follow(l.Name(), l.PublishedLog())
	if err != nil {
		return err
	}
	committed := s.log.OpenStream(l)
	l.OnCommit(func(c ledger.Commit) {
		if c.ByOtherServer {
			s.noteFrozen(l.Name())
			follower.Wake()
		} else {
			s.config.Metrics.observeCommit(l.Name(), c)
			follower.AddCommit(c.First, c.Entries)
		}
		committed()
	})
	// Without this call, events that were committed before OnCommit was set would not be indexed
	// until the next commit.
	follower.Wake()
	return nil
}

// noteFrozen ends the streams of the named ledger if another server has frozen it.
func (s *Server) noteFrozen(name string) {
	if l, err := s.host.Ledger(name); err == nil && l.Info().Frozen {
		s.log.NotifyFrozen(l)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setDefaults(w.Header())
	c := s.newCall(w, r)
	s.handle(c)
	s.echo.ReleaseContext(c.Context)
}

func (s *Server) newCall(w http.ResponseWriter, r *http.Request) *call.Call {
	return s.shared.NewCall(s.echo.AcquireContext(), w, r)
}

// checkOrigin refuses requests that may have been caused by a web page from another origin. Without
// this check, any web page could make a browser post to a server on loopback.
func (s *Server) checkOrigin(r *http.Request) error {
	if err := s.origins.Check(r); err != nil {
		return problem.New(http.StatusForbidden, "refused: the request comes from a web page on a different origin")
	}
	if err := s.config.AllowedHosts.Check(r); err != nil && !s.shared.Authenticator.RequiresIdentity() {
		return err
	}
	return nil
}

// maxStreams limits the concurrent requests on one HTTP/2 connection.
const maxStreams = 100

// HTTPServer returns an http.Server for s whose timeouts protect it from slow clients. Each read
// and each write has a deadline. A whole request or response has none, because a batch can stream
// for any length of time. Shutdown ends the streams of followers.
func (s *Server) HTTPServer() *http.Server {
	server := s.serverOf(s)
	server.RegisterOnShutdown(s.log.EndStreams)
	return server
}

// GRPCServer returns an http.Server for OTLP over gRPC, on HTTP/2 with or without TLS. It shares its
// limits with the server that HTTPServer returns.
func (s *Server) GRPCServer() *http.Server {
	limiter := s.shared.Limiter
	takeSlot := func(r *http.Request) (held *http.Request, release func(), err error) {
		from, err := limiter.TakeStreamSlot(r)
		if err != nil {
			s.config.Metrics.load.CountRefusal(limits.ReasonConnections)
			return nil, nil, err
		}
		return limits.WithStreamSlot(r), func() { limiter.StreamSlots.Release(from) }, nil // admit takes no other slot
	}
	server := s.serverOf(otlp.GRPCHandler{Next: s, TakeSlot: takeSlot, MessageTimeout: limiter.Limits.BodyTimeout})
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true) // needed to refuse requests that are not gRPC
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

func (s *Server) serverOf(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnContext:       limits.WithConnection,
		ConnState:         limits.OnConnStateChange,
		ErrorLog:          slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
}
