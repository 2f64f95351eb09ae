// Package sockets closes the network connections of a database's pools from outside.
package sockets

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Set is the open network connections of a database. A connection to a server that was
// stopped, or that the network no longer reaches, can stay silent for as long as TCP permits, and
// what uses it waits. Closing the connection ends that.
type Set struct {
	mu   sync.Mutex
	open map[*socket]time.Time // when each was begun; guarded by mu
}

// socket is a net.Conn that leaves its Set when it is closed.
type socket struct {
	net.Conn
	of *Set
}

// Close implements net.Conn.
func (c *socket) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Keep returns a dial that notes what it opens.
func (c *Set) Keep(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		begun := time.Now()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		kept := &socket{conn, c}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open == nil {
			c.open = make(map[*socket]time.Time)
		}
		c.open[kept] = begun
		return kept, nil
	}
}

// CloseBefore closes the connections that were begun before a time, and returns their number.
func (c *Set) CloseBefore(t time.Time) int {
	var old []*socket
	c.mu.Lock()
	for conn, begun := range c.open {
		if begun.Before(t) {
			old = append(old, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range old {
		_ = conn.Close()
	}
	return len(old)
}
