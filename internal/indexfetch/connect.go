package indexfetch

import (
	"time"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/remote"
)

// partTime is how long one attempt to fetch a part can take.
const partTime = 30 * time.Second

// Connect returns a server to fetch from. It sends nothing.
func Connect(c *cli.Console, o remote.Options) (Server, error) {
	s, err := o.Connect(c, client.WithTimeout(partTime), client.WithRetries(client.Retries{Attempts: 3, First: time.Second}))
	if err != nil {
		return Server{}, err
	}
	return Server{URL: s.URL, Client: s.Client}, nil
}
