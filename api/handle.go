package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
)

// handle routes and answers a call, and updates the metrics.
func (s *Server) handle(c *call.Call) {
	begin := time.Now()
	s.echo.Router().Find(c.Request().Method, echo.GetPath(c.Request()), c.Context)
	series := s.config.Metrics.of(c.Path(), c.Request().Method)
	series.underWay.Inc()
	// This is deferred because fail panics if a response breaks off halfway.
	defer func() {
		c.End()
		series.underWay.Dec()
		series.requests.WithLabelValues(strconv.Itoa(c.Response().Status)).Inc()
		series.duration.Observe(time.Since(begin).Seconds())
	}()
	if err := s.attempt(c); err != nil {
		c.AbandonResponse()
		s.delayBadRequest(err, c)
		s.fail(err, c)
	}
}

// delayBadRequest delays the response to a bad request if the request's address sends too many bad
// requests. It does not delay errors that a client cannot foresee, such as a resource that does not
// exist or has changed.
func (s *Server) delayBadRequest(err error, c *call.Call) {
	switch p, _ := problem.FromError(err); {
	case p.Status < 400 || p.Status >= 500, isMonitoringRoute(c.Path()):
	case p.Status == http.StatusNotFound && c.Path() != "":
	case p.Status == http.StatusConflict, p.Status == http.StatusGone, p.Status == http.StatusPreconditionFailed, p.Status == http.StatusTooManyRequests:
	default:
		s.shared.Limiter.Rates.DelayBadRequest(c.Request().Context(), c.ClientAddress, c.Request().Method != http.MethodGet)
	}
}

// attempt admits and answers a call. It turns a panic into a 500 response that reveals nothing
// about the panic.
func (s *Server) attempt(c *call.Call) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if r == http.ErrAbortHandler {
				panic(r)
			}
			err = problem.FromPanic(r)
		}
	}()
	if err := s.admit(c); err != nil {
		return err
	}
	if err := s.checkOrigin(c.Request()); err != nil {
		return err
	}
	return c.Handler()(c)
}
