package access

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"colophon/ledger/record"
)

// AllLedgers in a grant means every ledger, including future ones.
const AllLedgers = "*"

// Grant gives its holder a set of scopes on certain ledgers.
type Grant struct {
	Ledgers []string `json:"ledgers"` // ledger names, or AllLedgers
	Scopes  Scopes   `json:"scopes"`
}

// Identity is an authenticated caller and what the caller is allowed to do. It is immutable.
type Identity struct {
	// Actor is the caller's name in events. For an API token, it is the name of the token.
	// Otherwise, it is "oidc:" or "mtls:" followed by the name that an IssuerRule or
	// CertificateRule determines.
	Actor  string
	Grants []Grant
}

// ScopesOn returns the caller's scopes on a ledger, including scopes granted on all ledgers.
func (i *Identity) ScopesOn(ledger string) Scopes {
	return i.where(func(names []string) bool {
		return slices.Contains(names, ledger) || slices.Contains(names, AllLedgers)
	})
}

// ScopesOnAllLedgers returns the caller's scopes on all ledgers, including future ones.
func (i *Identity) ScopesOnAllLedgers() Scopes {
	return i.where(func(names []string) bool { return slices.Contains(names, AllLedgers) })
}

// ScopesOnAnyLedger returns the scopes that the caller has on at least one ledger.
func (i *Identity) ScopesOnAnyLedger() Scopes {
	return i.where(func(names []string) bool { return len(names) > 0 })
}

func (i *Identity) where(covers func(ledgers []string) bool) Scopes {
	var set Scopes
	for _, g := range i.Grants {
		if covers(g.Ledgers) {
			set |= g.Scopes
		}
	}
	return set
}

// anonymous is the actor of requests to a server without configured credentials. The name is
// reserved, so checkName rejects it.
const anonymous = "anonymous"

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// checkName returns an error unless the name is valid for a token or for the holder of a
// certificate.
func checkName(name string) error {
	if !namePattern.MatchString(name) || name == anonymous {
		return fmt.Errorf("%q is not a valid name: a name consists of 1 to 64 lower-case letters, digits, dots, underscores, and hyphens, begins with a letter or digit, and is not %q", name, anonymous)
	}
	return nil
}

// checkLedgers returns an error if the list is empty, or if an element is neither the name of a
// ledger nor AllLedgers. The ledgers need not exist yet.
func checkLedgers(ledgers []string) error {
	if len(ledgers) == 0 {
		return fmt.Errorf("no ledgers are listed; list at least one, or use %q for all", AllLedgers)
	}
	for _, name := range ledgers {
		if name != AllLedgers && !record.IsLedgerName(name) {
			return fmt.Errorf("%q is neither the name of a ledger nor %q for all", name, AllLedgers)
		}
	}
	return nil
}

// check returns an error if the grant is not valid.
func (g Grant) check() error {
	if g.Scopes == 0 {
		return errors.New("no scopes are listed; the valid scopes are " + strings.Join(scopeNames[:], ", "))
	}
	return checkLedgers(g.Ledgers)
}
