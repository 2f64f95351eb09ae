// Package sockets closes the network connections of a database's pools while the pools still use
// them.
package sockets

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Set contains the open network connections of a database. If a server was suspended or can no
// longer be reached, a connection to it can stay silent for as long as TCP permits, and the
// operations that use it wait. Closing the connection makes them fail.
type Set struct {
	mu   sync.Mutex
	open map[*socket]bool // guarded by mu
}

// socket is a net.Conn that removes itself from its Set when it is closed.
type socket struct {
	net.Conn
	of    *Set
	begun time.Time
	ready bool // whether the connection can be used; guarded by of.mu
}

// openTime is how long opening a connection may take. On a very busy machine, that can be longer
// than a request waits for the connection.
const openTime = 3 * time.Second

// Close implements net.Conn.
func (c *socket) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Track returns a dial function that adds the connections that it opens to the Set.
func (c *Set) Track(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		begun := time.Now()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		kept := &socket{Conn: conn, of: c, begun: begun}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open == nil {
			c.open = make(map[*socket]bool)
		}
		c.open[kept] = true
		return kept, nil
	}
}

// MarkReady records that a connection can be used. conn may be the encrypted connection around the one
// that Track's function returned.
func (c *Set) MarkReady(conn net.Conn) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if kept, ok := conn.(*socket); ok {
		c.mu.Lock()
		kept.ready = true
		c.mu.Unlock()
	}
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
