package api

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
)

// A request with an unknown Host header gets 421. Otherwise, a web page whose host name resolves to
// a loopback address could read data (DNS rebinding).
func TestHostsThatAreAnswered(t *testing.T) {
	s := start(t, func(c *Config) { c.AllowedHosts = AllowedHosts{"Ledger.example.org"} })
	for host, status := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:1": 200, "localhost": 200, "LOCALHOST:8080": 200, "localhost.": 200, "[::1]": 200, "[::1]:8080": 200,
		"127.9.9.9": 200, "ledger.example.org": 200, "ledger.EXAMPLE.org.:443": 200,
		"evil.example": 421, "evil.example:8080": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "0.0.0.0": 421,
		"192.168.0.9": 421, "ledger.example.org.evil.example": 421, "xledger.example.org": 421, "[::ffff:c0a8:9]": 421,
	} {
		for _, path := range []string{"/v1/ledgers", "/healthz", "/metrics", "/docs"} {
			r, err := http.NewRequest(http.MethodGet, s.http.URL+path, nil)
			require.NoError(t, err)
			r.Host = host
			require.Equal(t, status, s.send(r).status, "%s %s", host, path)
		}
	}
	r, err := http.NewRequest(http.MethodGet, s.http.URL+"/v1/ledgers", nil)
	require.NoError(t, err)
	r.Host = "evil.example"
	require.Contains(t, s.send(r).problem(http.StatusMisdirectedRequest).Detail, "--allow-host")
}

// Unless names are configured, the Host header is checked on loopback addresses only. It is not
// checked if credentials are required.
func TestHostsMatterOnLoopbackOnly(t *testing.T) {
	for address, refused := range map[string]bool{"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "192.0.2.1": false, "2001:db8::1": false} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(address)})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://evil.example/", nil)
		require.NoError(t, err)
		require.Equal(t, refused, AllowedHosts(nil).Check(r) != nil, address)
		require.Error(t, AllowedHosts{"ledger.example.org"}.Check(r), "configured names are checked on every address")
		r.Host = "" // HTTP/1.0 does not require a Host header
		require.NoError(t, AllowedHosts(nil).Check(r))
	}
	g := &gated{service: &service{t: t}, tokens: access.TokenStore{Dir: accessDir(t)}}
	made := g.token("reader", []string{"default"}, []string{"read"})
	who, err := access.Open(access.Config{Dir: g.tokens.Dir})
	require.NoError(t, err)
	t.Cleanup(who.Close)
	s := start(t, func(c *Config) { c.Authenticator = who })
	r, err := http.NewRequest(http.MethodGet, s.url+"/stats", nil)
	require.NoError(t, err)
	r.Host = "ledger.example.org"
	r.Header.Set("Authorization", "Bearer "+made.Text)
	s.send(r).want(http.StatusOK)
}
