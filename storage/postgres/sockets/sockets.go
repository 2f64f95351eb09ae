// Package sockets manages the network connections of a database's connection pools. It can close
// connections that the pools are still using. It limits how many connections are opened at the same
// time, and it prefers the host that accepted the most recent session.
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
// longer be reached, a connection to it can stay silent for as long as TCP permits. Operations that
// use the connection then wait. Closing the connection makes these operations fail.
type Set struct {
	opening chan struct{} // holds a token for each connection that is being opened

	mu   sync.Mutex
	open map[*socket]bool // guarded by mu
	// last is the address that accepted the most recent session. It is empty if a later attempt to
	// connect to that address has failed. While last is set, no other address is tried. Otherwise, each
	// connection would wait for every unresponsive host that precedes the primary in the URL. A request
	// to cancel a query counts as a failed attempt, because pgx opens a connection for it that never
	// becomes a session. last is guarded by mu.
	last string
}

// errOtherHost means that an address was not tried.
var errOtherHost = errors.New("this host was not tried, because another host has accepted a connection")

const (
	// openTime is how long a connection may take to open before it stops counting towards
	// maxOpening and CloseStartedBefore may close it. On a very busy machine, opening a connection can
	// take longer than a request waits for it.
	openTime = 3 * time.Second
	// maxOpening is the maximum number of connections that are being opened at the same time.
	// Connections that have taken longer than openTime do not count. A failed attempt counts for
	// another failurePause. Without these limits, all operations would look for a new primary at
	// the same time after the old one is lost. On a busy machine, the sessions that they begin on
	// each node could then keep the new primary from answering any of them in time.
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
	free    func() // allows another connection to be opened; only the first call has an effect
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

// begin waits until another connection may be opened. It returns errOtherHost if the address should
// not be tried.
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

// end allows another connection to be opened. It must be called once after each successful call to
// begin.
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

// WrapDial returns a dial function that adds the connections that it opens to the Set. The function
// waits while too many connections are being opened. limit is how long the server may take to
// accept the session, not counting this wait; 0 means no limit.
func (c *Set) WrapDial(dial pgconn.DialFunc, limit time.Duration) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := c.begin(ctx, address); err != nil {
			return nil, err
		}
		begun, free := time.Now(), sync.OnceFunc(c.end)
		time.AfterFunc(openTime, free) // an unresponsive server must not block other connections for longer than openTime
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

// MarkOpened records that the database server has accepted the session of a connection, and removes
// the connection's deadline.
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

// MarkReady records that a connection has been set up and can execute statements.
func (c *Set) MarkReady(conn net.Conn) {
	if kept, ok := unwrap(conn); ok {
		c.mu.Lock()
		kept.ready = true
		c.mu.Unlock()
	}
}

// unwrap returns the socket that a dial function from WrapDial returned, even if conn is a TLS
// connection over it.
func unwrap(conn net.Conn) (kept *socket, ok bool) {
	if encrypted, is := conn.(*tls.Conn); is {
		conn = encrypted.NetConn()
	}
	kept, ok = conn.(*socket)
	return kept, ok
}

// CloseStartedBefore closes the connections that were started before t, and returns how many it closed. A
// connection that is not ready yet is closed only if it was started more than openTime before t.
// Otherwise, repeated calls could close every connection before it is ready.
func (c *Set) CloseStartedBefore(t time.Time) int {
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
