package cli

import "net"

// IsLoopback reports whether host can be reached only from this machine. The only name it accepts
// is localhost, because other names can resolve to any address.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
