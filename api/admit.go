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

// admit refuses what can be refused before anybody knows who asks: requests on
// connections beyond the bound, of a strange form, or too many of one address.
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

// operational are the routes by which a server is watched, above all when too much
// is asked of it.
func operational(route string) bool {
	return route == "/healthz" || route == "/readyz" || route == "/metrics"
}

// authenticate is who makes a request. Credentials are judged whatever came from their
// address before, so that nobody is locked out by somebody else's guesses; only what
// fails is refused, beyond a rate with 429. The exception is what is costly: signatures
// are not verified for an address from which too many did not hold.
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

// address is where a request comes from: one IPv4 address, or the /64 of an IPv6
// one, of which whoever has one has all.
func (s *Server) address(c echo.Context) netip.Prefix {
	ip, err := netip.ParseAddr(s.echo.IPExtractor(c.Request()))
	if err != nil {
		return netip.Prefix{} // a listener without addresses
	}
	bits := 64
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// caller is who makes a request, as far as rates and shares go: his identity or,
// without one, his address. No actor has a name like an address with its length.
func (s *Server) caller(c echo.Context) string {
	if name := actor(c); name != ledger.Anonymous {
		return name
	}
	return s.address(c).String()
}

// holderOf is who makes a request.
func (s *Server) holderOf(c echo.Context) limits.Holder {
	if name := actor(c); name != ledger.Anonymous {
		return limits.Holder{Name: name}
	}
	return limits.Holder{Address: s.address(c)}
}

// holdWriting takes memory for writing for who makes a request.
func (s *Server) holdWriting(c echo.Context) limits.HoldMemory {
	return func(bytes int64) (release func(), err error) {
		own := &limits.Share{Budget: s.limits.Writing, Who: s.holderOf(c)}
		return own.Release, own.Take(c.Request().Context(), bytes)
	}
}

// beginHeavy has a call hold a slot if its work takes that many bytes of memory, which it
// holds already. The slot is given back when the answer begins, or earlier by endHeavy. A
// call waits for at most Load.Wait and is then refused with 503, unless its answer has begun.
func beginHeavy(c echo.Context, memory int64, read bool) error {
	own, is := c.(*call)
	if !is || memory < limits.HeavyMemory || own.committed {
		return nil
	}
	ctx, work := c.Request().Context(), &own.server.limits.Heavy
	if c.Response().Committed {
		return own.writer.Slot.Take(ctx, work, read)
	}
	return own.writer.Slot.TakeWithin(ctx, work, read)
}

// beginDecoding is beginHeavy for work on a body.
func (s *Server) beginDecoding(c echo.Context, body *requestBody) error {
	return beginHeavy(c, body.share.Held, body.share.Budget == s.limits.Reading)
}

// endHeavy gives the slot of a call back.
func endHeavy(c echo.Context) {
	if own, is := c.(*call); is {
		own.writer.Slot.Release()
	}
}
