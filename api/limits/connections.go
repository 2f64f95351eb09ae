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

// connections bounds the connections that are open, and those of one address: nobody
// gets more than are left for all others, so that however many an address opens, the
// next one is answered. Some beyond the bound are taken all the same, shared out
// likewise, for a short time and to be told so; what comes beyond those is closed at
// once. Trusted proxies speak for many and have no share: they bound their clients.
type connections struct {
	Regular, spare *slots
	proxies        []*net.IPNet
	Open           atomic.Int64 // of both kinds, for metrics
}

func newConnections(load Load) *connections {
	return &connections{Regular: newSlots(load.Connections), spare: newSlots(spareConnections(load.Connections)), proxies: load.TrustedProxies}
}

// spareConnections is how many connections beyond the bound are told so.
func spareConnections(limit int) int { return 16 + limit/16 }

// While few connections are left, one whose request does not come in crowdedPatience
// is closed. One beyond the bound lasts no longer than spareTime, whatever it is for.
const (
	crowdedPatience = 3 * time.Second
	spareTime       = 5 * time.Second
)

// crowded says that no more than a quarter of the connections are left.
func (c *connections) crowded() bool { return 4*c.Regular.InUse() > 3*c.Regular.limit }

// take finds a place for a connection from an address; nil if there is none.
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

// addressOf is invalid for a listener without addresses.
func addressOf(a net.Addr) netip.Addr {
	if tcp, is := a.(*net.TCPAddr); is {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// network is what counts as one client: one IPv4 address, or the /64 of an IPv6 one,
// of which whoever has one has all.
func network(ip netip.Addr) netip.Prefix {
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// Listen returns a listener that bounds the connections that l accepts. refused is called
// for each connection that is closed at once.
func (c *connections) Listen(l net.Listener, refused func()) net.Listener {
	return &boundedListener{Listener: l, connections: c, refused: refused}
}

// MaxOpen is how many connections a server has open at the very most.
func MaxOpen(load Load) int {
	limit := load.WithDefaults().Connections
	return limit + spareConnections(limit)
}

// boundedListener closes at once what finds no place.
type boundedListener struct {
	net.Listener
	connections *connections
	refused     func() // counts a connection that was closed
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
			_ = accepted.Close() // there is nobody to tell
			continue
		}
		l.connections.Open.Add(1)
		c := &connection{Conn: accepted, all: l.connections, kind: kind, who: who}
		if c.beyond() {
			c.until = time.Now().Add(spareTime)
		}
		return c, nil
	}
}

// connection is one that is counted.
type connection struct {
	net.Conn
	all     *connections
	kind    *slots
	who     string
	until   time.Time // when it ends at the latest; zero: whenever it likes
	closing sync.Once

	waiting atomic.Bool // for a request to come, which is not there yet
	over    atomic.Bool // nothing more is read

	gathered *[]byte // what is there of an answer that goes out whole; nil: all goes out at once
	body     int     // of that answer, in bytes
}

// beyond says that it is beyond the bound.
func (c *connection) beyond() bool { return c.kind == c.all.spare }

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	if c.over.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

// SendWhole has the next answer, whose body has so many bytes, go out whole: net/http
// passes it on in pieces of 4 KiB, and each costs both sides a system call and the client
// a wake-up. It is called by the goroutine that answers.
func (c *connection) SendWhole(body int) { c.gathered, c.body = gatherBuffers.Get().(*[]byte), body }

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

// SetReadDeadline implements net.Conn. Whoever waits for a request has less time while
// few connections are left.
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

// earlier is the earlier of two deadlines, of which zero is none.
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

// CloseWrite lets net/http end an answer that a client has not read while it still
// sends: without it the client may never see it.
func (c *connection) CloseWrite() error {
	if half, can := c.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return nil
}

// connectionKey is where the context of a request has its connection.
type connectionKey struct{}

// WithConnection is the ConnContext of the server.
func WithConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, plain(c))
}

// plain is the connection that TLS may be around.
func plain(c net.Conn) net.Conn {
	if secured, is := c.(*tls.Conn); is {
		return secured.NetConn()
	}
	return c
}

// NoteState is the ConnState of the server.
func NoteState(c net.Conn, state http.ConnState) {
	if counted, is := plain(c).(*connection); is {
		counted.waiting.Store(state == http.StateNew || state == http.StateIdle)
	}
}

// ConnectionOf is the connection of a request, if it is counted.
func ConnectionOf(r *http.Request) (*connection, bool) {
	c, counted := r.Context().Value(connectionKey{}).(*connection)
	return c, counted
}

// Crowded says whether the connection of a request is beyond the bound, and whether
// it is to end with the answer: few are left for others.
func Crowded(r *http.Request) (beyond, last bool) {
	c, counted := ConnectionOf(r)
	if !counted {
		return false, false
	}
	return c.beyond(), c.beyond() || c.all.crowded()
}

// EndConnection has no request follow this one, whose body was not read to its end:
// net/http might take what is left of it for the next one.
func EndConnection(r *http.Request) {
	if c, counted := ConnectionOf(r); counted && r.ProtoMajor == 1 {
		c.over.Store(true)
	}
}

// TakeStream takes a slot for a request over HTTP/2, of which a connection may make many at
// once. Addresses share the slots like connections. It returns the holder of the slot, for
// requests.give, or false if no slot is free.
func (b *Limits) TakeStream(r *http.Request) (from string, taken bool) {
	from = r.RemoteAddr
	if conn, counted := ConnectionOf(r); counted {
		from = conn.who
		if ip := addressOf(conn.RemoteAddr()); b.Connections.trusted(ip) && b.Requests.take(from) {
			return from, true
		}
	}
	return from, b.Requests.TakeShare(from)
}
