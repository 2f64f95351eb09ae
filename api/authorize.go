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

// where says on what a caller needs his scopes.
type where uint8

const (
	nowhere    where = iota // nothing is needed: everybody may ask
	theLedger               // on the ledger of the path
	theLog                  // on the ledger of the path, unless its log is public
	anyLedger               // on some ledger, whichever
	allLedgers              // on all ledgers
)

// needs is what a caller must have: one of the scopes in any, and all of those in
// all.
type needs struct {
	on       where
	any, all access.Scopes
}

// guard answers a route for those who may ask. Who brings no valid credentials is
// told so before anything is looked up, the same for whatever there is and is not.
func (s *Server) guard(r route) echo.HandlerFunc {
	if r.needs.on == nowhere {
		return r.handler
	}
	return func(c echo.Context) error {
		if brokenElement(c) {
			return echo.ErrNotFound
		}
		identity, err := s.authenticate(c)
		if c, is := c.(*call); is && err == nil {
			c.identity = identity
		}
		if err := s.limits.rates.ofIdentity(func() string { return s.caller(c) }); err != nil {
			return err
		}
		if r.needs.on == theLog && s.host.Public(c.Param("ledger")) {
			allowOrigins(c)
			return r.handler(c)
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
		return r.handler(c)
	}
}

// showContent: the answer may hold content, of which no copy may be left anywhere
// once it is erased (spec: Redactions).
func (n needs) showContent() bool { return n.any == access.Content || n.all&access.Content != 0 }

// brokenElement: a slash stands in an element of the path as it is. Echo gives a last
// element all that is left; in ours a slash comes percent-encoded.
func brokenElement(c echo.Context) bool {
	for i, name := range c.ParamNames() {
		if name != "*" && strings.Contains(c.ParamValues()[i], "/") {
			return true
		}
	}
	return false
}

// identify is who makes a request. Without authentication everybody may do all.
func (s *Server) identify(r *http.Request) (*access.Identity, error) {
	if !s.config.Access.Required() {
		return s.everybody, nil
	}
	return s.config.Access.Authenticate(r)
}

// unauthorized is the one answer to whoever brings no valid credentials, or none.
func unauthorized() *problem {
	return fault(http.StatusUnauthorized, "this needs valid credentials: send Authorization: Bearer and a token, "+
		"which the operator makes with colophon token create")
}

// check is nil for those who may; 403 for those who have something on the ledger
// of that name but not what is needed, and 404 for those who have nothing on it,
// whether there is one or not.
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

// missing names what the scopes of a caller lack; nothing if they are enough.
func (n needs) missing(has access.Scopes) string {
	if lacking := n.all &^ has; lacking != 0 {
		return strings.ReplaceAll(lacking.String(), ",", " and ")
	}
	if n.any != 0 && n.any&has == 0 {
		return strings.ReplaceAll(n.any.String(), ",", " or ")
	}
	return ""
}

// alsoNeeds is nil if the caller has one more scope on the ledger of the path.
func alsoNeeds(c echo.Context, scope access.Scopes) error {
	return needs{on: theLedger, all: scope}.check(identityOf(c), c.Param("ledger"))
}

// identityOf is who makes the request: nobody, who may do nothing, where the route
// needs nothing.
func identityOf(c echo.Context) *access.Identity {
	if c, is := c.(*call); is && c.identity != nil {
		return c.identity
	}
	return &access.Identity{Actor: ledger.Anonymous}
}

// actor is what events say of who made the request.
func actor(c echo.Context) string { return identityOf(c).Actor }

// allowOrigins lets the web pages of any origin read the answer.
func allowOrigins(c echo.Context) {
	c.Response().Header().Set(echo.HeaderAccessControlAllowOrigin, "*")
}

// preflight tells browsers what web pages of other origins may ask of a public log;
// of any other only what can be asked at all.
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
