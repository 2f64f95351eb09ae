package console

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// ask requests the console file with the given name, or the console page if name is empty. It
// returns the response.
func ask(t *testing.T, compressed bool, version, name string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	if name == "" {
		ServePage(w, r, compressed, "https://id.example.org")
	} else {
		require.True(t, ServeFile(w, r, compressed, version, name), name)
	}
	return w.Result()
}

func textOf(t *testing.T, answer *http.Response) string {
	t.Helper()
	body := answer.Body.(io.Reader)
	if answer.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		require.NoError(t, err)
		body = z
	}
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	return string(text)
}

// The console page refers only to files that exist, and contains no inline scripts or styles.
func TestPageNamesItsFiles(t *testing.T) {
	answer := ask(t, false, "", "")
	html := textOf(t, answer)
	require.Equal(t, "text/html; charset=utf-8", answer.Header.Get("Content-Type"))
	named := regexp.MustCompile(`(?:src|href)="ui/([^/"]+)/([^"]+)"`).FindAllStringSubmatch(html, -1)
	require.Len(t, named, 3, "a script, a style sheet, and an icon")
	for _, m := range named {
		file := ask(t, false, m[1], m[2])
		require.NotEmpty(t, textOf(t, file), m[2])
		require.Equal(t, "public, max-age=31536000, immutable", file.Header.Get("Cache-Control"))
	}
	require.NotRegexp(t, `(?i)<script[^>]*>[^<]|<style|\son[a-z]+=|\sstyle=|javascript:`, html)
}

func TestPolicyAllowsNoOtherOrigin(t *testing.T) {
	policy := ask(t, false, "", "").Header.Get("Content-Security-Policy")
	for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "form-action 'none'",
		"frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'", "connect-src 'self' https://id.example.org"} {
		require.Contains(t, strings.Split(policy, "; "), directive)
	}
	require.NotContains(t, policy, "unsafe")
}

func TestCompressedFilesAreTheSame(t *testing.T) {
	version := load().version
	for name := range load().files {
		if name == page {
			continue
		}
		plain, small := ask(t, false, version, name), ask(t, true, version, name)
		require.Equal(t, textOf(t, plain), textOf(t, small), name)
		require.NotEqual(t, plain.Header.Get("ETag"), small.Header.Get("ETag"))
		require.Equal(t, "Accept-Encoding", small.Header.Get("Vary"))
	}
}

// A browser that has the current page gets a 304 response.
func TestUnchangedPageIsNotSentAgain(t *testing.T) {
	tag := ask(t, true, "", "").Header.Get("ETag")
	again := ask(t, true, "", "", "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, again.StatusCode)
	require.Empty(t, textOf(t, &http.Response{Body: again.Body}))
}

// ServeFile does not serve files of a different version, unknown files, or the page itself.
func TestOtherFilesAreNotFound(t *testing.T) {
	for _, at := range [][2]string{{"other", "app.js"}, {load().version, "none.js"}, {load().version, page}, {load().version, "../console.go"}, {load().version, ""}} {
		w := httptest.NewRecorder()
		require.False(t, ServeFile(w, httptest.NewRequest(http.MethodGet, "/", nil), false, at[0], at[1]), at)
		require.Empty(t, w.Header())
	}
}

// maxFirstLoad is the maximum total size, in bytes after compression, of the files that a browser
// must load before the page works.
const maxFirstLoad = 200_000

func TestFirstLoadIsSmall(t *testing.T) {
	total := 0
	for name, f := range load().files {
		if !strings.HasSuffix(name, ".txt") {
			total += len(f.gzip)
		}
		require.False(t, bytes.Contains(f.plain, []byte("sourceMappingURL")), name)
	}
	t.Logf("first load: %d bytes compressed", total)
	require.Less(t, total, maxFirstLoad)
}
