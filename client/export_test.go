package client

import (
	"context"
	"time"
)

// OnSleep replaces the pauses of a client, and its clock, which the pauses advance.
func OnSleep(c *Client, f func(time.Duration)) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.now = func() time.Time { return now }
	c.sleep = func(ctx context.Context, d time.Duration) error {
		now = now.Add(d)
		f(d)
		return ctx.Err()
	}
}

// Decode is the function that reads answers.
var Decode = decode

// Problem is the function that reads an answer that is not a success.
var Problem = (*Client).problem
