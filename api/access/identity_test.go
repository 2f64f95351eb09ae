package access

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestScopesReadWhatTheyWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Scopes(rapid.Uint8Max(uint8(AllScopes)).Draw(t, "scopes"))
		parsed, err := ParseScopes(s.Names()...)
		require.NoError(t, err)
		require.Equal(t, s, parsed)
		text, err := json.Marshal(s)
		require.NoError(t, err)
		var read Scopes
		require.NoError(t, json.Unmarshal(text, &read))
		require.Equal(t, s, read)
	})
	require.Equal(t, "write,read,content,log,admin,metrics", AllScopes.String())
}

func TestUnknownScopes(t *testing.T) {
	for _, name := range []string{"", "Write", "write,read", "*", " read"} {
		_, err := ParseScopes("read", name)
		require.ErrorContains(t, err, "is not a scope; the valid scopes are write, read,", "%q", name)
	}
	for _, text := range []string{`"read"`, `["reed"]`, `7`, `{}`} {
		require.Error(t, json.Unmarshal([]byte(text), new(Scopes)), text)
	}
}

func TestWhereAnIdentityMayWhat(t *testing.T) {
	i := &Identity{Grants: []Grant{
		{Ledgers: []string{"a", "b"}, Scopes: ScopeWrite},
		{Ledgers: []string{"b"}, Scopes: ScopeRead},
		{Ledgers: []string{AllLedgers}, Scopes: ScopeLog},
		{Scopes: ScopeAdmin}, // no ledgers, so it grants nothing
	}}
	require.Equal(t, ScopeWrite|ScopeLog, i.ScopesOn("a"))
	require.Equal(t, ScopeWrite|ScopeRead|ScopeLog, i.ScopesOn("b"))
	require.Equal(t, ScopeLog, i.ScopesOn("c"))
	require.Equal(t, ScopeLog, i.ScopesOnAllLedgers())
	require.Equal(t, ScopeWrite|ScopeRead|ScopeLog, i.ScopesOnAnyLedger())
	require.Zero(t, (&Identity{}).ScopesOn("a"))
	// In a request, "*" is not the name of a ledger.
	require.Zero(t, (&Identity{Grants: []Grant{{Ledgers: []string{"a"}, Scopes: ScopeWrite}}}).ScopesOn(AllLedgers))
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "0", "ci.build_7-x", strings.Repeat("a", 64)} {
		require.NoError(t, checkName(name), name)
	}
	for _, name := range []string{"", "A", "-a", ".a", "a b", "a:b", "é", "a\n", strings.Repeat("a", 65), "anonymous"} {
		require.ErrorContains(t, checkName(name), "is not a valid name", "%q", name)
	}
}

func TestGrants(t *testing.T) {
	require.NoError(t, Grant{Ledgers: []string{"default", AllLedgers}, Scopes: ScopeRead}.check())
	require.ErrorContains(t, Grant{Ledgers: []string{"default"}}.check(), "no scope")
	require.ErrorContains(t, Grant{Scopes: ScopeRead}.check(), "no ledger")
	for _, name := range []string{"", "De", "a.b", "**", "a,b", "-a", strings.Repeat("a", 65)} {
		require.ErrorContains(t, Grant{Ledgers: []string{name}, Scopes: ScopeRead}.check(), "is neither the name of a ledger", "%q", name)
	}
	require.ErrorContains(t, checkGrants(nil), "the token has no grants")
}
