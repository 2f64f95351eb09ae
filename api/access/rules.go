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

// Rules grant scopes to tokens of OpenID Connect issuers and to client certificates. A caller gets
// the grants of all rules that match it.
type Rules struct {
	OIDC []IssuerRule      `yaml:"oidc"` // rules for tokens, one for each trusted issuer
	MTLS []CertificateRule `yaml:"mtls"` // rules for client certificates
}

// IssuerRule configures an issuer that the server trusts. The server accepts the issuer's ID tokens
// and, if they are JWTs, its access tokens.
type IssuerRule struct {
	// Issuer is the issuer's URL, exactly as in its tokens and its discovery document, including a
	// final slash if they have one. It must be an https URL, unless the issuer runs on this
	// machine.
	Issuer string `yaml:"issuer"`
	// Audience is the audience for which a token must have been issued. A token may name other
	// audiences, too.
	Audience string `yaml:"audience"`
	// Name distinguishes the actors of this issuer from those of other issuers. If it is set,
	// actors are named "oidc:<name>:<claim>".
	Name string `yaml:"name"`
	// NameClaim is the claim that contains the actor's name. The issuer must never assign the same
	// value to two people. The default is sub.
	NameClaim string `yaml:"name_claim"`
	// ConsoleClientID is the ID of the public client that the console uses to sign people in, with the
	// authorization code flow and PKCE. If it is empty, the console does not offer to sign in with this
	// issuer.
	ConsoleClientID string      `yaml:"console_client_id"`
	ClaimRules      []ClaimRule `yaml:"rules"` // rules that grant scopes to the issuer's tokens
}

// ClaimRule grants scopes to tokens in which a claim has a given value. The value can also be an
// element of a list or, in the scope claim, one of the words. A token that matches no rule is
// authenticated but has no scopes.
type ClaimRule struct {
	Claim   string   `yaml:"claim"`   // name of the claim
	Value   string   `yaml:"value"`   // value that the claim must have or contain
	Ledgers []string `yaml:"ledgers"` // names of the ledgers, or AllLedgers
	Scopes  []string `yaml:"scopes"`  // names of the scopes
}

// CertificateRule grants scopes to a client certificate.
type CertificateRule struct {
	// Subject is the complete distinguished name of the certificate, in the format of RFC 2253.
	Subject string `yaml:"subject"`
	// SAN is a subject alternative name of the certificate, with the prefix "dns:", "email:",
	// "ip:", or "uri:". Exactly one of Subject and SAN is set.
	SAN string `yaml:"san"`
	// Name determines the name of the actor, "mtls:<name>". If several rules match, the first one
	// determines the name, and the actor gets the grants of all matching rules with that name.
	Name    string   `yaml:"name"`
	Ledgers []string `yaml:"ledgers"` // names of the ledgers, or AllLedgers
	Scopes  []string `yaml:"scopes"`  // names of the scopes
}

// maxRulesFile is the maximum length of a rules file, in bytes.
const maxRulesFile = 1 << 20

// ReadRules reads and validates a YAML rules file. The error lists every invalid entry.
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

// goType matches the names of Go types in errors from the YAML package. They are removed because
// they mean nothing to the author of the file.
var goType = regexp.MustCompile(` in type access\.\w+| into access\.\w+| into \[\]access\.\w+`)

// ParseRules parses and validates the text of a rules file.
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

// check returns an error that lists everything that is wrong with the rules.
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
		wrong("issuer: %q is not an https URL such as https://id.example.org", o.Issuer)
	}
	if o.Audience == "" {
		wrong("audience: this setting is required; use the value of the claim \"aud\" in the issuer's tokens for this server")
	}
	if several || o.Name != "" {
		if err := checkName(o.Name); err != nil {
			wrong("name: %w (with several issuers, each needs a name)", err)
		}
	}
	if len(o.ClaimRules) == 0 {
		wrong("rules: the list is empty, so no token has any scope; add a rule")
	}
	for i, rule := range o.ClaimRules {
		at := fmt.Sprintf("rules[%d]", i)
		if rule.Claim == "" || rule.Value == "" {
			wrong(`%s: both "claim" and "value" are required`, at)
		}
		if _, err := grantOf(rule.Ledgers, rule.Scopes); err != nil {
			wrong("%s: %w", at, err)
		}
	}
	return errors.Join(errs...)
}

// trustworthy reports whether text is the URL of a server that no one on the network path can
// impersonate: an https URL, or one that points to this machine.
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
		wrong(`: exactly one of "subject" and "san" is required`)
	}
	if kind, name, _ := strings.Cut(c.SAN, ":"); c.SAN != "" && (name == "" || !sanKinds[kind]) {
		wrong(".san: %q must have one of the forms dns:NAME, email:ADDRESS, ip:ADDRESS, or uri:URI", c.SAN)
	}
	if err := checkName(c.Name); err != nil {
		wrong(".name: %w", err)
	}
	if _, err := grantOf(c.Ledgers, c.Scopes); err != nil {
		wrong(": %w", err)
	}
	return errors.Join(errs...)
}

// grantOf returns the grant described by the ledgers and scopes of a rule, or an error if they are
// not valid.
func grantOf(ledgers, scopes []string) (Grant, error) {
	set, err := ParseScopes(scopes...)
	g := Grant{Ledgers: ledgers, Scopes: set}
	if err == nil {
		err = g.check()
	}
	return g, err
}
