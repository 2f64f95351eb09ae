package api

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/console"
)

func consoleScript() string {
	w := httptest.NewRecorder()
	console.ServePage(w, httptest.NewRequest(http.MethodGet, "/", nil), false)
	return "/" + regexp.MustCompile(`src="([^"]+)"`).FindStringSubmatch(w.Body.String())[1]
}

// At /, browsers get the console. Other clients are redirected to the documentation.
func TestHomeDependsOnAccept(t *testing.T) {
	s := start(t)
	for accept, status := range map[string]int{
		"": 302, "*/*": 302, "application/json": 302, "text/plain, */*": 302, "application/json, text/html;q=0.9": 302,
		"text/html": 200, "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": 200,
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := httptest.NewRequest(method, "http://127.0.0.1:8080/", nil)
			if accept != "" {
				r.Header.Set("Accept", accept)
			}
			w := httptest.NewRecorder()
			s.http.Config.Handler.ServeHTTP(w, r)
			require.Equal(t, status, w.Code, accept)
			require.Contains(t, w.Header().Values("Vary"), "Accept")
			if status == http.StatusOK {
				require.Equal(t, "private, no-cache", w.Header().Get("Cache-Control"))
				require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
				require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
				require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
				require.Contains(t, w.Body.String(), "<!doctype html>") // net/http, not the handler, omits the body for HEAD
			} else {
				require.Equal(t, "/docs", w.Header().Get("Location"))
			}
		}
	}
}
