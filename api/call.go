package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
)

// call is one request and the resources that it holds. Only the goroutine of the request uses
// it.
type call struct {
	echo.Context
	identity *access.Identity // the caller; nil until guard has authenticated the request
	request  *http.Request    // net/http's, or a copy if the server replaced the body or the method
	incoming incoming
	writer   patientWriter
	server   *Server
	answer   share  // of the memory for reading; released when the call ends
	stream   string // the client that its HTTP/2 slot is counted for; empty if it holds none
	// committed says that the ledger has recorded what the call requested. The memory budget
	// must not refuse the answer then. Its size is bounded by the recorded event.
	committed bool
}

// committed marks a call as committed.
func committed(c echo.Context) {
	if own, is := c.(*call); is {
		own.committed = true
	}
}

// newCall prepares a call. It routes HEAD like GET; net/http drops the body of the answer.
func (s *Server) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{Context: s.echo.AcquireContext(), request: r, server: s, answer: share{budget: s.limits.reading}}
	c.writer = patientWriter{ResponseWriter: w, controller: *http.NewResponseController(w), limit: s.config.Load.WriteTimeout,
		head: r.Method == http.MethodHead, metrics: s.config.Metrics.load}
	if c.writer.head {
		c.request = r.WithContext(r.Context())
		c.request.Method = http.MethodGet
	}
	c.boundBody(s.config.BodyTimeout)
	c.Reset(c.request, &c.writer)
	return c
}

// handle routes and answers a call, and updates the metrics.
func (s *Server) handle(c *call) {
	begin := time.Now()
	s.echo.Router().Find(c.request.Method, echo.GetPath(c.request), c.Context)
	series := s.config.Metrics.of(c.Path(), c.request.Method)
	series.underWay.Inc()
	// Deferred, because fail panics if an answer breaks off half-way.
	defer func() {
		c.end()
		series.underWay.Dec()
		series.requests.WithLabelValues(strconv.Itoa(c.Response().Status)).Inc()
		series.duration.Observe(time.Since(begin).Seconds())
	}()
	if err := s.attempt(c); err != nil {
		c.writer.slot.giveBack()
		c.answer.release()
		s.fail(err, c)
	}
}

// takeStream counts the call against the bound on concurrent HTTP/2 requests, of which one
// connection can carry many. The bound is shared among addresses like the bound on
// connections. takeStream returns false if no slot is free.
func (c *call) takeStream() bool {
	l, from := c.server.limits, c.request.RemoteAddr
	if conn, counted := connectionOf(c.request); counted {
		from = conn.who
		if ip := addressOf(conn.RemoteAddr()); l.connections.trusted(ip) && l.requests.take(from) {
			c.stream = from
			return true
		}
	}
	if !l.requests.takeShare(from) {
		return false
	}
	c.stream = from
	return true
}

// end releases what the call holds.
func (c *call) end() {
	c.writer.slot.giveBack()
	c.answer.release()
	if c.stream != "" {
		c.server.limits.requests.give(c.stream)
	}
}

// attempt admits and answers a call. It turns a panic into a 500 that reveals nothing about
// the panic.
func (s *Server) attempt(c *call) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if r == http.ErrAbortHandler {
				panic(r)
			}
			err = panicked(r)
		}
	}()
	if err := s.admit(c); err != nil {
		return err
	}
	if err := s.checkOrigin(c.request); err != nil {
		return err
	}
	return c.Handler()(c)
}
