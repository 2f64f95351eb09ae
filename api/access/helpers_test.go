package access

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/locked"
)

// clock is a clock that tests can set.
type clock struct {
	mu sync.Mutex
	at time.Time // guarded by mu
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench holds a token store and an Authenticator that uses it.
type bench struct {
	t     testing.TB
	clock *clock
	log   *locked.Buffer
	store TokenStore
	*Authenticator
}

// open opens an Authenticator for a new token store. Each prepare function can change the store
// before it is opened.
func open(t testing.TB, rules Rules, prepare ...func(TokenStore)) *bench {
	t.Helper()
	b := &bench{t: t, clock: newClock(), log: new(locked.Buffer)}
	b.store = TokenStore{Dir: filepath.Join(t.TempDir(), "data", "access"), Now: b.clock.now}
	for _, f := range prepare {
		f(b.store)
	}
	b.reopen(rules)
	return b
}

func (b *bench) reopen(rules Rules) {
	b.t.Helper()
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	b.Authenticator, err = Open(Config{Dir: b.store.Dir, Rules: rules, Logger: log, Now: b.clock.now})
	require.NoError(b.t, err)
	b.t.Cleanup(b.Authenticator.Close)
}

// token creates a token that can write to the default ledger.
func (b *bench) token(name string) CreatedToken {
	b.t.Helper()
	return create(b.t, b.store, name, time.Time{})
}

func create(t testing.TB, s TokenStore, name string, expires time.Time) CreatedToken {
	t.Helper()
	made, err := s.Create(TokenSpec{Name: name, Grants: []Grant{{Ledgers: []string{"default"}, Scopes: ScopeWrite}}, Expires: expires})
	require.NoError(t, err)
	return made
}

// with returns a request that has the given Authorization headers.
func with(authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header["Authorization"] = authorization
	return r
}

// refuses requires that the credentials of a request are refused as invalid, and that the log gives
// the reason but does not contain the credentials.
func (b *bench) refuses(r *http.Request, reason string) {
	b.t.Helper()
	before := len(b.log.String())
	identity, err := b.Authenticate(r)
	require.Nil(b.t, identity)
	require.Equal(b.t, ErrInvalidCredentials, err)
	logged := b.log.String()[before:]
	require.Contains(b.t, logged, reason)
	for _, value := range r.Header.Values("Authorization") {
		if len(value) > len("Bearer ") {
			require.NotContains(b.t, logged, value[len("Bearer "):])
		}
	}
}

// accepts requires that a request is authenticated as the given actor.
func (b *bench) accepts(r *http.Request, actor string) *Identity {
	b.t.Helper()
	identity, err := b.Authenticate(r)
	require.NoError(b.t, err, b.log)
	require.Equal(b.t, actor, identity.Actor)
	return identity
}
