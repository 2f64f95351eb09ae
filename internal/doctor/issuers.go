package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
)

// Limits on the request for an issuer's discovery document.
const (
	issuerTimeout   = 5 * time.Second
	issuerMaxAnswer = 1 << 20 // in bytes
)

// askIssuers requests the discovery document of every issuer in the access file.
func (d *deployment) askIssuers(ctx context.Context) {
	if d.settings.config.AccessFile == "" {
		return
	}
	rules, err := access.ReadRules(d.settings.config.AccessFile)
	if err != nil {
		return // checkAccessFile reports the error
	}
	d.issuers = make(map[string]error)
	for _, o := range rules.OIDC {
		d.issuers[o.Issuer] = askIssuer(ctx, o.Issuer)
	}
}

// askIssuer returns nil if the issuer serves a discovery document that names the same issuer. Like
// the server, askIssuer does not follow redirects.
func askIssuer(ctx context.Context, issuer string) error {
	ctx, cancel := context.WithTimeout(ctx, issuerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned the status %s", request.URL, response.Status)
	}
	var document struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, issuerMaxAnswer)).Decode(&document); err != nil {
		return fmt.Errorf("%s is not a discovery document: %w", request.URL, err)
	}
	if document.Issuer != issuer {
		return fmt.Errorf("%s names the issuer %q, which differs from the issuer in the access file", request.URL, document.Issuer)
	}
	return nil
}

// checkIssuers checks that each issuer in the access file serves a discovery document that names
// the same issuer.
func checkIssuers(d *deployment) []Finding {
	var list []Finding
	for _, issuer := range slices.Sorted(maps.Keys(d.issuers)) {
		if err := d.issuers[issuer]; err != nil {
			list = append(list, finding(VerdictWrong, "correct the issuer in the access file, or fix the network; for a private certificate authority, set SSL_CERT_FILE for both the server and this command",
				"tokens issued by %s cannot be verified: %v", issuer, err)...)
		}
	}
	if len(d.issuers) == 0 {
		return finding(VerdictOK, "", "none")
	}
	return orOK(list, "%s: %s", cli.FormatCount(uint64(len(d.issuers)), "issuer"), strings.Join(slices.Sorted(maps.Keys(d.issuers)), ", "))
}
