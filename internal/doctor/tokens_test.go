package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/internal/datadir"
)

// makeToken creates a token, using at as its creation time.
func makeToken(t testing.TB, data string, at time.Time, name string, scopes access.Scopes, ledger string, expires time.Time) access.CreatedToken {
	t.Helper()
	store := access.TokenStore{Dir: datadir.TokenFolder(data), Now: func() time.Time { return at }}
	made, err := store.Create(access.TokenSpec{Name: name, Grants: []access.Grant{{Ledgers: []string{ledger}, Scopes: scopes}}, Expires: expires})
	require.NoError(t, err)
	return made
}

func TestCheckTokens(t *testing.T) {
	day := 24 * time.Hour
	yesterday := testNow.Add(-day)
	for _, c := range []struct {
		name    string
		made    time.Time
		scopes  access.Scopes
		expires time.Time
		verdict Verdict
		words   string
	}{
		{"good", yesterday, access.ScopeWrite, time.Time{}, VerdictOK, "1 token valid: robot"},
		{"administrator that expires", yesterday, access.ScopeAdmin, testNow.Add(90 * day), VerdictOK, "1 token"},
		{"administrator forever", yesterday, access.ScopeAdmin | access.ScopeRead, time.Time{}, VerdictAdvice, "has the scope admin and never expires"},
		{"ends soon", yesterday, access.ScopeRead, testNow.Add(3 * day), VerdictAdvice, "expires on 2026-03-04"},
		{"never used", testNow.Add(-60 * day), access.ScopeRead, time.Time{}, VerdictAdvice, "was never used"},
		{"expired", testNow.Add(-2 * day), access.ScopeRead, yesterday, VerdictAdvice, "expired on 2026-02-28"},
		{"no valid token", testNow.Add(-2 * day), access.ScopeRead, yesterday, VerdictWrong, "the server refuses all requests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDeployment(t)
			requireFinding(t, checkTokens(d), VerdictOK, "no tokens exist")
			made := makeToken(t, d.data(), c.made, "robot", c.scopes, access.AllLedgers, c.expires)
			list := checkTokens(d)
			requireFinding(t, list, c.verdict, c.words)
			text, err := json.Marshal(list)
			require.NoError(t, err)
			require.NotContains(t, string(text), made.Text)
		})
	}
}

func TestCheckTokensUsedLongAgo(t *testing.T) {
	d := newDeployment(t)
	made := makeToken(t, d.data(), testNow.AddDate(0, -6, 0), "robot", access.ScopeWrite, "default", time.Time{})
	uses := `{"last_use":{"` + made.ID + `":"2025-12-24T00:00:00Z"}}`
	require.NoError(t, os.WriteFile(filepath.Join(datadir.TokenFolder(d.data()), "last-use.json"), []byte(uses), 0o600))
	requireFinding(t, checkTokens(d), VerdictAdvice, `token "robot" (write) was last used on 2025-12-24`)
}

func TestCheckTokensWhoseFileIsDamaged(t *testing.T) {
	skipWithoutModes(t)
	d := newDeployment(t)
	makeToken(t, d.data(), testNow, "robot", access.ScopeWrite, "default", time.Time{})
	path := filepath.Join(datadir.TokenFolder(d.data()), "tokens.json")
	require.NoError(t, os.Chmod(path, 0o644))
	requireFinding(t, checkTokens(d), VerdictWrong, "chmod 600")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	requireFinding(t, checkTokens(d), VerdictWrong, "tokens.json")
	require.NoError(t, os.Remove(path))
	requireFinding(t, checkTokens(d), VerdictWrong, "is missing")
}
