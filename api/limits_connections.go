package api

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// connections bounds the connections that are open. Some beyond the bound are taken
// all the same, and whatever they ask for is answered 503; what comes beyond those
// waits in the kernel's queue.
type connections struct {
	limit int
	open  atomic.Int64
}

// spareConnections is how many connections beyond the bound are told so.
func spareConnections(limit int) int { return 16 + limit/16 }

// Listen bounds the connections that l accepts. What is made of them, a TLS
// connection say, may be put around it.
func (s *Server) Listen(l net.Listener) net.Listener {
	c := s.limits.connections
	return &boundedListener{Listener: l, connections: c,
		room: make(chan struct{}, c.limit+spareConnections(c.limit)), closed: make(chan struct{})}
}

// MaxOpen is how many connections a server has open at the very most.
func MaxOpen(load Load) int {
	limit := load.withDefaults().Connections
	return limit + spareConnections(limit)
}

// boundedListener accepts while there is room.
type boundedListener struct {
	net.Listener
	connections *connections
	room        chan struct{} // holds a token for each open connection
	closing     sync.Once
	closed      chan struct{}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	open := l.connections.open.Add(1)
	return &connection{Conn: accepted, listener: l, crowded: open > int64(l.connections.limit)}, nil
}

// Close implements net.Listener.
func (l *boundedListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// connection is one that is counted.
type connection struct {
	net.Conn
	listener *boundedListener
	crowded  bool // it is beyond the bound
	closing  sync.Once

	over atomic.Bool // nothing more is read
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	if c.over.Load() {
		return 0, io.EOF
	}
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() {
		c.listener.connections.open.Add(-1)
		<-c.listener.room
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

// withConnection is the ConnContext of the server.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if secured, is := c.(*tls.Conn); is {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// crowded says that a request came on a connection beyond the bound.
func crowded(r *http.Request) bool {
	c, counted := r.Context().Value(connectionKey{}).(*connection)
	return counted && c.crowded
}

// endConnection has no request follow this one, whose body was not read to its end:
// net/http might take what is left of it for the next one.
func endConnection(r *http.Request) {
	if c, counted := r.Context().Value(connectionKey{}).(*connection); counted && r.ProtoMajor == 1 {
		c.over.Store(true)
	}
}
