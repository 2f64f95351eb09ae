package cli

import "net"

// Loopback reports whether only this machine can reach a host of that name. A
// name other than localhost may mean anything.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
