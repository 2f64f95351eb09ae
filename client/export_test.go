package client

import (
	"context"
	"time"
)

// OnSleep makes c call f instead of sleeping between attempts. It also gives c a fake clock, which
// advances only by the lengths of the skipped sleeps.
func OnSleep(c *Client, f func(time.Duration)) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.now = func() time.Time { return now }
	c.sleep = func(ctx context.Context, d time.Duration) error {
		now = now.Add(d)
		f(d)
		return ctx.Err()
	}
}

// Decode exports decode for tests.
var Decode = decode

// Problem exports Client.problem for tests.
var Problem = (*Client).problem
