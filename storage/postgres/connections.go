package postgres

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// connections are the open network connections of a Database. A connection to a server that was
// stopped, or that the network no longer reaches, can stay silent for as long as TCP permits, and
// what uses it waits. Closing the connection ends that.
type connections struct {
	mu   sync.Mutex
	open map[*connection]time.Time // when each was begun; guarded by mu
}

// connection is a net.Conn that leaves its connections when it is closed.
type connection struct {
	net.Conn
	of *connections
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// keep returns a dial that notes what it opens.
func (c *connections) keep(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		begun := time.Now()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		kept := &connection{conn, c}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open == nil {
			c.open = make(map[*connection]time.Time)
		}
		c.open[kept] = begun
		return kept, nil
	}
}

// closeBefore closes the connections that were begun before a time, and returns their number.
func (c *connections) closeBefore(t time.Time) int {
	var old []*connection
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
