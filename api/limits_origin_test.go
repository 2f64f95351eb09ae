package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
)

// Only configured proxies are trusted, not every loopback or private address.
func TestOnlyConfiguredProxiesAreTrusted(t *testing.T) {
	extract := limits.AddressExtractor(trusted("203.0.113.0/24"))
	for _, near := range []string{"127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.0.1", "fe80::1", "fd00::1"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "[" + near + "]:1"
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		require.Equal(t, near, extract(r))
		r.RemoteAddr = "203.0.113.1:1"
		r.Header.Set("X-Forwarded-For", "198.51.100.1, "+near)
		require.Equal(t, near, extract(r), "X-Forwarded-For from an untrusted proxy is ignored")
	}
}

// Requests for entry bundles release their memory.
func TestTilesHoldNothing(t *testing.T) {
	s := start(t)
	s.get("/log/tile/entries/000.p/1").want(http.StatusOK)
	s.get("/log/tile/entries/000.p/1", "Accept-Encoding", "gzip").want(http.StatusOK)
	s.quiet()
}
