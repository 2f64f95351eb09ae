package server

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"colophon/internal/cli"
)

// addresses holds the open listeners of a server.
type addresses struct {
	server  net.Listener // nil if the listener could not be opened
	metrics net.Listener // nil if the server's own address serves the metrics
	grpc    net.Listener // nil if OTLP is not served over gRPC
}

// openAddresses opens a listener for each configured address. Connections wait until a server
// accepts them.
func openAddresses(config Config) (at addresses, err error) {
	for _, one := range []struct {
		address, flag string
		listener      *net.Listener
	}{{config.ListenAddress, "listen", &at.server}, {config.MetricsListenAddress, "metrics-listen", &at.metrics}, {config.OTLPGRPCListenAddress, "otlp-grpc-listen", &at.grpc}} {
		if one.address == "" {
			continue
		}
		if *one.listener, err = listen(one.address, one.flag); err != nil {
			return at, err
		}
	}
	return at, nil
}

func (at addresses) close() {
	for _, listener := range [...]net.Listener{at.server, at.metrics, at.grpc} {
		if listener != nil {
			_ = listener.Close() // fails if the server has already closed the listener during its shutdown
		}
	}
}

// shared returns listeners for the next of several servers that run one after another. When that
// server shuts down, the addresses stay open, and new connections wait for its successor.
func (at addresses) shared() addresses {
	at.server = shareListener(at.server)
	if at.metrics != nil {
		at.metrics = shareListener(at.metrics)
	}
	if at.grpc != nil {
		at.grpc = shareListener(at.grpc)
	}
	return at
}

// sharedListener is a listener whose Close keeps the address open.
type sharedListener struct {
	*net.TCPListener
	closed atomic.Bool
}

func shareListener(l net.Listener) net.Listener {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return l
	}
	_ = tcp.SetDeadline(time.Time{}) // remove the deadline that the previous server set at shutdown
	return &sharedListener{TCPListener: tcp}
}

// Accept implements net.Listener.
func (l *sharedListener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err != nil && l.closed.Load() {
		return nil, net.ErrClosed
	}
	return conn, err
}

// Close makes Accept return net.ErrClosed, but keeps the address open.
func (l *sharedListener) Close() error {
	l.closed.Store(true)
	return l.SetDeadline(time.Now())
}

// listen opens a listener on address, which is host:port. flag is the name of the flag to mention
// in error messages. For an IPv4 address, it listens on IPv4 only: 0.0.0.0 does not include IPv6
// addresses.
func listen(address, flag string) (net.Listener, error) {
	network := "tcp"
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			network = "tcp4"
		}
	}
	listener, err := net.Listen(network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, cli.ExitErrorf(cli.ExitFailed, "%s is in use by another program; stop that program or choose another address with --%s", address, flag)
	}
	return listener, err
}
