package postgrestest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Fault says how a Proxy handles a COMMIT.
type Fault int

// The faults. After any fault other than FaultNone, the proxy closes the client's connection.
const (
	FaultNone         Fault = iota // the proxy forwards the COMMIT and its answer
	FaultBeforeCommit              // the proxy drops the COMMIT and closes the connection to the server
	FaultDuringCommit              // the proxy forwards the COMMIT and closes the connection to the server at once
	FaultAfterCommit               // the server has answered the COMMIT, but the answer does not reach the client
	FaultHoldCommit                // the server receives the COMMIT only when the test calls ReleaseCommit
	FaultDropCommit                // the proxy drops the COMMIT but keeps the connection to the server open
)

// Proxy forwards client connections to a server.
type Proxy struct {
	listener net.Listener
	server   *Server
	fault    func() Fault
	release  chan struct{}
	ended    chan struct{} // closed at the end of the test
	notices  atomic.Int32  // how notifications are handled: passed, dropped, or refused

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
	wait  sync.WaitGroup
}

// NewProxy starts a proxy, which stops at the end of the test. The proxy calls fault for each
// COMMIT, on the goroutine that serves the connection.
func NewProxy(t testing.TB, server *Server, fault func() Fault) *Proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: listener, server: server, fault: fault, release: make(chan struct{}), ended: make(chan struct{}), conns: make(map[net.Conn]bool)}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		close(p.ended)
		p.CloseConnections()
		p.wait.Wait()
	})
	return p
}

// Ways in which a Proxy handles notifications.
const (
	passed = iota
	dropped
	refused
)

// DropNotifications makes the proxy drop notifications, as a connection pooler might. It affects
// only later connections.
func (p *Proxy) DropNotifications() { p.notices.Store(dropped) }

// RefuseNotifications makes the proxy reject LISTEN statements and calls to pg_notify, like a
// server that does not support them. It affects only later connections.
func (p *Proxy) RefuseNotifications() { p.notices.Store(refused) }

// URL returns a connection string for the server's default database through the proxy. options
// alternates between names and values of connection options.
func (p *Proxy) URL(options ...string) string {
	return connection("127.0.0.1", p.listener.Addr().(*net.TCPAddr).Port, options)
}

// ReleaseCommit forwards a COMMIT that the fault FaultHoldCommit has held back. It blocks until the proxy
// holds one back.
func (p *Proxy) ReleaseCommit() { p.release <- struct{}{} }

// CloseConnections closes all connections.
func (p *Proxy) CloseConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.pass(client) })
	}
}

// keep registers a connection, so that CloseConnections closes it. done closes and unregisters the
// connection.
func (p *Proxy) keep(conn net.Conn) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, conn)
		_ = conn.Close()
	}
}

// cancelRequest is the beginning of a request to cancel a statement, which pgx sends on a new connection after
// it has lost one. The proxy drops these requests, as a network that has failed does. If one reached the
// server while a statement runs, the transaction would end and release the head row.
var cancelRequest = []byte("\x00\x00\x00\x10\x04\xd2\x16\x2e")

// commitMessage is the message for the simple query "commit", as pgx sends it.
var commitMessage = []byte("Q\x00\x00\x00\x0bcommit\x00")

// boundCommit is the beginning of a message that binds the prepared statement "commit", after the type
// and the length of the message. It contains the name that pgx gives to the statement.
var boundCommit = func() []byte {
	digest := sha256.Sum256([]byte("commit"))
	return []byte("\x00stmt_" + hex.EncodeToString(digest[:24]) + "\x00")
}()

// commitAt returns the offset of the COMMIT in messages, or -1 if there is none.
func commitAt(messages []byte) int {
	const head = 5 // length in bytes of a message header, which consists of a type and a length
	if at := bytes.Index(messages, boundCommit); at >= head {
		return at - head
	}
	return bytes.Index(messages, commitMessage)
}

func (p *Proxy) pass(client net.Conn) {
	closeClient := p.keep(client)
	defer closeClient()
	server, err := net.Dial("unix", p.server.SocketPath())
	if err != nil {
		return
	}
	closeServer := p.keep(server)
	var mute atomic.Bool // if set, the server's answers are dropped
	notices := p.notices.Load()
	answered := make(chan struct{}, 1)
	var back sync.WaitGroup
	back.Go(func() {
		defer close(answered)
		var without withoutNotifications
		_ = relay(server, func(message []byte) error {
			if mute.Load() {
				select {
				case answered <- struct{}{}:
				default:
				}
				return nil
			}
			if notices == dropped {
				message = without.next(message)
			}
			_, err := client.Write(message)
			return err
		})
		closeClient()
	})
	err = relay(client, func(message []byte) error {
		if notices == refused && (bytes.Contains(message, []byte("LISTEN")) || bytes.Contains(message, []byte("pg_notify"))) {
			_, err := client.Write(unsupported)
			return err
		}
		if bytes.HasPrefix(message, cancelRequest) {
			return io.EOF
		}
		commit := commitAt(message)
		if commit < 0 {
			_, err := server.Write(message)
			return err
		}
		fault := p.fault()
		mute.Store(fault != FaultNone)
		if _, err := server.Write(message[:commit]); err != nil {
			return err
		}
		message = message[commit:]
		switch fault {
		case FaultBeforeCommit:
			return io.EOF
		case FaultHoldCommit:
			closeClient()
			select {
			case <-p.release:
			case <-p.ended:
				return io.EOF
			}
		case FaultDropCommit:
			return errLost
		}
		if _, err := server.Write(message); err != nil || fault == FaultNone {
			return err
		}
		if fault != FaultDuringCommit {
			<-answered
		}
		return io.EOF
	})
	if errors.Is(err, errLost) {
		closeClient()
		back.Wait() // blocks until the server closes the connection
	}
	closeServer()
	back.Wait()
}

// unsupported is the response of a server that does not support a statement. It consists of an
// error message and a ReadyForQuery message.
var unsupported = []byte("E\x00\x00\x00\x22SERROR\x00C0A000\x00Munimplemented\x00\x00Z\x00\x00\x00\x05I")

// withoutNotifications removes notifications from the messages that a server sends.
type withoutNotifications struct{ rest []byte }

// next takes bytes that have just arrived and returns all complete messages except notifications.
// It keeps an incomplete message until the rest of it arrives.
func (w *withoutNotifications) next(arrived []byte) (messages []byte) {
	const head = 5 // length in bytes of a message header, which consists of a type and a length
	w.rest = append(w.rest, arrived...)
	for len(w.rest) >= head {
		length := 1 + int(binary.BigEndian.Uint32(w.rest[1:]))
		if len(w.rest) < length {
			break
		}
		if w.rest[0] != 'A' {
			messages = append(messages, w.rest[:length]...)
		}
		w.rest = w.rest[length:]
	}
	return messages
}

var errLost = errors.New("the message is lost")

// relay passes the bytes that it reads from a connection to the function each. It returns when a
// read or a call to each fails.
func relay(from net.Conn, each func(message []byte) error) error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := each(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
