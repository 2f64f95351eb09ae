package limits

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// connections limits the number of open connections, in total and for each address. An address gets at most
// half of the remaining connections, so that the next address always finds a free one. A few spare connections
// beyond the limit, shared in the same way, are accepted for a short time so that the server can answer them
// with a 503. All further connections are closed at once. A trusted proxy is not limited to a share, because it
// forwards the requests of many clients.
type connections struct {
	// Regular holds the slots for connections up to the limit, and spare those for connections beyond it.
	Regular, spare *slots
	proxies        []*net.IPNet
	Open           atomic.Int64 // number of regular and spare connections, for metrics
}

func newConnections(load ServerLimits) *connections {
	return &connections{Regular: newSlots(load.MaxConnections), spare: newSlots(spareConnections(load.MaxConnections)), proxies: load.TrustedProxies}
}

// spareConnections returns how many connections beyond limit are accepted and sent a 503.
func spareConnections(limit int) int { return 16 + limit/16 }

// While few connections remain, a connection whose request does not arrive within
// crowdedPatience is closed. A connection beyond the limit is closed after spareTime.
const (
	crowdedPatience = 3 * time.Second
	spareTime       = 5 * time.Second
)

// crowded reports whether less than a quarter of the regular connections are free.
func (c *connections) crowded() bool { return 4*c.Regular.InUse() > 3*c.Regular.limit }

// take takes a slot for a connection from the given address. kind is the pool that the slot belongs
// to, or nil if no slot is free. who identifies the client and is passed to kind.Release.
func (c *connections) take(from net.Addr) (kind *slots, who string) {
	ip := addressOf(from)
	who = network(ip).String()
	if c.trusted(ip) && c.Regular.take(who) || c.Regular.TakeShare(who) {
		return c.Regular, who
	}
	if c.spare.TakeShare(who) {
		return c.spare, who
	}
	return nil, who
}

func (c *connections) trusted(ip netip.Addr) bool {
	return slices.ContainsFunc(c.proxies, func(n *net.IPNet) bool { return n.Contains(ip.AsSlice()) })
}

// addressOf returns the IP address of a, or the zero Addr if a is not a TCP address.
func addressOf(a net.Addr) netip.Addr {
	if tcp, is := a.(*net.TCPAddr); is {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// network returns the network that is treated as one client: a single IPv4 address, or the /64
// of an IPv6 address.
func network(ip netip.Addr) netip.Prefix {
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// LimitListener returns a listener that limits the connections that l accepts. It calls refused for
// each connection that it closes because no slot is free.
func (c *connections) LimitListener(l net.Listener, refused func()) net.Listener {
	return &boundedListener{Listener: l, connections: c, refused: refused}
}

// MaxOpenConnections returns the largest number of connections that a server can have open at the same
// time.
func MaxOpenConnections(load ServerLimits) int {
	limit := load.WithDefaults().MaxConnections
	return limit + spareConnections(limit)
}

// boundedListener is a listener that closes an accepted connection at once if no slot is free for
// it.
type boundedListener struct {
	net.Listener
	connections *connections
	refused     func() // called for each connection that is closed because no slot is free
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		kind, who := l.connections.take(accepted.RemoteAddr())
		if kind == nil {
			l.refused()
			_ = accepted.Close() // the connection has not been used, so an error does not matter
			continue
		}
		l.connections.Open.Add(1)
		c := &connection{Conn: accepted, all: l.connections, kind: kind, who: who}
		if c.isSpare() {
			c.until = time.Now().Add(spareTime)
		}
		return c, nil
	}
}

// connection is a net.Conn that holds a slot.
type connection struct {
	net.Conn
	all     *connections
	kind    *slots
	who     string
	until   time.Time // latest deadline that can be set; zero means no limit
	closing sync.Once

	waiting atomic.Bool // the connection is waiting for the next request
	over    atomic.Bool // makes every read return io.EOF

	gathered *[]byte // buffered start of the response; nil while writes are not buffered
	body     int     // length of the response body, in bytes
}

// isSpare reports whether the connection is a spare one, which means that it exceeds
// ServerLimits.MaxConnections.
func (c *connection) isSpare() bool { return c.kind == c.all.spare }

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	if c.over.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

// BufferResponse makes the connection send the next response in a single write. body is the length
// of the response body in bytes. On its own, net/http would write the response in pieces of 4 KiB,
// each of which costs both sides a system call and wakes up the client. BufferResponse must only be
// called by the goroutine that writes the response.
func (c *connection) BufferResponse(body int) {
	c.gathered, c.body = gatherBuffers.Get().(*[]byte), body
}

var gatherBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	if c.gathered == nil {
		return c.Conn.Write(p)
	}
	text := append(*c.gathered, p...)
	*c.gathered = text
	header := bytes.Index(text, []byte(endOfHeader))
	if header < 0 || len(text) < header+len(endOfHeader)+c.body {
		return len(p), nil
	}
	_, err := c.Conn.Write(text)
	*c.gathered = text[:0]
	gatherBuffers.Put(c.gathered)
	c.gathered = nil
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

const endOfHeader = "\r\n\r\n"

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn. While few connections remain, a connection that is waiting
// for a request gets a deadline of at most crowdedPatience from now.
func (c *connection) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && c.waiting.Load() && c.all.crowded() {
		t = earlier(t, time.Now().Add(crowdedPatience))
	}
	return c.Conn.SetReadDeadline(earlier(t, c.until))
}

// SetWriteDeadline implements net.Conn.
func (c *connection) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(earlier(t, c.until))
}

