package access

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"
)

func newStore(t *testing.T) (TokenStore, *clock) {
	t.Helper()
	c := newClock()
	return TokenStore{Dir: filepath.Join(t.TempDir(), "data", "access"), Now: c.now}, c
}

func TestTokensAreMadeListedAndRevoked(t *testing.T) {
	s, clock := newStore(t)
	list, err := s.List()
	require.NoError(t, err)
	require.Empty(t, list)
	require.NoDirExists(t, s.Dir)

	first := create(t, s, "one", time.Time{})
	require.True(t, first.IsFirst)
	require.Regexp(t, regexp.MustCompile(`^colophon_[a-z2-7]{16}_[a-z2-7]{52}$`), first.Text)
	require.True(t, strings.HasPrefix(first.Text, "colophon_"+first.ID+"_"))
	clock.add(time.Hour)
	second := create(t, s, "two", clock.now().Add(time.Hour))
	require.False(t, second.IsFirst)
	require.NotEqual(t, first.ID, second.ID)

	list, err = s.List()
	require.NoError(t, err)
	require.Equal(t, []ListedToken{{Token: first.Token}, {Token: second.Token}}, list)
	require.Equal(t, "active", list[1].State(clock.now()))
	require.Equal(t, "expired", list[1].State(clock.now().Add(time.Hour)))

	clock.add(time.Minute)
	revoked, err := s.Revoke("one")
	require.NoError(t, err)
	require.Equal(t, clock.now(), revoked.RevokedAt)
	require.Equal(t, "revoked", revoked.State(clock.now()))
	at := clock.now()
	clock.add(time.Minute)
	revoked, err = s.Revoke(first.ID) // a second revocation keeps the time of the first
	require.NoError(t, err)
	require.Equal(t, at, revoked.RevokedAt)
	revoked, err = s.Revoke(second.ID)
	require.NoError(t, err)
	require.Equal(t, "two", revoked.Name)
}

func TestTimesAreKeptInSeconds(t *testing.T) {
	s, clock := newStore(t)
	clock.add(time.Second / 2)
	made := create(t, s, "one", clock.now().Add(time.Nanosecond).In(time.FixedZone("", 3600)))
	require.Equal(t, clock.now().Add(-time.Second/2), made.CreatedAt)
	require.Equal(t, clock.now().Add(time.Second/2), made.Expires, "no token expires before the requested time")
	made = create(t, s, "two", made.Expires)
	require.Equal(t, clock.now().Add(time.Second/2), made.Expires)
}

func TestNamesAreUniqueUntilRevoked(t *testing.T) {
	s, _ := newStore(t)
	first := create(t, s, "one", time.Time{})
	_, err := s.Create(TokenSpec{Name: "one", Grants: first.Grants})
	require.ErrorContains(t, err, `a token "one" already exists`)
	_, err = s.Revoke("one")
	require.NoError(t, err)
	again := create(t, s, "one", time.Time{})
	revoked, err := s.Revoke("one") // revokes the token that is still active
	require.NoError(t, err)
	require.Equal(t, again.ID, revoked.ID)
	_, err = s.Revoke("one")
	require.ErrorContains(t, err, "no token has")
}

func TestInvalidTokensAreNotCreated(t *testing.T) {
	s, clock := newStore(t)
	good := []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}
	for want, n := range map[string]TokenSpec{
		"is not a valid name":  {Name: "No", Grants: good},
		"no grants":            {Name: "a"},
		"no scope":             {Name: "a", Grants: []Grant{{Ledgers: []string{"default"}}}},
		"not in the future":    {Name: "a", Grants: good, Expires: clock.now()},
		"the name of a ledger": {Name: "a", Grants: []Grant{{Ledgers: []string{"A"}, Scopes: ScopeRead}}},
	} {
		_, err := s.Create(n)
		require.ErrorContains(t, err, want)
	}
	_, err := s.Revoke("a")
	require.ErrorContains(t, err, "there are no tokens")
	require.NoDirExists(t, s.Dir, "a refused call creates nothing")
}

