package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"colophon/storage"
)

// values is a SharedStore that keeps its values in memory.
type values struct {
	mu       sync.Mutex // guards the fields below
	texts    map[string][]byte
	versions map[string]int64
	fault    error // returned by every call
}

func newValues() *values {
	return &values{texts: make(map[string][]byte), versions: make(map[string]int64)}
}

func (v *values) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault = err
}

func (v *values) drop(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.texts, name)
	delete(v.versions, name)
}

func (v *values) ValueVersion(ctx context.Context, name string) (int64, error) {
	_, version, err := v.Value(ctx, name)
	return version, err
}

func (v *values) Value(_ context.Context, name string) ([]byte, int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.texts[name], v.versions[name], v.fault
}

func (v *values) SetValue(_ context.Context, name string, version int64, value []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fault != nil {
		return v.fault
	}
	if v.versions[name] != version {
		return storage.ErrConflict
	}
	v.texts[name] = value
	v.versions[name]++
	return nil
}

// sharing opens an Authenticator whose shared store is v.
func sharing(t *testing.T, v *values) *Authenticator {
	t.Helper()
	a, err := Open(Config{Dir: filepath.Join(t.TempDir(), "access"), SharedStore: v})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// ask authenticates a request that carries token, and returns the error.
func ask(a *Authenticator, token string) error {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	_, err := a.Authenticate(r)
	return err
}

// becomes waits until authenticating with token returns the error want, or succeeds if want is nil.
func becomes(t *testing.T, a *Authenticator, token string, want error) {
	t.Helper()
	require.Eventually(t, func() bool { return errors.Is(ask(a, token), want) && (want != nil || ask(a, token) == nil) }, time.Minute, 10*time.Millisecond)
}

// Servers that share a token store accept and refuse the same tokens.
func TestSharedTokens(t *testing.T) {
	v := newValues()
	a, b := sharing(t, v), sharing(t, v)
	require.False(t, a.RequiresIdentity())
	s := TokenStore{SharedStore: v, Now: time.Now}
	grants := []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}
	one, err := s.Create(TokenSpec{Name: "one", Grants: grants})
	require.NoError(t, err)
	require.True(t, one.IsFirst)
	becomes(t, a, one.Text, nil)
	becomes(t, b, one.Text, nil)
	require.True(t, a.RequiresIdentity())
	_, err = s.Create(TokenSpec{Name: "one", Grants: grants})
	require.ErrorContains(t, err, "a token \"one\" already exists")
	_, err = s.Revoke("one")
	require.NoError(t, err)
	becomes(t, a, one.Text, ErrInvalidCredentials)
	becomes(t, b, one.Text, ErrInvalidCredentials)
	list, err := s.List()
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "revoked", list[0].State(time.Now()))
}

// If the shared token list is lost or damaged, all tokens are rejected.
func TestLostSharedTokens(t *testing.T) {
	v := newValues()
	a := sharing(t, v)
	s := TokenStore{SharedStore: v, Now: time.Now}
	one, err := s.Create(TokenSpec{Name: "one", Grants: []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}})
	require.NoError(t, err)
	becomes(t, a, one.Text, nil)
	v.drop(sharedTokens)
	becomes(t, a, one.Text, ErrInvalidCredentials)
	require.True(t, a.RequiresIdentity())
	require.NoError(t, v.SetValue(t.Context(), sharedTokens, 0, []byte("{")))
	_, err = Open(Config{Dir: t.TempDir(), SharedStore: v})
	require.ErrorContains(t, err, "damaged")
	_, err = s.List()
	require.ErrorContains(t, err, "damaged")
}

// A server that has been unable to read the shared token list for MaxTokenStaleness accepts no
// token and logs the reason.
func TestStaleTokens(t *testing.T) {
	v := newValues()
	s := TokenStore{SharedStore: v, Now: time.Now}
	one, err := s.Create(TokenSpec{Name: "one", Grants: []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}})
	require.NoError(t, err)
	config := Config{SharedStore: v}.withDefaults()
	p, err := openPoll(config)
	require.NoError(t, err)
	p.close() // the test calls refresh itself
	a := &Authenticator{tokens: p, uses: openLastUses(config), log: config.Logger, now: config.Now}
	require.NoError(t, ask(a, one.Text))
	v.fail(errors.New("unreachable"))
	require.Error(t, p.refresh(t.Context()))
	require.NoError(t, ask(a, one.Text), "until StaleAfter, the last list is used")
	p.maxStaleness = 0
	require.ErrorIs(t, ask(a, one.Text), ErrStaleTokens)
	require.True(t, a.RequiresIdentity())
	v.fail(nil)
	p.maxStaleness = time.Hour
	require.NoError(t, p.refresh(t.Context()))
	require.NoError(t, ask(a, one.Text))
	_, err = Open(Config{Dir: t.TempDir(), SharedStore: func() *values { v.fail(errors.New("unreachable")); return v }()})
	require.ErrorContains(t, err, "unreachable")
	v.fail(nil)
}

