package hostile_test

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// credentials holds the access tokens for a server that requires authentication.
type credentials struct {
	all     string   // a token that permits everything
	narrow  []string // tokens with a single scope each
	invalid []string // invalid values of the Authorization header; "" means that the header is absent
}

// makeTokens creates tokens in a data folder that no server uses yet.
func makeTokens(t *testing.T, data string) *credentials {
	t.Helper()
	create := func(name, scopes string, more ...string) string {
		return strings.TrimSpace(run(t, append([]string{"token", "create", "--data", data, "--name", name, "--scope", scopes}, more...)...))
	}
	c := &credentials{all: create("all", "write,read,content,log,admin,metrics", "--ledger", "*")}
	c.narrow = append(c.narrow, create("metrics", "metrics", "--ledger", "*"))
	for _, scope := range []string{"write", "read", "content", "log", "admin"} {
		c.narrow = append(c.narrow, create(scope, scope), create(scope+"-elsewhere", scope, "--ledger", second))
	}
	revoked := create("revoked", "read")
	run(t, "token", "revoke", "revoked", "--data", data)
	expired := create("short-lived", "read", "--expires", "1ms")
	await(t, func() string {
		if !strings.Contains(run(t, "token", "list", "--data", data, "--json"), `"expired"`) {
			return "the token does not expire"
		}
		return ""
	})
	id, secret := c.all[:strings.LastIndex(c.all, "_")], c.all[strings.LastIndex(c.all, "_")+1:]
	c.invalid = []string{
		"", "Bearer", "Bearer ", "Bearer x", "Bearer " + revoked, "Bearer " + expired, "Bearer\t" + revoked, "Basic " + c.all, "Digest x", c.all,
		"Bearer " + c.all[:len(c.all)-1], "Bearer " + c.all + "x", "Bearer " + strings.ToUpper(c.all), "Bearer " + c.all + " " + c.all,
		"Bearer " + c.all + "," + c.all, "Bearer " + id + "_" + strings.Repeat("a", len(secret)), "Bearer " + id + "_", "Bearer colophon__",
		"Bearer colophon_" + strings.Repeat("_", 50), "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", "Bearer " + strings.Repeat("a.", 5000),
		"Bearer \xff\x00",
	}
	return c
}

// authorize adds random credentials to a request. Most of them permit the request.
func (d *generator) authorize(r *request) {
	if d.credentials == nil || r.has("Authorization") {
		return
	}
	switch d.IntN(12) {
	case 0:
		r.unauthenticated = true
		if header := pick(d, d.credentials.invalid...); header != "" {
			r.header = append(r.header, field{"Authorization", header})
			r.way.garbled = r.way.garbled || strings.ContainsAny(header, "\x00\t") || !utf8.ValidString(header)
		}
	case 1, 2:
		r.header = append(r.header, field{"Authorization", "Bearer " + pick(d, d.credentials.narrow...)})
	default:
		r.header = append(r.header, field{"Authorization", "Bearer " + d.credentials.all})
	}
}

// guarded reports whether an operation always needs valid credentials on a server that requires
// authentication. It excludes the operations of /log, because anyone can read a public log.
func (c *contract) guarded(op *operation) bool {
	scopes, _ := op.Extensions["x-scopes"].(map[string]any)
	return scopes["on"] != nil && scopes["on"] != "log"
}