func TestTheStoreIsPrivate(t *testing.T) {
	s, _ := newStore(t)
	made := create(t, s, "one", time.Time{})
	for name, mode := range map[string]fs.FileMode{".": 0o700, tokensFile: 0o600, lockFile: 0o600} {
		info, err := os.Stat(filepath.Join(s.Dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, tokensFile))
	require.NoError(t, err)
	require.NotContains(t, string(text), made.Text[len("colophon_")+17:])

	for name, modes := range map[string][2]fs.FileMode{".": {0o750, 0o700}, tokensFile: {0o604, 0o600}} {
		path := filepath.Join(s.Dir, name)
		require.NoError(t, os.Chmod(path, modes[0]))
		_, err = s.List()
		require.ErrorContains(t, err, fmt.Sprintf("run: chmod %o", modes[1]))
		_, err = s.Revoke("one")
		require.ErrorContains(t, err, "chmod")
		require.NoError(t, os.Chmod(path, modes[1]))
	}
	_, err = s.List()
	require.NoError(t, err)
}

// If several processes change the store at the same time, no change is lost. Each TokenStore in
// this test opens the lock file itself, as a separate process would.
func TestNoWriterLosesAnothersChange(t *testing.T) {
	s, _ := newStore(t)
	const writers, each = 4, 5
	grants := []Grant{{Ledgers: []string{"default"}, Scopes: ScopeWrite}}
	var group errgroup.Group
	for w := range writers {
		group.Go(func() error {
			own := TokenStore{Dir: s.Dir, Now: s.Now}
			for i := range each {
				if _, err := own.Create(TokenSpec{Name: fmt.Sprintf("w%d-%d", w, i), Grants: grants}); err != nil {
					return err
				}
				if i == 0 {
					continue
				}
				if _, err := own.Revoke(fmt.Sprintf("w%d-%d", w, i-1)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	list, err := s.List()
	require.NoError(t, err)
	require.Len(t, list, writers*each)
	active := 0
	for _, l := range list {
		if l.RevokedAt.IsZero() {
			active++
			require.True(t, strings.HasSuffix(l.Name, fmt.Sprint("-", each-1)), l.Name)
		}
	}
	require.Equal(t, writers, active)
}

func TestAChangeThatCannotBeWritten(t *testing.T) {
	s, _ := newStore(t)
	create(t, s, "one", time.Time{})
	// A folder at its path blocks the new tokens file.
	next := filepath.Join(s.Dir, tokensFile+".next")
	require.NoError(t, os.MkdirAll(filepath.Join(next, "x"), 0o700))
	_, err := s.Revoke("one")
	require.ErrorContains(t, err, "writing the tokens")
	list, err := s.List()
	require.NoError(t, err)
	require.True(t, list[0].RevokedAt.IsZero())
	// A file that an interrupted change has left behind does not prevent the next change.
	require.NoError(t, os.RemoveAll(next))
	require.NoError(t, os.WriteFile(next, []byte("half"), 0o644))
	_, err = s.Revoke("one")
	require.NoError(t, err)
	require.NoFileExists(t, next)
	// A folder at its path blocks the lock file.
	require.NoError(t, os.Remove(filepath.Join(s.Dir, lockFile)))
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir, lockFile), 0o700))
	_, err = s.Revoke("one")
	require.Error(t, err)
}

func TestAStoreThatCannotBeMade(t *testing.T) {
	s, _ := newStore(t)
	data := filepath.Dir(s.Dir)
	grants := []Grant{{Ledgers: []string{"default"}, Scopes: ScopeRead}}
	require.NoError(t, os.WriteFile(data, nil, 0o600))
	_, err := s.Create(TokenSpec{Name: "one", Grants: grants})
	require.ErrorContains(t, err, "creating the token folder")
	_, err = Open(Config{Dir: s.Dir})
	require.ErrorContains(t, err, "checking for the token folder")
	require.NoError(t, os.Remove(data))
	// Create fails if the token folder is a dangling link.
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.Symlink("nowhere", s.Dir))
	_, err = s.Create(TokenSpec{Name: "one", Grants: grants})
	require.Error(t, err)
}

// drawToken generates a valid stored token.
func drawToken(t *rapid.T, i int) Token {
	text, id := newTokenText()
	at := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
	stored := Token{
		ID: id, Name: fmt.Sprintf("n%d", i), SHA256: digestOf(text), CreatedAt: at,
		Grants: []Grant{{Ledgers: []string{rapid.SampledFrom([]string{"default", AllLedgers}).Draw(t, "ledger")}, Scopes: Scopes(rapid.Uint8Range(1, uint8(AllScopes)).Draw(t, "scopes"))}},
	}
	if rapid.Bool().Draw(t, "expires") {
		stored.Expires = at.Add(time.Hour)
	}
	if rapid.Bool().Draw(t, "revoked") {
		stored.RevokedAt = at.Add(time.Minute)
	}
	return stored
}

func TestTokensFileReadsWhatItWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := make([]Token, rapid.IntRange(0, 5).Draw(t, "tokens"))
		for i := range tokens {
			tokens[i] = drawToken(t, i)
		}
		text, err := encodeTokens(tokens)
		require.NoError(t, err)
		read, err := parseTokens(text)
		require.NoError(t, err)
		require.Equal(t, tokens, read)
	})
}

// validTokens is a tokens file with one token.
const validTokens = `{"version":1,"tokens":[{"id":"abcdefghijklmnop","name":"one",` +
	`"sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",` +
	`"grants":[{"ledgers":["default"],"scopes":["read"]}],"created":"2026-01-01T00:00:00Z"}]}`

