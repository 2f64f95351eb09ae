package api

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"colophon/api/problem"
)

// AllowedHosts lists the host names that clients may use for a server without authentication, besides
// localhost and loopback addresses. If AllowedHosts is empty, only requests that arrive on a loopback
// address are checked.
type AllowedHosts []string

// Check refuses a request whose Host header names another server. It defends against DNS rebinding:
// the owner of a domain can point it at this server, and a browser would then let pages from that
// domain read this server's responses. Browsers always send a Host header, so Check accepts
// requests without one.
func (h AllowedHosts) Check(r *http.Request) error {
	if r.Host == "" || len(h) == 0 && !onLoopback(r) {
		return nil
	}
	name := hostName(r.Host)
	if name == "localhost" || net.ParseIP(name).IsLoopback() || slices.ContainsFunc(h, matchesHost(name)) {
		return nil
	}
	return problem.New(http.StatusMisdirectedRequest, "refused: the Host header does not name this server; "+
		"use 127.0.0.1 or localhost, or start the server with this name in --allow-host")
}

// onLoopback reports whether a request came to a loopback address.
func onLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return local != nil && local.IP.IsLoopback()
}

func matchesHost(name string) func(string) bool {
	return func(allowed string) bool { return hostName(allowed) == name }
}

// hostName returns the name in a Host header, in lower case and without the port, the brackets, or
// a trailing dot.
func hostName(header string) string {
	host := strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	if strings.Contains(header, ":") {
		if name, _, err := net.SplitHostPort(header); err == nil {
			host = name
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
