package api

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/otlp"
	"colophon/api/problem"
)

// statusClientGone is the status that metrics show for a client that disconnected before it got a
// response. No client ever receives it.
const statusClientGone = 499

// fail sends the response for an error. All errors pass through it. It panics with
// http.ErrAbortHandler if the connection must be dropped instead.
func (s *Server) fail(err error, c *call.Call) {
	p, internal := problem.FromError(err)
	if unrouted, is := errors.AsType[*echo.HTTPError](err); is && unrouted.Code == http.StatusNotFound {
		if advice := otlp.PathAdvice(c.Request().URL.Path); advice != "" {
			p = problem.New(http.StatusNotFound, "no route matches this path and method: %s", advice)
		}
	}
	p = otlp.Retryable(c.Path(), p)
	if internal && c.Request().Context().Err() != nil {
		// The client might have closed only its sending half of the connection, and might still be
		// reading. Aborting makes sure that it does not receive a response.
		c.Response().Status = statusClientGone
		panic(http.ErrAbortHandler)
	}
	if internal {
		s.config.Logger.Error("request failed", "method", c.Request().Method, "route", c.Path(), "error", err)
	}
	s.config.Metrics.load.CountRefusal(p.Reason)
	if c.Response().Committed {
		// A partial response must not look complete.
		panic(http.ErrAbortHandler)
	}
	h := c.Response().Header()
	text := call.NewBuffer()
	defer text.Release()
	media := appendErrorResponse(text, c, p)
	if full := c.HoldReadMemory(text.MemoryBytes()); full != nil {
		if c.Request().Context().Err() != nil {
			c.Response().Status = statusClientGone
			panic(http.ErrAbortHandler)
		}
		p, _ = problem.FromError(full)
		text.Text = text.Text[:0]
		media = appendErrorResponse(text, c, p)
	}
	h.Set(echo.HeaderContentType, media)
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", retryAfter(p.RetryAfter))
	case http.StatusUnauthorized:
		h.Set(echo.HeaderWWWAuthenticate, "Bearer")
	}
	c.Response().WriteHeader(p.Status)
	_, _ = c.Response().Write(text.Text) // an error means that the client has disconnected
}

// appendErrorResponse appends the response body for a call that failed, and returns its media type.
// The body is a problem or, for OTLP, a google.rpc.Status.
func appendErrorResponse(to *call.Buffer, c *call.Call, p *problem.Problem) (media string) {
	if text, media, ok := otlp.AppendErrorResponse(to.Text, c.Path(), c.Request(), p); ok {
		to.Text = text
		return media
	}
	to.Text = p.AppendLine(to.Text)
	return "application/problem+json"
}

// retryAfter formats a wait as a Retry-After value: whole seconds, rounded up, at least 1.
func retryAfter(wait time.Duration) string {
	return strconv.FormatUint(uint64(max(1, math.Ceil(wait.Seconds()))), 10)
}

// setDefaults sets the headers that every response has unless its handler overrides them. Browsers
// must not sniff content types. Only private caches may store a response, and they must revalidate
// it each time, because access rights can change at any moment.
func setDefaults(h http.Header) {
	h[echo.HeaderXContentTypeOptions] = nosniff
	h[echo.HeaderReferrerPolicy] = noReferrer
	h[echo.HeaderCacheControl] = uncached
}

// These header values are shared by all responses and must not be modified in place.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	uncached   = []string{"private, no-cache"}
)
