package ha_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// network is the lines between servers, databases, and clients.
type network struct{ server *toxiproxy.ApiServer }

func newNetwork() *network {
	return &network{toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())}
}

// line is a line to a port. It has a port of its own.
type line struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// to makes a line to a port of 127.0.0.1.
func (n *network) to(t testing.TB, name, port string) *line {
	t.Helper()
	l := &line{t, toxiproxy.NewProxy(n.server, name, "127.0.0.1:"+freePort(t), "127.0.0.1:"+port)}
	require.NoError(t, l.proxy.Start())
	t.Cleanup(l.proxy.Stop)
	return l
}

// port is the port of the line.
func (l *line) port() string {
	_, port, _ := strings.Cut(l.proxy.Listen, ":")
	return port
}

func (l *line) address() string { return "127.0.0.1:" + l.port() }

// cut ends all connections, and refuses new ones.
func (l *line) cut() { l.proxy.Stop() }

// stall keeps all connections open, and forwards nothing until the line is healed.
func (l *line) stall() { l.delay(time.Hour) }

// delay delays everything in both directions.
func (l *line) delay(by time.Duration) {
	for _, stream := range []string{"upstream", "downstream"} {
		toxic := fmt.Sprintf(`{"type": "latency", "stream": %q, "attributes": {"latency": %d}}`, stream, by.Milliseconds())
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			l.t.Errorf("delaying a line: %v", err)
		}
	}
}

// resetTime is how long a line has to deliver what it held back. Then its connections are closed.
const resetTime = 2 * time.Second

// heal heals lines at the same time, because each can take resetTime.
func heal(lines ...*line) {
	var healing sync.WaitGroup
	for _, l := range lines {
		healing.Go(l.heal)
	}
	healing.Wait()
}

// heal ends what the methods above did.
func (l *line) heal() {
	reset := make(chan struct{})
	go func() {
		l.proxy.Toxics.ResetToxics(context.Background())
		close(reset)
	}()
	select {
	case <-reset:
	case <-time.After(resetTime):
		// Toxiproxy 2.5 can wait for ever for a connection whose receiver does not read.
		l.proxy.Stop()
		<-reset
	}
	if err := l.proxy.Start(); err != nil && err != toxiproxy.ErrProxyAlreadyStarted {
		l.t.Errorf("healing a line: %v", err)
	}
}
