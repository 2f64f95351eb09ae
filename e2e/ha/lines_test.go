package ha_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// line is a TCP relay from its own port to another port on 127.0.0.1. It can be cut, stalled, or delayed.
type line struct {
	t      testing.TB
	listen string // address on which the line listens
	target string

	mu       sync.Mutex
	listener net.Listener   // nil while the line is cut; guarded by mu
	links    map[*link]bool // guarded by mu
	slower   time.Duration  // delay of all data; guarded by mu
	open     chan struct{}  // closed unless the line is stalled; guarded by mu
}

// newLine starts a line to a port on 127.0.0.1. The line is cut when the test ends.
func newLine(t testing.TB, port string) *line {
	t.Helper()
	l := &line{t: t, listen: "127.0.0.1:" + freePort(t), target: "127.0.0.1:" + port, links: make(map[*link]bool), open: make(chan struct{})}
	close(l.open)
	require.NoError(t, l.start())
	t.Cleanup(l.cut)
	return l
}

func (l *line) port() string {
	_, port, _ := net.SplitHostPort(l.listen)
	return port
}

func (l *line) address() string { return l.listen }

// start makes the line listen, unless it already does.
func (l *line) start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp4", l.listen)
	if err != nil {
		return err
	}
	l.listener = listener
	go l.accept(listener)
	return nil
}

func (l *line) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go l.connect(listener, client)
	}
}

// connect dials the target and relays data between it and client until the connection ends.
func (l *line) connect(listener net.Listener, client net.Conn) {
	server, err := net.DialTimeout("tcp4", l.target, 10*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	k := &link{line: l, ends: [2]net.Conn{client, server}, done: make(chan struct{})}
	l.mu.Lock()
	if l.listener != listener { // the line has been cut in the meantime
		l.mu.Unlock()
		_, _ = client.Close(), server.Close()
		return
	}
	l.links[k] = true
	l.mu.Unlock()
	k.run()
}

// cut closes all connections and refuses new ones, until the line is healed.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for k := range l.links {
		k.end()
	}
}

// stall keeps all connections open but forwards nothing until the line is healed.
func (l *line) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
		l.open = make(chan struct{})
	default:
	}
}

// delay delays all data in both directions until the line is healed.
func (l *line) delay(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slower = by
}

// heal undoes the effects of cut, stall, and delay. Data that was held back while the line was
// stalled is then delivered.
func (l *line) heal() {
	l.mu.Lock()
	l.slower = 0
	select {
	case <-l.open:
	default:
		close(l.open)
	}
	l.mu.Unlock()
	if err := l.start(); err != nil {
		l.t.Errorf("healing a line: %v", err)
	}
}

func heal(lines ...*line) {
	for _, l := range lines {
		l.heal()
	}
}

// state returns a channel that is closed unless the line is stalled, and the delay for data on the
// line.
func (l *line) state() (open <-chan struct{}, slower time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.slower
}

// link is a connection that a line relays to its target.
type link struct {
	line *line
	ends [2]net.Conn
	once sync.Once
	done chan struct{} // closed when the link has ended
}

// chunk is data that arrived in a single read. An empty chunk marks the end of the data in its
// direction.
type chunk struct {
	bytes   []byte
	arrived time.Time
}

// These constants limit the data that a stalled line holds back in each direction. Once the limit is
// reached, the sender blocks, as on a congested network.
const (
	chunkBytes = 32 << 10
	chunks     = 128
)

// run relays data between the two ends and returns when both directions are finished.
func (k *link) run() {
	var directions sync.WaitGroup
	for i := range k.ends {
		held := make(chan chunk, chunks)
		directions.Go(func() { k.receive(k.ends[i], held) })
		directions.Go(func() { k.send(k.ends[1-i], held) })
	}
	directions.Wait()
	k.end()
	k.line.mu.Lock()
	delete(k.line.links, k)
	k.line.mu.Unlock()
}

// end closes both ends of the link immediately. It can be called more than once.
func (k *link) end() {
	k.once.Do(func() {
		close(k.done)
		_, _ = k.ends[0].Close(), k.ends[1].Close()
	})
}

func (k *link) receive(from net.Conn, held chan<- chunk) {
	for {
		buffer := make([]byte, chunkBytes)
		n, err := from.Read(buffer)
		c := chunk{buffer[:n], time.Now()}
		if err != nil && !errors.Is(err, io.EOF) {
			k.end()
			return
		}
		if n > 0 || err != nil {
			select {
			case held <- c:
			case <-k.done:
				return
			}
		}
		if err != nil && n > 0 {
			c.bytes = nil
			select {
			case held <- c:
			case <-k.done:
			}
		}
		if err != nil {
			return
		}
	}
}

func (k *link) send(to net.Conn, held <-chan chunk) {
	for {
		var c chunk
		select {
		case c = <-held:
		case <-k.done:
			return
		}
		open, slower := k.line.state()
		select {
		case <-time.After(time.Until(c.arrived.Add(slower))):
		case <-k.done:
			return
		}
		select {
		case <-open:
		case <-k.done:
			return
		}
		if len(c.bytes) == 0 {
			if end, ok := to.(*net.TCPConn); ok {
				_ = end.CloseWrite()
			}
			return
		}
		if _, err := to.Write(c.bytes); err != nil {
			k.end()
			return
		}
	}
}
