// Package reference provides the page at /docs. The page renders openapi.yaml with RapiDoc, and shows a
// sample command for every operation. Everything is embedded; the page requests nothing from other
// servers.
package reference

import (
	"bytes"
	_ "embed"
	"net/http"
	"regexp"
	"sync"

	"colophon"
)

// Page is the HTML page at /docs, which shows the reference of the API.
//
//go:embed index.html
var Page []byte

// ContentSecurityPolicy is the Content-Security-Policy of Page. It allows inline styles because RapiDoc uses
// them.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// RapiDocScript is the unmodified script of RapiDoc, with which Page renders openapi.yaml.
// `make rapidoc` updates it.
//
//go:embed rapidoc/rapidoc-min.js
var RapiDocScript []byte

// ThemeScript is the script that gives Page the browser's light or dark color scheme.
//
//go:embed theme.js
var ThemeScript []byte

var contract = sync.OnceValues(func() ([]byte, error) { return withSamples(colophon.OpenAPI) })

// documentedServer is the URL of the first server in openapi.yaml. The sample commands use it.
const documentedServer = "http://127.0.0.1:8080"

// hostForm matches Host headers that are safe to paste into a shell command.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]+$`)

// OpenAPIJSON returns openapi.yaml as JSON. Its sample commands address the server to which r was
// sent. If token is true, they send the token in $COLOPHON_TOKEN.
func OpenAPIJSON(r *http.Request, token bool) ([]byte, error) {
	text, err := contract()
	if err != nil {
		return nil, err
	}
	if hostForm.MatchString(r.Host) {
		scheme := "http://"
		if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
			scheme = "https://"
		}
		text = bytes.ReplaceAll(text, []byte(documentedServer), []byte(scheme+r.Host))
	}
	if token {
		text = bytes.ReplaceAll(text, []byte("curl -sS "), []byte(`curl -sS -H \"Authorization: Bearer $COLOPHON_TOKEN\" `))
	}
	return text, nil
}
