package client

import (
	"context"
	"time"
)

// OnSleep makes a client call f instead of pausing, and gives it a clock that only the
// pauses advance.
func OnSleep(c *Client, f func(time.Duration)) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.now = func() time.Time { return now }
	c.sleep = func(ctx context.Context, d time.Duration) error {
		now = now.Add(d)
		f(d)
		return ctx.Err()
	}
}

// Decode parses answers.
var Decode = decode

// Problem converts an answer without a success status to an error.
var Problem = (*Client).problem
