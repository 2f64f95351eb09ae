package api

import (
	"errors"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/storage"
)

// LimitListener returns a listener that limits the number of connections that l accepts. A TLS
// listener must wrap the returned listener, not the other way round.
func (s *Server) LimitListener(l net.Listener) net.Listener {
	return s.shared.Limiter.Connections.LimitListener(l, func() { s.config.Metrics.load.CountRefusal(limits.ReasonConnections) })
}

// admit refuses a request before authentication if its connection exceeds the connection limit, its
// URL is too long, or its address sends too many requests.
func (s *Server) admit(c *call.Call) error {
	r := c.Request()
	beyond, last := limits.OverConnectionLimit(r)
	if last {
		c.Response().Header().Set(echo.HeaderConnection, "close")
	}
	if isMonitoringRoute(c.Path()) {
		return nil
	}
	if beyond {
		return limits.NewRejectedError(limits.ReasonConnections, http.StatusServiceUnavailable, 0,
			"too many connections are open, from this address or in total (limit %d); try again later", s.shared.Limiter.Limits.MaxConnections)
	}
	if err := limits.CheckURL(r.URL); err != nil {
		return err
	}
	if r.ProtoMajor > 1 && !limits.HasStreamSlot(r) {
		from, err := s.shared.Limiter.TakeStreamSlot(r)
		if err != nil {
			return err
		}
		c.HoldStreamSlot(from)
	}
	return s.shared.Limiter.Rates.TakeAddressToken(c.ClientAddress)
}

// isMonitoringRoute reports whether a route is used for monitoring. admit does not refuse requests for
// such a route, because monitoring matters most when the server is overloaded.
func isMonitoringRoute(route string) bool {
	return route == "/healthz" || route == "/readyz" || route == "/metrics"
}

// authenticate returns the identity of the caller. It accepts valid credentials even from an address
// that has sent many invalid ones, so that one client's guesses do not lock out others. Once an
// address exceeds its rate of failures, further failures get 429 instead of 401. If an address has
// sent too many invalid signatures, authenticate refuses its signatures without verifying them,
// because verification is expensive.
func (s *Server) authenticate(c *call.Call) (*access.Identity, error) {
	if !s.shared.Authenticator.RequiresIdentity() {
		return s.shared.UnrestrictedIdentity, nil
	}
	address, verified := c.ClientAddress(), false
	identity, err := s.shared.Authenticator.AuthenticateLimited(c.Request(), func() bool {
		verified = s.shared.Limiter.Rates.MayVerifySignature(address)
		return verified
	})
	switch {
	case err == nil:
		return identity, nil
	case errors.Is(err, access.ErrStaleTokens):
		return nil, call.StaleTokensProblem()
	case errors.Is(err, access.ErrVerificationSkipped):
		return nil, s.shared.Limiter.Rates.SignatureRefusal(address)
	case errors.Is(err, access.ErrInvalidCredentials):
		if err := s.shared.Limiter.Rates.CountFailure(address, verified); err != nil {
			return nil, err
		}
	}
	return nil, call.UnauthorizedProblem()
}

// withReadTurn wraps a handler so that it waits for a read turn before it runs. Its reads are impatient,
// because other requests wait for the turn.
func withReadTurn(handler call.Handler) call.Handler {
	return func(c *call.Call) error {
		c.SetRequest(c.Request().WithContext(storage.Impatient(c.Request().Context())))
		if err := c.BeginRead(); err != nil {
			return err
		}
		return handler(c)
	}
}
