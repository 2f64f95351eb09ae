package doctor

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/server"
)

func TestCheckIssuers(t *testing.T) {
	var issuer string
	issuerServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q}`, issuer)
		case "/other/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q}`, issuer)
		case "/text/.well-known/openid-configuration":
			_, _ = io.WriteString(w, "hello")
		default:
			http.Redirect(w, r, "/.well-known/openid-configuration", http.StatusFound)
		}
	}))
	defer issuerServer.Close()
	issuer = issuerServer.URL
	judge := func(url string) []Finding {
		path := filepath.Join(t.TempDir(), "access.yaml")
		text := "oidc:\n  - issuer: " + url + "\n    audience: a\n    rules:\n      - {claim: groups, value: w, ledgers: [default], scopes: [write]}\n"
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		d := newDeployment(t, withConfig(func(c *server.Config) { c.AccessFile = path }))
		d.askIssuers(t.Context())
		return checkIssuers(d)
	}
	requireFinding(t, judge(issuerServer.URL), VerdictOK, "1 issuer: "+issuerServer.URL)
	requireFinding(t, judge(issuerServer.URL+"/other"), VerdictWrong, "names the issuer")
	requireFinding(t, judge(issuerServer.URL+"/text"), VerdictWrong, "is not a discovery document")
	requireFinding(t, judge(issuerServer.URL+"/moved"), VerdictWrong, "302")
	issuerServer.Close()
	requireFinding(t, judge(issuerServer.URL), VerdictWrong, "refused")
	requireFinding(t, checkIssuers(newDeployment(t)), VerdictOK, "none")
}
