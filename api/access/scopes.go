package access

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Scopes is a set of permissions. No permission in a set implies another.
type Scopes uint8

// The scopes. Each comment begins with the name of the scope in tokens and configuration files.
const (
	ScopeWrite   Scopes = 1 << iota // write: add records, and change their state with actions
	ScopeRead                       // read: read records, query them, read counters, and do all that ScopeLog allows
	ScopeContent                    // content: read content that is stored outside the log and can be private
	ScopeLog                        // log: read events, proofs, receipts, and the transparency log
	ScopeAdmin                      // admin: create, publish, and freeze ledgers, and erase content
	ScopeMetrics                    // metrics: read the server's metrics
)

// AllScopes is the set of all scopes.
const AllScopes = ScopeWrite | ScopeRead | ScopeContent | ScopeLog | ScopeAdmin | ScopeMetrics

// scopeNames holds the names of the scopes, indexed by bit number.
var scopeNames = [...]string{"write", "read", "content", "log", "admin", "metrics"}

// ParseScopes returns the set of scopes with the given names, or an error if a name is unknown.
func ParseScopes(names ...string) (Scopes, error) {
	var set Scopes
	for _, name := range names {
		s, known := scopeOf(name)
		if !known {
			return 0, fmt.Errorf("%q is not a scope; the valid scopes are %s", name, strings.Join(scopeNames[:], ", "))
		}
		set |= s
	}
	return set, nil
}

func scopeOf(name string) (Scopes, bool) {
	for bit, known := range scopeNames {
		if name == known {
			return 1 << bit, true
		}
	}
	return 0, false
}

// Names returns the names of the scopes in the set. ParseScopes accepts these names.
func (s Scopes) Names() []string {
	names := []string{}
	for bit, name := range scopeNames {
		if s&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String returns the names of the scopes, separated by commas.
func (s Scopes) String() string { return strings.Join(s.Names(), ",") }

// MarshalJSON encodes the set as a list of scope names.
func (s Scopes) MarshalJSON() ([]byte, error) { return json.Marshal(s.Names()) }

// UnmarshalJSON decodes a list of scope names.
func (s *Scopes) UnmarshalJSON(text []byte) error {
	var names []string
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	var err error
	*s, err = ParseScopes(names...)
	return err
}
