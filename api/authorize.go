package api

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
)

// guard wraps the handler of a route with authentication and authorization. A request without
// valid credentials gets the same answer whether or not its ledger exists.
func (s *Server) guard(r route) call.Handler {
	handler := r.handler
	if r.needs.Target == call.TargetNone {
		return handler
	}
	switch {
	case s.config.ReadOnly:
		handler = s.readOnly(r, handler)
	case s.forward != nil:
		handler = s.forward.wrap(r, handler)
	}
	if r.reads() {
		handler = withReadTurn(handler)
	}
	return func(c *call.Call) error {
		if hasUnescapedSlash(c) {
			return echo.ErrNotFound
		}
		identity, err := s.authenticate(c)
		if err == nil {
			c.SetIdentity(identity)
		}
		if err := s.shared.Limiter.Rates.TakeIdentityToken(c.LimitKey); err != nil {
			return err
		}
		if r.needs.Target == call.TargetPrivateLog && s.host.HasPublicLog(c.Param("ledger")) {
			allowOrigins(c)
			return handler(c)
		}
		if err != nil {
			return err
		}
		if err := r.needs.Check(identity, c.Param("ledger")); err != nil {
			return err
		}
		if r.needs.AllowsContent() {
			c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
		}
		return handler(c)
	}
}

// reads reports whether the handler reads a ledger and does not wait for a body.
func (r route) reads() bool {
	return r.method == http.MethodGet && r.needs.Target != call.TargetAllLedgers
}

// hasUnescapedSlash reports whether a path parameter contains an unescaped slash. Echo puts the rest of
// the path into the last parameter, but in this API a slash within a parameter must be
// percent-encoded.
func hasUnescapedSlash(c *call.Call) bool {
	for i, name := range c.ParamNames() {
		if name != "*" && strings.Contains(c.ParamValues()[i], "/") {
			return true
		}
	}
	return false
}

// allowOrigins lets web pages from any origin read the response.
func allowOrigins(c *call.Call) {
	c.Response().Header().Set(echo.HeaderAccessControlAllowOrigin, "*")
}

// preflight answers a browser's CORS preflight request. Web pages from other origins may read only
// public logs.
func (s *Server) preflight(c *call.Call) error {
	h := c.Response().Header()
	h.Set(echo.HeaderAllow, "OPTIONS, GET, HEAD")
	if s.host.HasPublicLog(c.Param("ledger")) {
		allowOrigins(c)
		h.Set(echo.HeaderAccessControlAllowMethods, "GET, HEAD")
		h.Set(echo.HeaderAccessControlAllowHeaders, "*")
		h.Set(echo.HeaderAccessControlMaxAge, "86400")
	}
	return c.NoContent(http.StatusNoContent)
}
