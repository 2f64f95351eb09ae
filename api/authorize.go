package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/ledger"
)

// scopeTarget says which ledgers the scopes of a caller must cover.
type scopeTarget uint8

const (
	noLedger   scopeTarget = iota // no scope is needed
	theLedger                     // on the ledger of the path
	theLog                        // on the ledger of the path, unless its log is public
	anyLedger                     // on at least one ledger
	allLedgers                    // on all ledgers
)

// needs are the scopes that a caller must have: at least one of any, and every one of all.
type needs struct {
	on       scopeTarget
	any, all access.Scopes
}

// guard wraps the handler of a route with authentication and authorization. A request without
// valid credentials gets the same answer whether or not its ledger exists.
func (s *Server) guard(r route) echo.HandlerFunc {
	if r.needs.on == noLedger {
		return r.handler
	}
	handler := r.handler
	if r.reads() {
		handler = inTurn(handler)
	}
	return func(c echo.Context) error {
		if brokenElement(c) {
			return echo.ErrNotFound
		}
		identity, err := s.authenticate(c)
		if c, is := c.(*call); is && err == nil {
			c.identity = identity
		}
		if err := s.limits.Rates.CheckIdentity(func() string { return s.caller(c) }); err != nil {
			return err
		}
		if r.needs.on == theLog && s.host.Public(c.Param("ledger")) {
			allowOrigins(c)
			return handler(c)
		}
		if err != nil {
			return err
		}
		if err := r.needs.check(identity, c.Param("ledger")); err != nil {
			return err
		}
		if r.needs.showContent() {
			c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
		}
		return handler(c)
	}
}

// reads reports whether the handler reads a ledger and has no body to wait for.
func (r route) reads() bool {
	return r.method == http.MethodGet && r.needs.on != allLedgers
}

// showContent reports whether the answer may hold content. Caches must not keep such an
// answer, because content can be erased (spec: Redactions).
func (n needs) showContent() bool { return n.any == access.Content || n.all&access.Content != 0 }

// brokenElement reports whether an element of the path contains an unescaped slash. Echo puts
// the rest of the path into the last element; in this API a slash within an element is
// percent-encoded.
func brokenElement(c echo.Context) bool {
	for i, name := range c.ParamNames() {
		if name != "*" && strings.Contains(c.ParamValues()[i], "/") {
			return true
		}
	}
	return false
}

// identify authenticates a request. Without authentication every caller has all scopes.
func (s *Server) identify(r *http.Request) (*access.Identity, error) {
	if !s.config.Access.Required() {
		return s.unrestricted, nil
	}
	return s.config.Access.Authenticate(r)
}

// unauthorized returns the 401 for missing and for invalid credentials alike.
func unauthorized() *problem {
	return fault(http.StatusUnauthorized, "this needs valid credentials: send Authorization: Bearer and a token, "+
		"which the operator makes with colophon token create")
}

// check returns nil if the identity has the needed scopes. It returns 403 if the identity has
// other scopes on the ledger, and 404 if it has none, whether or not the ledger exists.
func (n needs) check(i *access.Identity, name string) error {
	var has access.Scopes
	place := "on any ledger"
	switch n.on {
	case anyLedger:
		has = i.Anywhere()
	case allLedgers:
		has, place = i.Everywhere(), "on all ledgers"
	default:
		has, place = i.On(name), "on the ledger "+strconv.Quote(name)
		if has == 0 {
			return fmt.Errorf("ledger %q: %w", name, ledger.ErrUnknown)
		}
	}
	missing := n.missing(has)
	if missing == "" {
		return nil
	}
	if len(i.Grants) == 0 {
		return fault(http.StatusForbidden, "this needs the scope %s %s; no rule of the access file fits these credentials", missing, place)
	}
	granted := "no scope"
	if has != 0 {
		granted = has.String()
	}
	return fault(http.StatusForbidden, "this needs the scope %s %s; the credentials grant %s there", missing, place, granted)
}

// missing names the scopes that has lacks. It returns "" if has suffices.
func (n needs) missing(has access.Scopes) string {
	if lacking := n.all &^ has; lacking != 0 {
		return strings.ReplaceAll(lacking.String(), ",", " and ")
	}
	if n.any != 0 && n.any&has == 0 {
		return strings.ReplaceAll(n.any.String(), ",", " or ")
	}
	return ""
}

// alsoNeeds checks that the caller has one more scope on the ledger of the path.
func alsoNeeds(c echo.Context, scope access.Scopes) error {
	return needs{on: theLedger, all: scope}.check(identityOf(c), c.Param("ledger"))
}

// identityOf returns the caller. Where the route needs no credentials, it returns an anonymous
// identity without scopes.
func identityOf(c echo.Context) *access.Identity {
	if c, is := c.(*call); is && c.identity != nil {
		return c.identity
	}
	return &access.Identity{Actor: ledger.Anonymous}
}

// actor returns the name of the caller that events record.
func actor(c echo.Context) string { return identityOf(c).Actor }

// allowOrigins lets web pages of all origins read the answer.
func allowOrigins(c echo.Context) {
	c.Response().Header().Set(echo.HeaderAccessControlAllowOrigin, "*")
}

// preflight answers the CORS preflight request of a browser. Web pages of other origins may
// read only public logs.
func (s *Server) preflight(c echo.Context) error {
	h := c.Response().Header()
	h.Set(echo.HeaderAllow, "OPTIONS, GET, HEAD")
	if s.host.Public(c.Param("ledger")) {
		allowOrigins(c)
		h.Set(echo.HeaderAccessControlAllowMethods, "GET, HEAD")
		h.Set(echo.HeaderAccessControlAllowHeaders, "*")
		h.Set(echo.HeaderAccessControlMaxAge, "86400")
	}
	return c.NoContent(http.StatusNoContent)
}
