package api

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// Hosts are the names, beside localhost and loopback addresses, that a server
// without authentication answers to. Where there are none, it answers to any but on
// loopback.
type Hosts []string

// Check refuses a request under a name that is not the server's: whoever owns a name
// can have it lead here, and a browser then takes this server for his and lets his
// pages read it. No browser sends a request without a name; those pass.
func (h Hosts) Check(r *http.Request) error {
	if r.Host == "" || len(h) == 0 && !onLoopback(r) {
		return nil
	}
	name := hostName(r.Host)
	if name == "localhost" || net.ParseIP(name).IsLoopback() || slices.ContainsFunc(h, means(name)) {
		return nil
	}
	return fault(http.StatusMisdirectedRequest, "refused: the request names a host that is not this server's; "+
		"ask for 127.0.0.1 or localhost, or start the server with --allow-host and the name")
}

// onLoopback reports whether a request came to a loopback address.
func onLoopback(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return local != nil && local.IP.IsLoopback()
}

func means(name string) func(string) bool {
	return func(allowed string) bool { return hostName(allowed) == name }
}

// hostName is the name in a Host header, without port, brackets and the dot that a
// full name may end in, in lower case.
func hostName(header string) string {
	host := strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	if strings.Contains(header, ":") {
		if name, _, err := net.SplitHostPort(header); err == nil {
			host = name
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
