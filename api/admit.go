package api

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/limits"
	"colophon/ledger"
)

// Listen returns a listener that bounds the connections that l accepts. Wrap TLS around it,
// not the other way round.
func (s *Server) Listen(l net.Listener) net.Listener {
	return s.limits.Connections.Listen(l, func() { s.config.Metrics.load.Count(limits.RefusedConnections) })
}

// admit refuses requests before authentication: on connections beyond the bound, with too long
// a URL, or too many from one address.
func (s *Server) admit(c echo.Context) error {
	r := c.Request()
	beyond, last := limits.Crowded(r)
	if last {
		c.Response().Header().Set(echo.HeaderConnection, "close")
	}
	if operational(c.Path()) {
		return nil
	}
	if beyond {
		return limits.Refuse(limits.RefusedConnections, http.StatusServiceUnavailable, 0,
			"too many connections are open, of this address or of all (%d); try again later", s.limits.Load.Connections)
	}
	if err := limits.CheckURL(r.URL); err != nil {
		return err
	}
	if r.ProtoMajor > 1 {
		from, taken := s.limits.TakeStream(r)
		if !taken {
			return limits.Refuse(limits.RefusedConnections, http.StatusServiceUnavailable, time.Second,
				"too many requests over HTTP/2 are under way, of this address or of all (%d); try again later", s.limits.Load.Connections)
		}
		c.(*call).stream = from
	}
	return s.limits.Rates.CheckAddress(func() netip.Prefix { return s.address(c) })
}

// operational reports whether a route serves monitoring. Monitoring must work above all when
// the server is overloaded.
func operational(route string) bool {
	return route == "/healthz" || route == "/readyz" || route == "/metrics"
}

// authenticate returns the identity that makes a request. Valid credentials are accepted
// whatever else their address has sent, so that guesses of others lock no one out. Failures
// beyond a rate are answered with 429 instead of 401. Only signatures, which are expensive to
// verify, are refused unverified from an address with too many invalid ones.
func (s *Server) authenticate(c echo.Context) (*access.Identity, error) {
	if !s.config.Access.Required() {
		return s.unrestricted, nil
	}
	address, verified := s.address(c), false
	identity, err := s.config.Access.AuthenticateWithin(c.Request(), func() bool {
		verified = s.limits.Rates.MayVerify(address)
		return verified
	})
	switch {
	case err == nil:
		return identity, nil
	case errors.Is(err, access.ErrUnjudged):
		return nil, s.limits.Rates.SignatureRefusal(address)
	case errors.Is(err, access.ErrInvalid):
		if err := s.limits.Rates.CountFailure(address, verified); err != nil {
			return nil, err
		}
	}
	return nil, unauthorized()
}

// address returns the client of a request: one IPv4 address, or the /64 of an IPv6 address.
func (s *Server) address(c echo.Context) netip.Prefix {
	ip, err := netip.ParseAddr(s.echo.IPExtractor(c.Request()))
	if err != nil {
		return netip.Prefix{} // the listener is not TCP
	}
	bits := 64
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// caller returns the name that rates and shares count a request under: its identity or, for
// anonymous requests, its address. The name of an actor never looks like a network.
func (s *Server) caller(c echo.Context) string {
	if name := actor(c); name != ledger.Anonymous {
		return name
	}
	return s.address(c).String()
}

// holderOf returns the caller of a request as a holder of memory.
func (s *Server) holderOf(c echo.Context) limits.Holder {
	if name := actor(c); name != ledger.Anonymous {
		return limits.Holder{Name: name}
	}
	return limits.Holder{Address: s.address(c)}
}

// holdWriting takes memory for writes on behalf of the caller of a request.
func (s *Server) holdWriting(c echo.Context) limits.HoldMemory {
	return func(bytes int64) (release func(), err error) {
		own := &limits.Share{Budget: s.limits.Writing, Who: s.holderOf(c)}
		return own.Release, own.Take(c.Request().Context(), bytes)
	}
}

// beginRead takes a turn to compute for a request that records nothing. The turn ends when a
// piece of the response is sent, or earlier by endHeavy. It waits at most Load.Wait and then
// returns a 503 Refusal. If the response has begun, it waits as long as the client does.
func beginRead(c echo.Context) error {
	own, is := c.(*call)
	if !is || own.committed {
		return nil
	}
	ctx, turns := c.Request().Context(), own.server.limits.Reads
	who := func() limits.Holder { return own.server.holderOf(c) }
	if c.Response().Committed {
		return own.writer.Turn.Take(ctx, turns, who)
	}
	return own.writer.Turn.TakeWithin(ctx, turns, who)
}

// inTurn has a handler begin with a turn.
func inTurn(handler echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := beginRead(c); err != nil {
			return err
		}
		return handler(c)
	}
}

// beginDecoding begins the work on a body, which the request already holds memory for. A request
// that records nothing takes a turn; a write from HeavyMemory on takes a slot for heavy work,
// which is released when the response begins, or earlier by endHeavy.
func (s *Server) beginDecoding(c echo.Context, body *requestBody) error {
	if body.share.Budget == s.limits.Reading {
		return beginRead(c)
	}
	own, is := c.(*call)
	if !is || body.share.Held < limits.HeavyMemory {
		return nil
	}
	return own.writer.Slot.Take(c.Request().Context(), &s.limits.Heavy)
}

// endHeavy ends the turn of a request, and releases its slot for heavy work.
func endHeavy(c echo.Context) {
	if own, is := c.(*call); is {
		own.writer.ReleaseSlot()
	}
}
