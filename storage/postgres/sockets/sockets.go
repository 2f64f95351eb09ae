// Package sockets controls the network connections of a database's pools: it closes them while the
// pools still use them, limits how many are opened at the same time, and prefers the host that
// accepted the last one.
package sockets

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Set contains the open network connections of a database. If a server was suspended or can no
// longer be reached, a connection to it can stay silent for as long as TCP permits, and the
// operations that use it wait. Closing the connection makes them fail.
type Set struct {
	opening chan struct{} // holds a token for each connection that is being opened

	mu   sync.Mutex
	open map[*socket]bool // guarded by mu
	// last is the address that accepted the last session, unless an attempt there has failed since. Only
	// this address is tried. Otherwise, each connection would wait at every silent host that precedes
	// the primary in the URL. Requests to cancel a query count as failed attempts, because pgx opens a
	// connection for each that never becomes a session. Guarded by mu.
	last string
}

// errOtherHost means that an address was not tried.
var errOtherHost = errors.New("not tried, because another host has accepted a connection")

const (
	// openTime is how long opening a connection may take. On a very busy machine, that can be longer
	// than a request waits for the connection.
	openTime = 3 * time.Second
	// maxOpening limits how many connections are opened at the same time, except for those that have
	// taken longer than openTime. failurePause is the time for which an attempt that has failed still
	// counts. Without these limits, all operations look for the new primary at the same time after the
	// old one is lost. On a busy machine, the sessions that they begin on each node can then keep the
	// new primary from answering any of them in time.
	maxOpening   = 2
	failurePause = 100 * time.Millisecond
)

// New returns an empty Set.
func New() *Set {
	return &Set{opening: make(chan struct{}, maxOpening), open: make(map[*socket]bool)}
}

// socket is a net.Conn that removes itself from its Set when it is closed.
type socket struct {
	net.Conn
	of      *Set
	address string
	begun   time.Time
	free    func() // makes room for opening another connection; only the first call has an effect
	// The fields below are guarded by of.mu.
	opened bool // whether the database server has accepted the session
	ready  bool // whether the connection can be used
}

// Close implements net.Conn.
func (c *socket) Close() error {
	c.of.mu.Lock()
	failed := c.of.open[c] && !c.opened
	delete(c.of.open, c)
	c.of.mu.Unlock()
	if failed {
		c.of.fail(c.address, c.free)
	}
	return c.Conn.Close()
}

// begin waits until another connection may be opened. It returns errOtherHost if the address is not
// to be tried.
func (c *Set) begin(ctx context.Context, address string) error {
	select {
	case c.opening <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	other := c.last != "" && c.last != address
	c.mu.Unlock()
	if other {
		c.end()
		return errOtherHost
	}
	return nil
}

// end ends what begin has begun.
func (c *Set) end() { <-c.opening }

// fail records that a connection to the address could not be opened, and calls free after failurePause.
func (c *Set) fail(address string, free func()) {
	c.mu.Lock()
	if c.last == address {
		c.last = ""
	}
	c.mu.Unlock()
	time.AfterFunc(failurePause, free)
}

// Track returns a dial function that adds the connections that it opens to the Set. It waits while
// too many connections are being opened. limit is the time until the server must have accepted the
// session, without this wait; 0 means no limit.
func (c *Set) Track(dial pgconn.DialFunc, limit time.Duration) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := c.begin(ctx, address); err != nil {
			return nil, err
		}
		begun, free := time.Now(), sync.OnceFunc(c.end)
		time.AfterFunc(openTime, free) // so that connections to a silent server do not prevent others for longer
		if limit > 0 {
			limited, cancel := context.WithDeadline(ctx, begun.Add(limit))
			defer cancel()
			ctx = limited
		}
		conn, err := dial(ctx, network, address)
		if err == nil && limit > 0 {
			if err = conn.SetDeadline(begun.Add(limit)); err != nil {
				_ = conn.Close()
			}
		}
		if err != nil {
			c.fail(address, free)
			return nil, err
		}
		kept := &socket{Conn: conn, of: c, address: address, begun: begun, free: free}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[kept] = true
		return kept, nil
	}
}

// MarkOpened records that the database server has accepted the session of a connection.
func (c *Set) MarkOpened(conn net.Conn) error {
	kept, ok := unwrap(conn)
	if !ok {
		return nil
	}
	c.mu.Lock()
	if c.open[kept] {
		kept.opened, c.last = true, kept.address
	}
	c.mu.Unlock()
	kept.free()
	return conn.SetDeadline(time.Time{})
}

// MarkReady records that a connection can be used.
func (c *Set) MarkReady(conn net.Conn) {
	if kept, ok := unwrap(conn); ok {
		c.mu.Lock()
		kept.ready = true
		c.mu.Unlock()
	}
}

// unwrap returns the connection that Track's function returned, which can be inside an encrypted one.
func unwrap(conn net.Conn) (kept *socket, ok bool) {
	if encrypted, is := conn.(*tls.Conn); is {
		conn = encrypted.NetConn()
	}
	kept, ok = conn.(*socket)
	return kept, ok
}

// CloseBefore closes the connections that were begun before t, and returns their number. A
// connection that is not ready is closed only if it was begun more than openTime before t.
// Otherwise, repeated calls could close every connection before it is ready.
func (c *Set) CloseBefore(t time.Time) int {
	var old []*socket
	c.mu.Lock()
	for conn := range c.open {
		if conn.begun.Before(t) && (conn.ready || conn.begun.Before(t.Add(-openTime))) {
			old = append(old, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range old {
		_ = conn.Close()
	}
	return len(old)
}
