package cli

import "net"

// IsLoopback reports whether only this machine can reach a host. The only name for which it
// returns true is localhost, because other names can resolve to any address.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