// earlier returns the earlier of two deadlines; the zero time means no deadline.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Close implements net.Conn.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() {
		c.all.Open.Add(-1)
		c.kind.Release(c.who)
	})
	return err
}

// CloseWrite closes the sending half, so that net/http can finish a response while the client is
// still sending. Without CloseWrite, the client might never see the response.
func (c *connection) CloseWrite() error {
	if half, can := c.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return nil
}

type connectionKey struct{}

// WithConnection is the ConnContext function of an http.Server whose listener was created by
// LimitListener.
func WithConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, plain(c))
}

// plain returns the connection underneath TLS, or c itself if it is not a TLS connection.
func plain(c net.Conn) net.Conn {
	if secured, is := c.(*tls.Conn); is {
		return secured.NetConn()
	}
	return c
}

// OnConnStateChange is the ConnState function of an http.Server whose listener was created by
// LimitListener.
func OnConnStateChange(c net.Conn, state http.ConnState) {
	if counted, is := plain(c).(*connection); is {
		counted.waiting.Store(state == http.StateNew || state == http.StateIdle)
	}
}

// ConnectionOf returns the connection that r arrived on, or false if the server's listener was not
// created by LimitListener.
func ConnectionOf(r *http.Request) (*connection, bool) {
	c, counted := r.Context().Value(connectionKey{}).(*connection)
	return c, counted
}

// OverConnectionLimit reports, as beyond, whether r arrived on a connection that exceeds
// ServerLimits.MaxConnections, or its address's share of them. Such a connection is a spare one.
// last reports whether the connection must be closed after this response, because it is a spare one
// or because few connections remain.
func OverConnectionLimit(r *http.Request) (beyond, last bool) {
	c, counted := ConnectionOf(r)
	if !counted {
		return false, false
	}
	return c.isSpare(), c.isSpare() || c.all.crowded()
}

// EndConnectionAfter makes r the last request on its HTTP/1 connection. This is necessary if the body
// was not read to the end, because net/http might read the rest as the next request.
func EndConnectionAfter(r *http.Request) {
	if c, counted := ConnectionOf(r); counted && r.ProtoMajor == 1 {
		c.over.Store(true)
	}
}

type streamSlotKey struct{}

// WithStreamSlot returns r with a note that the caller of its handler already holds a slot for it.
func WithStreamSlot(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), streamSlotKey{}, true))
}

// HasStreamSlot reports whether the caller of r's handler holds a slot for r.
func HasStreamSlot(r *http.Request) bool { return r.Context().Value(streamSlotKey{}) != nil }

// TakeStreamSlot takes a slot for an HTTP/2 request. The limit on connections is not enough,
// because one HTTP/2 connection can carry many requests at once. An address gets at most half of
// the remaining slots, as with connections; a trusted proxy can use all of them. from is the holder
// to pass to StreamSlots.Release. If no slot is available to the address, TakeStreamSlot returns a
// RejectedError with status 503.
func (b *Limiter) TakeStreamSlot(r *http.Request) (from string, err error) {
	from = r.RemoteAddr
	if conn, counted := ConnectionOf(r); counted {
		from = conn.who
		if ip := addressOf(conn.RemoteAddr()); b.Connections.trusted(ip) && b.StreamSlots.take(from) {
			return from, nil
		}
	}
	if !b.StreamSlots.TakeShare(from) {
		return "", NewRejectedError(ReasonConnections, http.StatusServiceUnavailable, time.Second,
			"too many requests over HTTP/2 are in progress, from this address or in total (limit %d); try again later", b.Limits.MaxConnections)
	}
	return from, nil
}
