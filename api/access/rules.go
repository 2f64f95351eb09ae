package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"colophon/internal/safefile"
)

// Rules grant scopes to tokens of OpenID Connect issuers and to client certificates. The
// grants of all matching rules add up.
type Rules struct {
	OIDC []IssuerRule      `yaml:"oidc"`
	MTLS []CertificateRule `yaml:"mtls"`
}

// IssuerRule configures an issuer. Its ID tokens, and its access tokens if they are JWTs, are
// accepted.
type IssuerRule struct {
	// Issuer is the issuer's URL, exactly as in its tokens and its discovery document,
	// including a final slash if they have one. It must be https, except on this machine.
	Issuer string `yaml:"issuer"`
	// Audience must be one of the audiences of a token.
	Audience string `yaml:"audience"`
	// Name distinguishes several issuers: actors then have the names "oidc:<name>:<claim>".
	Name string `yaml:"name"`
	// NameClaim is the claim that names the actor. The issuer must never give the same value
	// to two people. The default is sub.
	NameClaim string `yaml:"name_claim"`
	// ConsoleClientID is the public client with which the console signs people in, by the authorization code
	// flow with PKCE. Without it, the console does not offer this sign-in.
	ConsoleClientID string      `yaml:"console_client_id"`
	Rules           []ClaimRule `yaml:"rules"`
}

// ClaimRule grants scopes to tokens that have a value in a claim: as the claim itself, as an
// element of its list or, for the claim scope, as one of its words. A token that matches no
// rule is authenticated but has no scopes.
type ClaimRule struct {
	Claim   string   `yaml:"claim"`
	Value   string   `yaml:"value"`
	Ledgers []string `yaml:"ledgers"`
	Scopes  []string `yaml:"scopes"`
}

// CertificateRule grants scopes to a client certificate.
type CertificateRule struct {
	// Subject is the whole distinguished name in the form of RFC 2253.
	Subject string `yaml:"subject"`
	// SAN is a subject alternative name of the certificate: dns:, email:, ip: or uri:,
	// followed by the name. Exactly one of Subject and SAN is set.
	SAN string `yaml:"san"`
	// Name gives the actor the name "mtls:<name>". If several rules match, the first rule
	// determines the name, and all rules with this name add their grants.
	Name    string   `yaml:"name"`
	Ledgers []string `yaml:"ledgers"`
	Scopes  []string `yaml:"scopes"`
}

// maxRulesFile is the maximum length of a file of rules, in bytes.
const maxRulesFile = 1 << 20

// ReadRules reads and checks a YAML file of rules. The error names every entry that is wrong.
func ReadRules(path string) (Rules, error) {
	if err := safefile.CheckUserFile(path, false); err != nil {
		return Rules{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return Rules{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxRulesFile+1))
	if err != nil {
		return Rules{}, err
	}
	if len(text) > maxRulesFile {
		return Rules{}, fmt.Errorf("the file is longer than %d bytes", maxRulesFile)
	}
	return ParseRules(text)
}

// goType matches the Go types in errors of the YAML package. They mean nothing to the author
// of the file.
var goType = regexp.MustCompile(` in type access\.\w+| into access\.\w+| into \[\]access\.\w+`)

// ParseRules parses and checks the text of a file of rules.
func ParseRules(text []byte) (Rules, error) {
	var rules Rules
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(&rules)
	if wrong := (*yaml.TypeError)(nil); errors.As(err, &wrong) {
		return Rules{}, errors.New(goType.ReplaceAllString(strings.Join(wrong.Errors, "; "), ""))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return Rules{}, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Rules{}, errors.New("the file has more than one YAML document")
	}
	return rules, rules.check()
}

// check returns all errors in the rules.
func (r Rules) check() error {
	var errs []error
	issuers, names := make(map[string]bool), make(map[string]bool)
	for i, o := range r.OIDC {
		place := fmt.Sprintf("oidc[%d]", i)
		errs = append(errs, o.check(place, len(r.OIDC) > 1))
		if issuers[o.Issuer] || o.Name != "" && names[o.Name] {
			errs = append(errs, fmt.Errorf("%s: an earlier entry has the same issuer or name; merge the rules into one entry", place))
		}
		issuers[o.Issuer], names[o.Name] = true, true
	}
	for i, c := range r.MTLS {
		errs = append(errs, c.check(fmt.Sprintf("mtls[%d]", i)))
	}
	return errors.Join(errs...)
}

func (o IssuerRule) check(place string, several bool) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(place+"."+format, args...)) }
	if !trustworthy(o.Issuer) {
		wrong("issuer: %q is not an https URL like https://id.example.org", o.Issuer)
	}
	if o.Audience == "" {
		wrong("audience: is missing; give the value of aud in the issuer's tokens for this server")
	}
	if several || o.Name != "" {
		if err := checkName(o.Name); err != nil {
			wrong("name: %w (with several issuers, each needs a name)", err)
		}
	}
	if len(o.Rules) == 0 {
		wrong("rules: is empty, so no token has any scope; add a rule")
	}
	for i, rule := range o.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		if rule.Claim == "" || rule.Value == "" {
			wrong("%s: claim and value must both be given", at)
		}
		if _, err := grantOf(rule.Ledgers, rule.Scopes); err != nil {
			wrong("%s: %w", at, err)
		}
	}
	return errors.Join(errs...)
}

// trustworthy reports whether no one on the network path can impersonate the server of a URL.
func trustworthy(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && local(u)
}

// local reports whether a URL points to this machine.
func local(u *url.URL) bool {
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.IsLoopback()
}

func (c CertificateRule) check(place string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(place+format, args...)) }
	if (c.Subject == "") == (c.SAN == "") {
		wrong(": either subject or san must be given")
	}
	if kind, name, _ := strings.Cut(c.SAN, ":"); c.SAN != "" && (name == "" || !sanKinds[kind]) {
		wrong(".san: %q must be one of dns:NAME, email:ADDRESS, ip:ADDRESS and uri:URI", c.SAN)
	}
	if err := checkName(c.Name); err != nil {
		wrong(".name: %w", err)
	}
	if _, err := grantOf(c.Ledgers, c.Scopes); err != nil {
		wrong(": %w", err)
	}
	return errors.Join(errs...)
}

// grantOf returns the grant that a rule's ledgers and scopes describe. It returns an error if
// they are not valid.
func grantOf(ledgers, scopes []string) (Grant, error) {
	set, err := ParseScopes(scopes...)
	g := Grant{Ledgers: ledgers, Scopes: set}
	if err == nil {
		err = g.check()
	}
	return g, err
}
