package indexfetch

import (
	"time"

	"colophon/client"
)

// ClientOptions returns the options for the client of a Server. They set the client's timeout and
// retries.
func ClientOptions() []client.Option {
	return []client.Option{client.WithTimeout(30 * time.Second), client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 3, FirstPause: time.Second})}
}
