package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/limits"
)

// call is one request and the resources that it holds. Only the goroutine of the request uses
// it.
type call struct {
	echo.Context
	identity *access.Identity // the caller; nil until guard has authenticated the request
	request  *http.Request    // net/http's, or a copy if the server replaced the body or the method
	incoming limits.Body
	writer   limits.Writer
	server   *Server
	answer   limits.Share // of the memory for reading; released when the call ends
	stream   string       // the client that its HTTP/2 slot is counted for; empty if it holds none
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
	c := &call{Context: s.echo.AcquireContext(), request: r, server: s, answer: limits.Share{Budget: s.limits.Reading}}
	head := r.Method == http.MethodHead
	c.writer = limits.NewWriter(w, s.config.Load.WriteTimeout, head, s.config.Metrics.load)
	if head {
		c.request = r.WithContext(r.Context())
		c.request.Method = http.MethodGet
	}
	c.request = c.incoming.Limit(c.request, &c.writer, s.config.BodyTimeout)
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
		c.writer.ReleaseSlot()
		c.answer.Release()
		s.fail(err, c)
	}
}

// end releases what the call holds.
func (c *call) end() {
	c.writer.ReleaseSlot()
	c.writer.EndWrite()
	c.answer.Release()
	if c.stream != "" {
		c.server.limits.Requests.Release(c.stream)
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