// If several processes change the shared token list at the same time, no change is lost.
func TestConcurrentSharedChanges(t *testing.T) {
	v := newValues()
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error {
			_, err := TokenStore{SharedStore: v, Now: time.Now}.Create(TokenSpec{Name: fmt.Sprintf("t%d", i), Grants: []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}})
			return err
		})
	}
	require.NoError(t, group.Wait())
	list, err := TokenStore{SharedStore: v, Now: time.Now}.List()
	require.NoError(t, err)
	require.Len(t, list, 8)
}

// Servers that share a store keep each other's last-use times: a stored time is replaced only by a
// later one.
func TestSharedLastUses(t *testing.T) {
	v := newValues()
	s := TokenStore{SharedStore: v, Now: time.Now}
	grants := []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}
	one, err := s.Create(TokenSpec{Name: "one", Grants: grants})
	require.NoError(t, err)
	two, err := s.Create(TokenSpec{Name: "two", Grants: grants})
	require.NoError(t, err)
	early, late := newClock(), newClock()
	late.add(time.Hour)
	for _, use := range []struct {
		clock *clock
		text  string
	}{{late, one.Text}, {early, one.Text}, {early, two.Text}} {
		a, err := Open(Config{Dir: t.TempDir(), SharedStore: v, Now: use.clock.now})
		require.NoError(t, err)
		require.NoError(t, ask(a, use.text))
		a.Close()
	}
	list, err := s.List()
	require.NoError(t, err)
	require.Equal(t, late.now(), list[0].LastUse)
	require.Equal(t, early.now(), list[1].LastUse)
}

// MoveTokens moves the tokens of a folder into a shared store. A second call changes nothing.
func TestTakeOver(t *testing.T) {
	grants := []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}
	folder := func() TokenStore { return TokenStore{Dir: filepath.Join(t.TempDir(), "access"), Now: time.Now} }
	v := newValues()
	none := folder()
	require.NoError(t, MoveTokens(none.Dir, v))
	require.NoDirExists(t, none.Dir)

	own := folder()
	one, err := own.Create(TokenSpec{Name: "one", Grants: grants})
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(own.Dir, tokensFile))
	require.NoError(t, err)
	require.NoError(t, MoveTokens(own.Dir, v))
	require.NoFileExists(t, filepath.Join(own.Dir, tokensFile))
	require.NoError(t, ask(sharing(t, v), one.Text))
	_, err = Open(Config{Dir: own.Dir})
	require.Error(t, err, "the folder alone accepts no token")
	require.NoError(t, MoveTokens(own.Dir, v), "again")

	// An earlier MoveTokens was interrupted before it renamed the tokens file. The token has been
	// revoked since then, and must stay revoked.
	_, err = TokenStore{SharedStore: v, Now: time.Now}.Revoke("one")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(own.Dir, tokensFile), before, 0o600))
	require.NoError(t, MoveTokens(own.Dir, v))
	require.NoFileExists(t, filepath.Join(own.Dir, tokensFile))
	require.ErrorIs(t, ask(sharing(t, v), one.Text), ErrInvalidCredentials)

	// The store got its tokens from a copy of the folder. A token that has been revoked in the folder
	// since then must stay revoked.
	copied := newValues()
	require.NoError(t, copied.SetValue(t.Context(), sharedTokens, 0, before))
	server := sharing(t, copied)
	require.NoError(t, ask(server, one.Text))
	require.NoError(t, os.WriteFile(filepath.Join(own.Dir, tokensFile), before, 0o600))
	_, err = own.Revoke("one")
	require.NoError(t, err)
	require.NoError(t, MoveTokens(own.Dir, copied))
	require.NoFileExists(t, filepath.Join(own.Dir, tokensFile))
	require.ErrorIs(t, ask(sharing(t, copied), one.Text), ErrInvalidCredentials)
	becomes(t, server, one.Text, ErrInvalidCredentials)

	// MoveTokens refuses a folder with a token that is missing from the shared store.
	other := folder()
	_, err = other.Create(TokenSpec{Name: "two", Grants: grants})
	require.NoError(t, err)
	require.ErrorContains(t, MoveTokens(other.Dir, v), `has token "two"`)
	require.FileExists(t, filepath.Join(other.Dir, tokensFile))

	// A server that has seen tokens does not start if the store has lost them.
	seen := folder()
	require.NoError(t, MoveTokens(seen.Dir, v))
	require.DirExists(t, seen.Dir)
	v.drop(sharedTokens)
	require.ErrorContains(t, MoveTokens(seen.Dir, v), "has no token file, and the database has no tokens")
}

// Shared stores and folders use the same format for exported tokens, so ReplaceTokens can copy the
// tokens from one to the other.
func TestTextOfTokens(t *testing.T) {
	shared, folder := TokenStore{SharedStore: newValues(), Now: time.Now}, TokenStore{Dir: filepath.Join(t.TempDir(), "access"), Now: time.Now}
	for _, s := range []TokenStore{shared, folder} {
		text, err := s.ExportTokens()
		require.NoError(t, err)
		require.Nil(t, text)
	}
	_, err := shared.Create(TokenSpec{Name: "one", Grants: []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}})
	require.NoError(t, err)
	text, err := shared.ExportTokens()
	require.NoError(t, err)
	require.NoError(t, folder.ReplaceTokens(text))
	got, err := folder.ExportTokens()
	require.NoError(t, err)
	require.Equal(t, string(text), string(got))
	require.Error(t, folder.ReplaceTokens([]byte("{}")))
}
