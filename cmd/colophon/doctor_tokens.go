package main

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

// Token hygiene: how long before its end a token is spoken of, and how long one may
// lie unused.
const (
	tokenEndsSoon = 14 * 24 * time.Hour
	tokenUnused   = 30 * 24 * time.Hour
)

// checkTokens: the token file can be read and is its owner's alone; tokens are used,
// end some day, and do not end soon.
func checkTokens(d *doctor) []diagnosis {
	store := access.Store{Dir: datadir.Access(d.data()), Now: func() time.Time { return d.now }}
	tokens, err := store.List()
	if errors.Is(err, fs.ErrPermission) {
		return found(unchecked, asOwner, "%v", err)
	}
	if err != nil {
		return found(wrong, "do what it says; until then the server lets nobody in by a token", "%v", err)
	}
	if len(tokens) == 0 {
		if _, err := os.Stat(datadir.Access(d.data())); err == nil {
			return found(wrong, "restore it from a backup, or make a token; only without its folder nothing is asked for", "the file of tokens is gone from %s, and the server lets nobody in", datadir.Access(d.data()))
		}
		return found(fine, "", "there are none")
	}
	var list []diagnosis
	var active []string
	for _, t := range tokens {
		switch t.State(d.now) {
		case "active":
			active = append(active, t.Name)
			list = append(list, checkToken(t, d.now)...)
		case "expired":
			list = append(list, found(advice, "make its successor if it is needed, then run: colophon token revoke "+t.ID, "token %q ended on %s", t.Name, t.Expires.Format(time.DateOnly))...)
		}
	}
	if len(active) == 0 && d.settings.config.AccessFile == "" {
		list = append(list, found(wrong, "make one: colophon token create --help", "no token holds any more: nobody is let in")...)
	}
	return orFine(list, "%s in force: %s", cli.Counted(uint64(len(active)), "token"), nameList(active))
}

// checkToken judges a token that holds. A token's name is of few harmless characters.
func checkToken(t access.Listed, now time.Time) []diagnosis {
	renew := fmt.Sprintf("make its successor, then run: colophon token revoke %s", t.ID)
	var list []diagnosis
	if !t.Expires.IsZero() && t.Expires.Sub(now) < tokenEndsSoon {
		list = append(list, found(advice, renew, "token %q ends on %s", t.Name, t.Expires.Format(time.DateOnly))...)
	}
	if t.Expires.IsZero() && scopesOf(t)&access.Admin != 0 {
		list = append(list, found(advice, renew+"; give it an end with --expires", "token %q may administer and never ends", t.Name)...)
	}
	lastUse, used := t.LastUse, "was used last on "+t.LastUse.Format(time.DateOnly)
	if lastUse.IsZero() {
		lastUse, used = t.Created, "was never used, as far as is known"
	}
	if now.Sub(lastUse) > tokenUnused {
		list = append(list, found(advice, "if nobody needs it, run: colophon token revoke "+t.ID, "token %q (%s) %s", t.Name, scopesOf(t), used)...)
	}
	return list
}

// scopesOf is what a token may do on some ledger.
func scopesOf(t access.Listed) access.Scopes {
	return (&access.Identity{Grants: t.Grants}).Anywhere()
}

// unknownLedgers are the ledgers that tokens which hold are for and that are not among
// those that there are.
func unknownLedgers(tokens []access.Listed, now time.Time, exists func(name string) bool) []string {
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

// nameList is some names for a sentence.
func nameList(names []string) string { return strings.Join(names, ", ") }
