package indexfetch

import (
	"time"

	"colophon/client"
)

// ClientOptions returns the timeout and the retries for the client of a Server.
func ClientOptions() []client.Option {
	return []client.Option{client.WithTimeout(30 * time.Second), client.WithRetries(client.Retries{Attempts: 3, FirstPause: time.Second})}
}
