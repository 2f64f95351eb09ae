package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goodRules = `
oidc:
  - issuer: https://id.example.org
    audience: colophon
    name_claim: email
    rules:
      - {claim: groups, value: writers, ledgers: [default], scopes: [write, read]}
      - {claim: iss, value: "https://id.example.org", ledgers: ["*"], scopes: [log]}
mtls:
  - {subject: "CN=pipeline,O=Example", name: pipeline, ledgers: [default], scopes: [write]}
  - {san: "dns:witness.example.org", name: witness, ledgers: ["*"], scopes: [log]}
`

func TestRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.yaml")
	require.NoError(t, os.WriteFile(path, []byte(goodRules), 0o600))
	rules, err := ReadRules(path)
	require.NoError(t, err)
	require.Equal(t, Rules{
		OIDC: []IssuerRule{{Issuer: "https://id.example.org", Audience: "colophon", NameClaim: "email", ClaimRules: []ClaimRule{
			{Claim: "groups", Value: "writers", Ledgers: []string{"default"}, Scopes: []string{"write", "read"}},
			{Claim: "iss", Value: "https://id.example.org", Ledgers: []string{"*"}, Scopes: []string{"log"}},
		}}},
		MTLS: []CertificateRule{
			{Subject: "CN=pipeline,O=Example", Name: "pipeline", Ledgers: []string{"default"}, Scopes: []string{"write"}},
			{SAN: "dns:witness.example.org", Name: "witness", Ledgers: []string{"*"}, Scopes: []string{"log"}},
		},
	}, rules)
	b := open(t, rules)
	require.True(t, b.RequiresIdentity())
	require.Equal(t, "OIDC from https://id.example.org, client certificates", b.Summary())
	b.token("one")
	require.Equal(t, "1 token, OIDC from https://id.example.org, client certificates", b.Summary())

	empty, err := ParseRules(nil)
	require.NoError(t, err)
	require.Zero(t, empty)
}

func TestWrongRulesNameThePlace(t *testing.T) {
	for change, want := range map[string]string{
		"issuer: https://id.example.org => issuer: id.example.org":                   `oidc[0].issuer: "id.example.org" is not an https URL`,
		"issuer: https://id.example.org => issuer: http://id.example.org":            `oidc[0].issuer: "http://id.example.org" is not an https URL`,
		"issuer: https://id.example.org => issuer: https://a:b@id.example.org":       `oidc[0].issuer: `,
		"issuer: https://id.example.org => issuer: https://id.example.org?a=b":       `oidc[0].issuer: `,
		"issuer: https://id.example.org => issuer: \"https://%\"":                    `oidc[0].issuer: `,
		"audience: colophon => audience: ":                                           `oidc[0].audience: this setting is required`,
		"audience: colophon => {}":                                                   "line",
		"audience: colophon => audiences: colophon":                                  "line 4: field audiences not found",
		"audience: colophon => audience: [a]":                                        "line 4: cannot unmarshal",
		"name_claim: email => name: A":                                               `oidc[0].name: "A" is not a valid name`,
		"claim: groups,  => ":                                                        `oidc[0].rules[0]: both "claim" and "value" are required`,
		"value: writers,  => ":                                                       `oidc[0].rules[0]: both "claim" and "value" are required`,
		"scopes: [write, read] => scopes: [wirte]":                                   `oidc[0].rules[0]: "wirte" is not a scope`,
		`ledgers: ["*"], scopes: [log]} => scopes: [log]}`:                           `oidc[0].rules[1]: no ledgers are listed`,
		"name: pipeline, => name: Pipeline,":                                         `mtls[0].name: "Pipeline" is not a valid name`,
		`subject: "CN=pipeline,O=Example",  => `:                                     `mtls[0]: exactly one of "subject" and "san" is required`,
		`subject: "CN=pipeline,O=Example", => subject: "CN=pipeline", san: "dns:a",`: `mtls[0]: exactly one of "subject" and "san" is required`,
		"dns:witness.example.org => witness.example.org":                             `mtls[1].san: "witness.example.org" must have one of the forms dns:NAME`,
		"dns:witness.example.org => dns:":                                            `mtls[1].san: "dns:" must have one of`,
		"ledgers: [default], scopes: [write]} => ledgers: [default], scopes: []}":    `mtls[0]: no scopes are listed`,
		"mtls: => --- {}\nmtls:":                                                     "more than one YAML document",
		"mtls: => mtls: &a [*a]\nx:":                                                 "",
	} {
		old, changed, _ := strings.Cut(change, " => ")
		text := strings.Replace(goodRules, old, changed, 1)
		require.NotEqual(t, goodRules, text, change)
		_, err := ParseRules([]byte(text))
		require.ErrorContains(t, err, want, change)
		require.NotContains(t, err.Error(), "access.", change)
	}
	_, err := ParseRules([]byte("oidc:\n  - {issuer: \"https://a.example\", audience: a}\n"))
	require.ErrorContains(t, err, "oidc[0].rules: the list is empty")
}

func TestSeveralIssuersHaveNames(t *testing.T) {
	issuer := func(url, name string) IssuerRule {
		return IssuerRule{Issuer: url, Audience: "a", Name: name, ClaimRules: []ClaimRule{{Claim: "sub", Value: "x", Ledgers: []string{"a"}, Scopes: []string{"read"}}}}
	}
	require.NoError(t, Rules{OIDC: []IssuerRule{issuer("https://a.example", "")}}.check())
	require.NoError(t, Rules{OIDC: []IssuerRule{issuer("https://a.example", "a"), issuer("https://b.example", "b")}}.check())
	require.ErrorContains(t, Rules{OIDC: []IssuerRule{issuer("https://a.example", "a"), issuer("https://b.example", "")}}.check(), "oidc[1].name")
	require.ErrorContains(t, Rules{OIDC: []IssuerRule{issuer("https://a.example", "a"), issuer("https://b.example", "a")}}.check(), "oidc[1]: an earlier entry")
	require.ErrorContains(t, Rules{OIDC: []IssuerRule{issuer("https://a.example", "a"), issuer("https://a.example", "b")}}.check(), "oidc[1]: an earlier entry")
}

func TestTrustworthyURLs(t *testing.T) {
	for url, want := range map[string]bool{
		"https://id.example.org": true, "https://id.example.org/realms/x/": true, "http://localhost:9000": true, "http://127.0.0.1": true, "http://[::1]:80/x": true,
		"": false, "https://": false, "http://id.example.org": false, "http://localhost.example.org": false, "ftp://localhost": false, "id.example.org": false, "https://a#b": false,
	} {
		require.Equal(t, want, trustworthy(url), url)
	}
}

func TestFilesOfRulesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadRules(filepath.Join(dir, "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadRules(dir)
	require.Error(t, err)
	long := filepath.Join(dir, "long.yaml")
	require.NoError(t, os.WriteFile(long, make([]byte, maxRulesFile+1), 0o600))
	_, err = ReadRules(long)
	require.ErrorContains(t, err, "longer than")
}

func FuzzRules(f *testing.F) {
	f.Add([]byte(goodRules))
	f.Add([]byte("oidc: []\nmtls: []"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rules, err := ParseRules(text)
		if err != nil {
			return
		}
		for _, r := range certificateRules(rules.MTLS) {
			require.NotZero(t, r.grant.Scopes)
			require.NotEqual(t, r.subject == "", r.san == "")
		}
		for _, o := range rules.OIDC {
			require.True(t, trustworthy(o.Issuer))
		}
	})
}
