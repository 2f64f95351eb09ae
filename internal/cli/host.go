package cli

import "net"

// Loopback reports whether only this machine can reach a host. For names it is true only of
// localhost, because others may resolve to any address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
