package access

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNothingIsRequiredWithoutTokens(t *testing.T) {
	b := open(t, Rules{})
	require.False(t, b.RequiresIdentity())
	require.Empty(t, b.Summary())
	_, err := b.Authenticate(httpGet())
	require.ErrorIs(t, err, ErrNoCredentials)
	b.refuses(with("Bearer colophon_aaaaaaaaaaaaaaaa_"+strings.Repeat("a", 52)), "no token has the id")
	b.refuses(with("Bearer abc"), "no issuer is configured")

	made := b.token("one") // created while the server is running
	require.True(t, b.RequiresIdentity())
	require.Equal(t, "1 token", b.Summary())
	b.accepts(with("Bearer "+made.Text), "one")
	b.token("two")
	require.Equal(t, "2 tokens", b.Summary())
}

func httpGet() *http.Request {
	r := with()
	r.Header.Del("Authorization")
	return r
}

func TestANilAuthenticatorRequiresNothing(t *testing.T) {
	var a *Authenticator
	require.False(t, a.RequiresIdentity())
	require.Empty(t, a.Summary())
	_, err := a.Authenticate(with("Bearer abc"))
	require.ErrorIs(t, err, ErrNoCredentials)
	a.Close()
}

func TestDefaultsOfConfig(t *testing.T) {
	a, err := Open(Config{Dir: filepath.Join(t.TempDir(), "access")})
	require.NoError(t, err)
	require.WithinRange(t, a.now(), time.Now().Add(-time.Minute), time.Now())
	a.Close()
}

func TestTokens(t *testing.T) {
	b := open(t, Rules{})
	one, two := b.token("one"), b.token("two")
	identity := b.accepts(with("bearer "+one.Text), "one")
	require.Equal(t, ScopeWrite, identity.ScopesOn("default"))
	require.Zero(t, identity.ScopesOn("other"))
	b.accepts(with("Bearer "+two.Text), "two")

	secret := two.Text[len(tokenPrefix)+17:]
	b.refuses(with("Bearer "+tokenPrefix+one.ID+"_"+secret), "the secret does not belong to token")
	b.refuses(with("Bearer "+tokenPrefix+strings.Repeat("a", 16)+"_"+secret), "no token has the id")
	for _, text := range []string{one.Text[:len(one.Text)-1], one.Text + "a", strings.ToUpper(one.Text), tokenPrefix, one.Text + "=", tokenPrefix + one.ID} {
		b.refuses(with("Bearer "+text), "reason=")
	}
	b.refuses(with("Basic "+one.Text), "the scheme of the Authorization header is not Bearer")
	b.refuses(with("Bearer "+one.Text, "Bearer "+one.Text), "several Authorization headers")
	b.refuses(with(one.Text), "is not Bearer")
	_, err := b.Authenticate(httpGet())
	require.Equal(t, ErrNoCredentials, err)
	r := httpGet()
	r.URL.RawQuery = "access_token=" + one.Text
	r.Header.Set("Cookie", "token="+one.Text)
	_, err = b.Authenticate(r)
	require.Equal(t, ErrNoCredentials, err)
}

func TestRevocationHoldsAtOnce(t *testing.T) {
	b := open(t, Rules{})
	one, two := b.token("one"), b.token("two")
	b.accepts(with("Bearer "+one.Text), "one")
	_, err := b.store.Revoke("one")
	require.NoError(t, err)
	b.refuses(with("Bearer "+one.Text), "is revoked")
	b.accepts(with("Bearer "+two.Text), "two")
	_, err = b.store.Revoke("two")
	require.NoError(t, err)
	b.refuses(with("Bearer "+two.Text), "is revoked")
	require.True(t, b.RequiresIdentity(), "after the last revocation, requests still need a token")
	require.Equal(t, "no valid token", b.Summary())
	b.reopen(Rules{})
	require.True(t, b.RequiresIdentity())
}

func TestExpiry(t *testing.T) {
	b := open(t, Rules{})
	made := create(t, b.store, "one", b.clock.now().Add(time.Hour))
	b.clock.add(time.Hour - time.Nanosecond)
	b.accepts(with("Bearer "+made.Text), "one")
	b.clock.add(time.Nanosecond)
	b.refuses(with("Bearer "+made.Text), "is expired")
	require.True(t, b.RequiresIdentity())
}

