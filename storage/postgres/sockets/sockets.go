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

// Set holds the open network connections of a database. If a server was suspended or is no longer
// reachable, a connection to it can stay silent for as long as TCP permits, and its users wait.
// Closing the connection makes their operations fail.
type Set struct {
	mu   sync.Mutex
	open map[*socket]bool // guarded by mu
}

// socket is a net.Conn that leaves its Set when it is closed.
type socket struct {
	net.Conn
	of    *Set
	begun time.Time
	ready bool // the connection can be used; guarded by of.mu
}

// openTime is how long a connection may take until it is ready. On a very busy machine, that can
// be longer than a request waits for it.
const openTime = 3 * time.Second

// Close implements net.Conn.
func (c *socket) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Keep returns a dial function that adds the connections it opens to the Set.
func (c *Set) Keep(dial pgconn.DialFunc) pgconn.DialFunc {
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

// Ready records that a connection can be used. The connection may be wrapped for encryption.
func (c *Set) Ready(conn net.Conn) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if kept, ok := conn.(*socket); ok {
		c.mu.Lock()
		kept.ready = true
		c.mu.Unlock()
	}
}

// CloseBefore closes the connections that were begun before a time, and returns their number. A
// connection that is not ready yet is closed only if it was begun openTime earlier. If repeated
// calls closed all connections while they were being opened, none would ever be ready.
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
