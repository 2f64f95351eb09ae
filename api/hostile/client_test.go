package hostile_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// answer is a response that the client has finished reading.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // why the response is incomplete; nil if it is complete
	own    bool  // whether the answer comes from net/http itself and not from a handler
}

// broken reports whether the answer is incomplete.
func (a *answer) broken() bool { return a.err != nil }

// errLeft is the error of an answer that the client did not wait for.
var errLeft = errors.New("left without waiting")

// patience is how long a client waits for an answer before it considers the server stuck. A client
// stops reading a stream, which never ends, after streamPatience.
const (
	patience       = 5 * time.Minute
	streamPatience = 20 * time.Millisecond
)

// client sends requests over one connection, which it keeps open for as long as the server does. It
// must be used by only one goroutine.
type client struct {
	address string
	conn    net.Conn // nil if there is no connection
	reader  *bufio.Reader
	before  *request // the previous request on the connection; nil if there was none
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // an error does not matter; no data can be lost
		c.conn, c.before = nil, nil
	}
}

// exchange pipelines the requests and reads an answer to each of them. It stops after an answer
// that is missing or incomplete, or that closes the connection.
func (c *client) exchange(requests []*request) []*answer {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			return []*answer{{err: fmt.Errorf("connecting: %w", err)}}
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(patience)) // never fails: the connection is open
	sent := make(chan struct{})
	go func(to net.Conn) {
		defer close(sent)
		send(to, requests)
	}(c.conn)
	defer func() { <-sent }()
	last := requests[len(requests)-1]
	if last.way.leave {
		<-sent
		c.close()
		return []*answer{{err: errLeft}}
	}
	var answers []*answer
	keep := true
	for _, r := range requests {
		a := c.read(r.method)
		answers = append(answers, a)
		if keep = a.err == nil && !strings.EqualFold(a.header.Get("Connection"), "close"); !keep {
			break
		}
	}
	if !keep || last.way.garbled || last.way.send > 0 || last.proto != "HTTP/1.1" {
		c.close()
		return answers
	}
	c.before = last
	return answers
}

// send writes the requests. It stops silently at the first write error, because the server can
// refuse a request before it has read all of it. The answer then gives the reason.
func send(to net.Conn, requests []*request) {
	var text []byte
	for _, r := range requests {
		text = append(text, r.text()...)
	}
	how := requests[len(requests)-1].way
	if how.send > 0 {
		text = text[:min(len(text), how.send)]
	}
	size := max(1, len(text)/max(1, how.parts))
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := to.Write(text[:n]); err != nil {
			return
		}
		text = text[n:]
	}
	if how.send > 0 || how.garbled {
		_ = to.(*net.TCPConn).CloseWrite() // the server might have closed the connection already
	}
}

// read reads the answer to a request with the given method. It skips 100 Continue responses.
func (c *client) read(method string) *answer {
	for {
		response, err := http.ReadResponse(c.reader, &http.Request{Method: method})
		if err != nil {
			return &answer{err: fmt.Errorf("no answer: %w", err)}
		}
		if response.StatusCode == http.StatusContinue {
			continue
		}
		a := &answer{status: response.StatusCode, header: response.Header}
		if response.Close {
			a.header.Set("Connection", "close")
		}
		if strings.HasPrefix(a.header.Get("Content-Type"), streamType) {
			_ = c.conn.SetReadDeadline(time.Now().Add(streamPatience))
		}
		var body bytes.Buffer
		_, a.err = io.Copy(&body, response.Body)
		a.body = body.Bytes()
		a.own = a.header.Get("Date") == "" // every answer from a handler has this header
		if errors.Is(a.err, os.ErrDeadlineExceeded) && len(a.header.Values("Content-Length")) == 0 {
			a.err = errLeft
		}
		return a
	}
}
