package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
)

// sanKinds is the set of supported kinds of subject alternative names.
var sanKinds = map[string]bool{"dns": true, "email": true, "ip": true, "uri": true}

// certificateRule is a CertificateRule after validation.
type certificateRule struct {
	subject, san string // exactly one is set
	name         string
	grant        Grant
}

// certificateRules converts rules, which Rules.check must have accepted, to their internal form.
func certificateRules(rules []CertificateRule) []certificateRule {
	list := make([]certificateRule, len(rules))
	for i, r := range rules {
		grant, _ := grantOf(r.Ledgers, r.Scopes)
		list[i] = certificateRule{subject: r.Subject, san: foldSAN(r.SAN), name: r.Name, grant: grant}
	}
	return list
}

// matchCertificate returns the identity that the rules assign to a verified certificate. It returns
// an error if no rule matches.
func matchCertificate(rules []certificateRule, leaf *x509.Certificate) (*Identity, error) {
	subject, err := subjectOf(leaf)
	if err != nil {
		return nil, err
	}
	names := sansOf(leaf)
	var name string
	var grants []Grant
	for _, r := range rules {
		matches := r.subject != "" && r.subject == subject || r.san != "" && slices.Contains(names, r.san)
		if matches && (name == "" || name == r.name) {
			name = r.name
			grants = append(grants, r.grant)
		}
	}
	if name == "" {
		return nil, fmt.Errorf("no rule matches the client certificate: its subject is %q, and its subject alternative names are %q", subject, names)
	}
	return &Identity{Actor: "mtls:" + name, Grants: grants}, nil
}

// subjectOf returns the distinguished name of a certificate in the form of RFC 2253. It decodes the
// raw subject, because pkix.Name does not preserve the order of attributes or repeated attributes.
func subjectOf(leaf *x509.Certificate) (string, error) {
	var name pkix.RDNSequence
	if _, err := asn1.Unmarshal(leaf.RawSubject, &name); err != nil {
		return "", fmt.Errorf("reading the subject of the client certificate: %w", err)
	}
	return name.String(), nil
}

// sansOf returns the subject alternative names of a certificate, each in the form of
// CertificateRule.SAN.
func sansOf(leaf *x509.Certificate) []string {
	var names []string
	for _, name := range leaf.DNSNames {
		names = append(names, foldSAN("dns:"+name))
	}
	for _, address := range leaf.EmailAddresses {
		names = append(names, "email:"+address)
	}
	for _, address := range leaf.IPAddresses {
		names = append(names, "ip:"+address.String())
	}
	for _, u := range leaf.URIs {
		names = append(names, "uri:"+u.String())
	}
	return names
}

// foldSAN converts a host name to lower case, because host names are case-insensitive. It returns
// other kinds of names unchanged.
func foldSAN(name string) string {
	if strings.HasPrefix(name, "dns:") {
		return strings.ToLower(name)
	}
	return name
}
