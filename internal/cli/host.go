package cli

import "net"

// Loopback reports whether only this machine can reach a host. Of all names this is true only
// of localhost, because other names can resolve to any address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
