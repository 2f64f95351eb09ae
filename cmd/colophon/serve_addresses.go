package main

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// addresses are where a server listens.
type addresses struct {
	server  net.Listener // nil if it could not be had
	metrics net.Listener // nil where metrics are on the server's own address
}

// openAddresses opens all that flags have set. Connections wait until they are served.
func openAddresses(config serveConfig) (at addresses, err error) {
	if at.server, err = listen(config.Listen, "listen"); err != nil || config.MetricsListen == "" {
		return at, err
	}
	at.metrics, err = listen(config.MetricsListen, "metrics-listen")
	return at, err
}

// close closes those that were opened.
func (at addresses) close() {
	for _, listener := range [...]net.Listener{at.server, at.metrics} {
		if listener != nil {
			_ = listener.Close() // a server that was shut down has closed it
		}
	}
}

// listen opens an address, host:port, that a flag has set. One of IPv4 is of IPv4
// alone: 0.0.0.0 does not mean all addresses of IPv6 too.
func listen(address, flag string) (net.Listener, error) {
	network := "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			network = "tcp4"
		}
	}
	listener, err := net.Listen(network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, exitf(exitFailed, "%s is in use by another program; stop it or choose another address with --%s", address, flag)
	}
	return listener, err
}
