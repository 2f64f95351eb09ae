package call

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"colophon/api/access"
	"colophon/api/problem"
	"colophon/ledger"
)

// Target says on which ledgers a caller must have the required scopes.
type Target uint8

const (
	TargetNone       Target = iota // no scope is needed
	TargetPathLedger               // scopes are needed on the ledger named in the path
	TargetPrivateLog               // scopes are needed on the ledger named in the path, unless its log is public
	TargetAnyLedger                // scopes are needed on at least one ledger
	TargetAllLedgers               // scopes are needed on all ledgers
)

// RequiredScopes describes the scopes that a caller must have: at least one of those in AnyOf, and
// all of those in AllOf.
type RequiredScopes struct {
	Target       Target // the ledgers on which the scopes are required
	AnyOf, AllOf access.Scopes
}

// UnauthorizedProblem returns the problem with status 401 for missing or invalid credentials.
func UnauthorizedProblem() *problem.Problem {
	return problem.New(http.StatusUnauthorized, "this request requires valid credentials: send the header Authorization: Bearer TOKEN; "+
		"the operator creates tokens with colophon token create")
}

// StaleTokensProblem returns the problem with status 503 for access.ErrStaleTokens.
func StaleTokensProblem() *problem.Problem {
	return problem.New(http.StatusServiceUnavailable, "the server cannot read the list of revoked tokens, so it rejects all tokens; nothing was written; try again later")
}

// Check returns nil if the identity has the required scopes. Otherwise, it returns an error with
// status 403. If the scopes are required on a single ledger and the identity has no scope on it,
// the status is 404, whether or not the ledger exists.
func (n RequiredScopes) Check(i *access.Identity, name string) error {
	var has access.Scopes
	place := "on any ledger"
	switch n.Target {
	case TargetAnyLedger:
		has = i.ScopesOnAnyLedger()
	case TargetAllLedgers:
		has, place = i.ScopesOnAllLedgers(), "on all ledgers"
	default:
		has, place = i.ScopesOn(name), "on the ledger "+strconv.Quote(name)
		if has == 0 {
			return fmt.Errorf("finding ledger %q: %w", name, ledger.ErrUnknownLedger)
		}
	}
	missing := n.missing(has)
	if missing == "" {
		return nil
	}
	if len(i.Grants) == 0 {
		return problem.New(http.StatusForbidden, "this request needs the scope %s %s; no rule in the access file matches these credentials", missing, place)
	}
	granted := "no scope"
	if has != 0 {
		granted = has.String()
	}
	return problem.New(http.StatusForbidden, "this request needs the scope %s %s, where the credentials grant %s", missing, place, granted)
}

// missing returns the names of the required scopes that are not in has, or "" if none is missing.
func (n RequiredScopes) missing(has access.Scopes) string {
	if lacking := n.AllOf &^ has; lacking != 0 {
		return strings.ReplaceAll(lacking.String(), ",", " and ")
	}
	if n.AnyOf != 0 && n.AnyOf&has == 0 {
		return strings.ReplaceAll(n.AnyOf.String(), ",", " or ")
	}
	return ""
}

// AllowsContent reports whether the answer to a request with these required scopes can contain
// content. Such an answer must not be cached, because content can be erased (spec: Redactions).
func (n RequiredScopes) AllowsContent() bool {
	return n.AnyOf == access.ScopeContent || n.AllOf&access.ScopeContent != 0
}

// RequireScope returns an error unless the caller has scope on the ledger named in the path.
func (c *Call) RequireScope(scope access.Scopes) error {
	return RequiredScopes{Target: TargetPathLedger, AllOf: scope}.Check(c.Identity(), c.Param("ledger"))
}

// recheck is the minimum time between two access checks of a long request.
const recheck = time.Second / 2

// ScopeRechecker returns a function that returns an error once the caller has lost all of the given
// scopes, for example because its token was revoked or has expired. A handler calls the function
// repeatedly during a long request, such as a batch or stream. The function checks at most once
// every recheck interval. It must be used by only one goroutine.
func (c *Call) ScopeRechecker(scopes access.Scopes) func() error {
	r, name, looked := c.Request(), c.Param("ledger"), time.Now()
	return func() error {
		now := time.Now()
		if now.Sub(looked) < recheck {
			return nil
		}
		looked = now
		identity, err := c.shared.Identify(r)
		if errors.Is(err, access.ErrStaleTokens) {
			return StaleTokensProblem()
		}
		if err != nil {
			return UnauthorizedProblem()
		}
		return RequiredScopes{Target: TargetPathLedger, AnyOf: scopes}.Check(identity, name)
	}
}
