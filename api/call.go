package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
)

// call is one request on its way through the server: what Echo knows of it, and what
// the server does besides. It belongs to the goroutine of the request.
type call struct {
	echo.Context
	identity *access.Identity // who makes it; nil until guard knows
	request  *http.Request    // net/http's or, where body or method differ, its copy
	incoming incoming
	writer   patientWriter
	server   *Server
	answer   share  // of the memory for reading; released when the call ends
	stream   string // whose place among the requests over HTTP/2 it has; empty: none
	// committed: what it asked for is done. Its answer says so, whatever memory other answers
	// hold: it is not counted, and bounded by the event that it is about.
	committed bool
}

// committed notes that what a call asked for is done.
func committed(c echo.Context) {
	if own, is := c.(*call); is {
		own.committed = true
	}
}

// newCall begins a call. HEAD is routed like GET: net/http, which knows the original,
// leaves the body out.
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

// handle routes a call, answers it, and counts and times it.
func (s *Server) handle(c *call) {
	begin := time.Now()
	s.echo.Router().Find(c.request.Method, echo.GetPath(c.request), c.Context)
	series := s.config.Metrics.of(c.Path(), c.request.Method)
	series.underWay.Inc()
	// Deferred: an answer that fails half-way ends in a panic.
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

// takeStream takes a place among the requests over HTTP/2, of which a connection may make
// many at once. Addresses share them like connections.
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

// end gives back what the call holds.
func (c *call) end() {
	c.writer.slot.giveBack()
	c.answer.release()
	if c.stream != "" {
		c.server.limits.requests.give(c.stream)
	}
}

// attempt answers a call that is admitted. A panic becomes a 500 that says nothing of
// it.
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
	if err := s.strange(c.request); err != nil {
		return err
	}
	return c.Handler()(c)
}
