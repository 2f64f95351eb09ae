package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
)

// oneValue implements access.SharedStore with one value in memory, which the test can make
// unreadable.
type oneValue struct {
	mu      sync.Mutex // guards the fields below
	text    []byte
	version int64
	fault   error
}

func (v *oneValue) ValueVersion(ctx context.Context, name string) (int64, error) {
	_, version, err := v.Value(ctx, name)
	return version, err
}

func (v *oneValue) Value(context.Context, string) ([]byte, int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text, v.version, v.fault
}

func (v *oneValue) SetValue(_ context.Context, _ string, _ int64, value []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.text = value
	v.version++
	return v.fault
}

// While the server cannot read the list of revoked tokens, it accepts no token. It then answers
// 503, and not 401, because the token might be valid.
func TestUnreadableSharedTokens(t *testing.T) {
	tokens := new(oneValue)
	made, err := access.TokenStore{SharedStore: tokens, Now: time.Now}.Create(access.TokenSpec{Name: "reader", Grants: []access.Grant{{Ledgers: []string{access.AllLedgers}, Scopes: access.AllScopes}}})
	require.NoError(t, err)
	who, err := access.Open(access.Config{Dir: t.TempDir(), SharedStore: &tokensOnly{tokens}})
	require.NoError(t, err)
	t.Cleanup(who.Close)
	s := start(t, func(c *Config) { c.Authenticator = who })
	ask := func() answer { return s.get("/stats", "Authorization", "Bearer "+made.Text) }
	ask().want(http.StatusOK)
	tokens.mu.Lock()
	tokens.fault = errors.New("unreachable")
	tokens.mu.Unlock()
	require.Eventually(t, func() bool { return ask().status == http.StatusServiceUnavailable }, time.Minute, 100*time.Millisecond)
	require.NotEmpty(t, ask().want(http.StatusServiceUnavailable).header.Get("Retry-After"))
	tokens.mu.Lock()
	tokens.fault = nil
	tokens.mu.Unlock()
	require.Eventually(t, func() bool { return ask().status == http.StatusOK }, time.Minute, 100*time.Millisecond)
}

// tokensOnly ignores all writes. Otherwise, the last-use times that the server writes would replace
// the tokens.
type tokensOnly struct{ *oneValue }

func (v *tokensOnly) SetValue(_ context.Context, _ string, _ int64, _ []byte) error { return nil }