func TestADamagedFileLetsNobodyIn(t *testing.T) {
	b := open(t, Rules{})
	made := b.token("one")
	path := filepath.Join(b.store.Dir, tokensFile)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	restore := func() {
		t.Helper()
		require.NoError(t, os.WriteFile(path, whole, 0o600))
		require.NoError(t, os.Chmod(path, 0o600))
		b.accepts(with("Bearer "+made.Text), "one")
	}
	restore()
	for _, d := range []struct {
		wantLog string
		damage  func() error
	}{
		{"is missing", func() error { return os.Remove(path) }},
		{"is damaged", func() error { return os.WriteFile(path, whole[:len(whole)/2], 0o600) }},
		{"is damaged", func() error { return os.Truncate(path, 0) }},
		{"longer than", func() error { return os.Truncate(path, maxTokensFile+1) }},
		{"chmod 600", func() error { return os.Chmod(path, 0o644) }},
		{"is damaged", func() error { return os.WriteFile(path, []byte(`{"version":1,"tokens":[],"x":0}`), 0o600) }},
	} {
		require.NoError(t, d.damage())
		before := len(b.log.String())
		require.True(t, b.RequiresIdentity(), d.wantLog)
		b.refuses(with("Bearer "+made.Text), "all tokens are rejected")
		b.refuses(with("Bearer "+made.Text), "all tokens are rejected")
		logged := b.log.String()[before:]
		require.Equal(t, 1, strings.Count(logged, "level=ERROR"), "logged once: %s", logged)
		require.Contains(t, logged, d.wantLog)
		require.Equal(t, "no valid token", b.Summary())
		_, err := Open(Config{Dir: b.store.Dir})
		require.Error(t, err, "%s: Open must return an error", d.wantLog)
		restore()
	}
	// If the whole token folder is removed, all tokens are rejected, and requests still need a token.
	require.NoError(t, os.RemoveAll(b.store.Dir))
	b.refuses(with("Bearer "+made.Text), "is missing")
	require.True(t, b.RequiresIdentity())
}

func TestOneRequestReadsForAll(t *testing.T) {
	b := open(t, Rules{})
	text := b.token("one").Text
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				identity, err := b.Authenticate(with("Bearer " + text))
				if err != nil || identity.Actor != "one" {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wait.Go(func() {
		for i := range 5 {
			b.token("other" + string(rune('0'+i)))
		}
	})
	wait.Wait()
	require.Equal(t, "6 tokens", b.Summary())
}

func TestLastUse(t *testing.T) {
	b := open(t, Rules{})
	one, two, three := b.token("one"), b.token("two"), b.token("three")
	lastUse := func() (times [3]time.Time) {
		t.Helper()
		list, err := b.store.List()
		require.NoError(t, err)
		for i := range times {
			times[i] = list[i].LastUse
		}
		return times
	}
	require.Equal(t, [3]time.Time{}, lastUse())
	begin := b.clock.now()
	b.accepts(with("Bearer "+one.Text), "one") // the first use is written at once
	require.Equal(t, [3]time.Time{begin}, lastUse())
	b.clock.add(time.Second)
	b.accepts(with("Bearer "+two.Text), "two") // later uses are written at most once a minute
	require.Equal(t, [3]time.Time{begin}, lastUse())
	b.clock.add(lastUseEvery)
	b.accepts(with("Bearer "+one.Text), "one")
	require.Equal(t, [3]time.Time{b.clock.now(), begin.Add(time.Second)}, lastUse())
	b.clock.add(time.Second)
	b.accepts(with("Bearer "+three.Text), "three")
	b.refuses(with("Bearer "+one.Text+"="), "malformed")
	b.Close() // Close also writes the last-use times
	all := lastUse()
	require.Equal(t, b.clock.now(), all[2])
	b.Close() // a second Close writes nothing
	b.reopen(Rules{})
	b.clock.add(time.Hour)
	b.accepts(with("Bearer "+two.Text), "two")
	all[1] = b.clock.now()
	require.Equal(t, all, lastUse(), "the times that were stored before remain")
}

func TestLastUseIsKeptAsWellAsItCanBe(t *testing.T) {
	b := open(t, Rules{})
	one := b.token("one")
	path := filepath.Join(b.store.Dir, lastUseFile)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	b.reopen(Rules{})
	require.Contains(t, b.log.String(), "cannot read the tokens' last-use times; the stored times are lost")
	list, err := b.store.List()
	require.NoError(t, err)
	require.True(t, list[0].LastUse.IsZero())
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "x"), 0o700))
	b.accepts(with("Bearer "+one.Text), "one")
	require.Contains(t, b.log.String(), "cannot store")
}

// The last-use times of tokens that are no longer in the store are dropped.
func TestLastUseForgets(t *testing.T) {
	b := open(t, Rules{})
	one, two := b.token("one"), b.token("two")
	b.accepts(with("Bearer "+one.Text), "one")
	b.accepts(with("Bearer "+two.Text), "two")
	tokens, _, err := readTokens(b.store.Dir)
	require.NoError(t, err)
	text, err := encodeTokens(tokens[1:])
	require.NoError(t, err)
	require.NoError(t, replaceFile(filepath.Join(b.store.Dir, tokensFile), text, true))
	b.clock.add(lastUseEvery)
	b.accepts(with("Bearer "+two.Text), "two")
	uses, err := readLastUses(filepath.Join(b.store.Dir, lastUseFile))
	require.NoError(t, err)
	require.Equal(t, map[string]time.Time{two.ID: b.clock.now()}, uses)
}

func TestOpenRefusesRulesThatAreNone(t *testing.T) {
	_, err := Open(Config{Dir: t.TempDir(), Rules: Rules{OIDC: []IssuerRule{{}}}, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "oidc[0].issuer")
}
