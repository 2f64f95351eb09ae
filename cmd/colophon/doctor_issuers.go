package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
)

// issuerLimit is how long an issuer may take to answer.
const issuerLimit = 5 * time.Second

// askIssuers asks every issuer of the access file for its discovery document.
func (d *doctor) askIssuers(ctx context.Context) {
	if d.settings.config.AccessFile == "" {
		return
	}
	rules, err := access.ReadRules(d.settings.config.AccessFile)
	if err != nil {
		return // the check of that file says so
	}
	d.issuers = make(map[string]error)
	for _, o := range rules.OIDC {
		d.issuers[o.Issuer] = askIssuer(ctx, o.Issuer)
	}
}

// askIssuer is nil if a discovery document of an issuer is where it should be.
func askIssuer(ctx context.Context, issuer string) error {
	ctx, cancel := context.WithTimeout(ctx, issuerLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return err
	}
	// As the server does: nobody is sent elsewhere.
	asked := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := asked.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", request.URL, response.Status)
	}
	var document struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&document); err != nil {
		return fmt.Errorf("%s is no discovery document: %w", request.URL, err)
	}
	if document.Issuer != issuer {
		return fmt.Errorf("%s is of the issuer %q", request.URL, document.Issuer)
	}
	return nil
}

// checkIssuers: each issuer answers, and as the one that its tokens are to be of.
func checkIssuers(d *doctor) []diagnosis {
	var list []diagnosis
	for _, issuer := range slices.Sorted(maps.Keys(d.issuers)) {
		if err := d.issuers[issuer]; err != nil {
			list = append(list, found(wrong, "correct its name in the access file, or the network; for a private authority set SSL_CERT_FILE, for the server too",
				"the tokens of %s cannot be judged: %v", issuer, err)...)
		}
	}
	if len(d.issuers) == 0 {
		return found(fine, "", "none")
	}
	return orFine(list, "%s: %s", cli.Counted(uint64(len(d.issuers)), "issuer"), nameList(slices.Sorted(maps.Keys(d.issuers))))
}

// trustOwn has a client, of the server on this machine that the settings are of,
// believe that server's own certificate, whoever has signed it and whatever name it is
// for. Where the certificate cannot be read, nothing changes; another check says so.
func (s settings) trustOwn(asked *httpClient) {
	text, err := os.ReadFile(s.config.TLSCert)
	authorities := x509.NewCertPool()
	transport, known := asked.http.Transport.(*http.Transport)
	if err != nil || !known || !authorities.AppendCertsFromPEM(text) {
		return
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12, ServerName: s.ownName(asked.base)}
}

// ownName is a name that the server's certificate holds for: that in the URL, if it
// does.
func (s settings) ownName(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	pair, err := tls.LoadX509KeyPair(s.config.TLSCert, s.config.TLSKey)
	if err != nil || pair.Leaf.VerifyHostname(u.Hostname()) == nil || len(pair.Leaf.DNSNames) == 0 {
		return u.Hostname()
	}
	return pair.Leaf.DNSNames[0]
}
