package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
)

// The doctor reports a token that expires within tokenExpiresSoon, or that has not been used for
// tokenUnused.
const (
	tokenExpiresSoon = 14 * 24 * time.Hour
	tokenUnused      = 30 * 24 * time.Hour
)

// checkTokens checks that only the owner can read the token file, that all tokens are in use and do
// not expire soon, and that tokens with the scope admin have an expiry time.
func checkTokens(d *deployment) []Finding {
	tokens, err := d.listTokens()
	if errors.Is(err, fs.ErrPermission) {
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	}
	if d.store != nil {
		return finding(VerdictNotChecked, "start the database, or correct --store", "the tokens are in the log's database, which cannot be read")
	}
	if err != nil {
		return finding(VerdictWrong, "fix the reported problem; until then the server accepts no token", "%v", err)
	}
	if len(tokens) == 0 {
		if _, err := os.Stat(datadir.TokenFolder(d.data())); err == nil && d.settings.config.StoreURL != "" {
			return finding(VerdictWrong, "restore the database from a backup, or create a token", "the server had tokens, but the database has none, so the server does not start")
		} else if err == nil {
			return finding(VerdictWrong, "restore the file from a backup, or create a token; do not remove the folder, because the server would then require no credentials", "the token file is missing from %s, so the server accepts no token", datadir.TokenFolder(d.data()))
		}
		return finding(VerdictOK, "", "no tokens exist")
	}
	var list []Finding
	var active []string
	for _, t := range tokens {
		switch t.State(d.now) {
		case "active":
			active = append(active, t.Name)
			list = append(list, checkToken(t, d.now)...)
		case "expired":
			list = append(list, finding(VerdictAdvice, "create a new token if a client still needs one, then run: colophon token revoke "+t.ID, "token %q expired on %s", t.Name, t.Expires.Format(time.DateOnly))...)
		}
	}
	if len(active) == 0 && d.settings.config.AccessFile == "" {
		list = append(list, finding(VerdictWrong, "create a token; see: colophon token create --help", "there is no valid token, so the server refuses all requests")...)
	}
	return orOK(list, "%s valid: %s", cli.FormatCount(uint64(len(active)), "token"), strings.Join(active, ", "))
}

// checkToken reports a valid token that expires soon, that never expires but has the scope admin,
// or that has not been used recently.
func checkToken(t access.ListedToken, now time.Time) []Finding {
	renew := fmt.Sprintf("create a new token for its client, then run: colophon token revoke %s", t.ID)
	var list []Finding
	if !t.Expires.IsZero() && t.Expires.Sub(now) < tokenExpiresSoon {
		list = append(list, finding(VerdictAdvice, renew, "token %q expires on %s", t.Name, t.Expires.Format(time.DateOnly))...)
	}
	if t.Expires.IsZero() && scopesOf(t)&access.ScopeAdmin != 0 {
		list = append(list, finding(VerdictAdvice, renew+"; give the new token an expiry time with --expires", "token %q has the scope admin and never expires", t.Name)...)
	}
	lastUse, used := t.LastUse, "was last used on "+t.LastUse.Format(time.DateOnly)
	if lastUse.IsZero() {
		lastUse, used = t.CreatedAt, "was never used, as far as the server knows"
	}
	if now.Sub(lastUse) > tokenUnused {
		list = append(list, finding(VerdictAdvice, "if no client needs the token, run: colophon token revoke "+t.ID, "token %q (%s) %s", t.Name, scopesOf(t), used)...)
	}
	return list
}

// scopesOf returns the union of the scopes in all of a token's grants.
func scopesOf(t access.ListedToken) access.Scopes {
	return (&access.Identity{Grants: t.Grants}).ScopesOnAnyLedger()
}

// unknownLedgers returns the nonexistent ledgers to which valid tokens refer, each with the name of
// the token.
func unknownLedgers(tokens []access.ListedToken, now time.Time, exists func(name string) bool) []string {
	var missing []string
	for _, t := range tokens {
		if t.State(now) != "active" {
			continue
		}
		for _, g := range t.Grants {
			for _, name := range g.Ledgers {
				if name != access.AllLedgers && !exists(name) {
					missing = append(missing, fmt.Sprintf("%s (token %q)", name, t.Name))
				}
			}
		}
	}
	return missing
}