func TestDamagedTokensFiles(t *testing.T) {
	_, err := parseTokens([]byte(validTokens))
	require.NoError(t, err)
	edit := func(old, changed string) string {
		text := strings.Replace(validTokens, old, changed, 1)
		require.NotEqual(t, validTokens, text)
		return text
	}
	one := validTokens[strings.Index(validTokens, `{"id"`) : len(validTokens)-2]
	for name, text := range map[string]string{
		"empty":             "",
		"cut short":         validTokens[:len(validTokens)-1],
		"more than one":     validTokens + "{}",
		"no object":         "[]",
		"another version":   edit(`"version":1`, `"version":2`),
		"no version":        edit(`"version":1,`, ""),
		"unknown member":    edit(`"name"`, `"nmae"`),
		"member twice":      edit(`"name":"one"`, `"name":"one","name":"two"`),
		"revoked twice":     edit(`"created"`, `"revoked":"2026-01-02T00:00:00Z","revoked":null,"created"`),
		"bad id":            edit("abcdefghijklmnop", "abc"),
		"bad name":          edit(`"one"`, `"One"`),
		"anonymous":         edit(`"one"`, `"anonymous"`),
		"short hash":        edit("0123456789abcdef", ""),
		"hash with letters": edit("0123456789abcdef", "0123456789abcdeg"),
		"no hash":           edit(strings.Repeat("0123456789abcdef", 4), strings.Repeat("0", 64)),
		"no time":           edit(`,"created":"2026-01-01T00:00:00Z"`, ""),
		"no grants":         edit(`[{"ledgers":["default"],"scopes":["read"]}]`, "[]"),
		"no scopes":         edit(`["read"]`, "[]"),
		"unknown scope":     edit(`["read"]`, `["root"]`),
		"bad ledger":        edit(`["default"]`, `["Default"]`),
		"id twice":          edit(one, one+","+strings.Replace(one, `"one"`, `"two"`, 1)),
		"name twice":        edit(one, one+","+strings.Replace(one, "abcdefghijklmnop", "bbcdefghijklmnop", 1)),
		"no UTF-8":          edit(`"one"`, "\"\xff\""),
	} {
		_, err := parseTokens([]byte(text))
		require.Error(t, err, name)
	}
	text := edit(one, one+","+strings.Replace(strings.Replace(one, "abcdefghijklmnop", "bbcdefghijklmnop", 1), `"created"`, `"revoked":"2026-01-02T00:00:00Z","created"`, 1))
	_, err = parseTokens([]byte(text))
	require.NoError(t, err, "a token may have the name of a revoked token")
}

func FuzzTokensFile(f *testing.F) {
	f.Add([]byte(validTokens))
	f.Add([]byte(`{"version":1,"tokens":[]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tokens, err := parseTokens(text)
		if err != nil {
			return
		}
		for i := range tokens {
			require.NoError(t, tokens[i].check())
		}
		again, err := encodeTokens(tokens)
		require.NoError(t, err)
		read, err := parseTokens(again)
		require.NoError(t, err)
		require.Len(t, read, len(tokens))
	})
}

// After Clear, the previous tokens are refused, but every request still needs a token.
func TestAClearedStoreAcceptsNothing(t *testing.T) {
	b := open(t, Rules{})
	made := b.token("one")
	b.accepts(with("Bearer "+made.Text), "one")
	require.NoError(t, b.store.Clear())
	b.refuses(with("Bearer "+made.Text), "no token has the id")
	b.reopen(Rules{})
	require.True(t, b.RequiresIdentity())
	fresh := b.token("one")
	b.accepts(with("Bearer "+fresh.Text), "one")
}

// Whether a token has expired depends only on the current clock, even if the clock is set back. A
// revoked token stays revoked.
func TestTokensAndAClockThatJumps(t *testing.T) {
	b := open(t, Rules{})
	made, err := b.store.Create(TokenSpec{Name: "one", Grants: []Grant{{Ledgers: []string{AllLedgers}, Scopes: ScopeRead}}, Expires: b.clock.now().Add(time.Hour)})
	require.NoError(t, err)
	b.accepts(with("Bearer "+made.Text), "one")
	b.clock.add(2 * time.Hour)
	b.refuses(with("Bearer "+made.Text), "is expired")
	b.clock.add(-2 * time.Hour)
	b.accepts(with("Bearer "+made.Text), "one")
	b.clock.add(time.Minute)
	_, err = b.store.Revoke("one")
	require.NoError(t, err)
	for _, jump := range []time.Duration{-24 * time.Hour, 48 * time.Hour, -72 * time.Hour} {
		b.clock.add(jump)
		b.refuses(with("Bearer "+made.Text), "is revoked")
		b.reopen(Rules{})
		b.refuses(with("Bearer "+made.Text), "is revoked")
	}
}
