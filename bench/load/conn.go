// Package load generates load for HTTP servers, with as little effect as possible on the machine
// that it shares with them. It composes requests from prepared bodies, and parses only the framing
// of responses.
package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
)

// Conn is one HTTP/1.1 connection. It is not safe for concurrent use.
type Conn struct {
	net.Conn
	in     *bufio.Reader
	out    []byte // buffer for requests
	answer []byte // buffer for responses
}

// Dial opens a connection to an address of the form host:port.
func Dial(address string) (*Conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

// DialAll opens count connections. If one fails, it closes the others.
func DialAll(address string, count int) ([]*Conn, error) {
	connections := make([]*Conn, 0, count)
	for range count {
		c, err := Dial(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening %d connections: %w", count, err), CloseAll(connections))
		}
		connections = append(connections, c)
	}
	return connections, nil
}

// CloseAll closes all connections, and joins the errors.
func CloseAll(connections []*Conn) error {
	var errs []error
	for _, c := range connections {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// PostRequestHead returns the beginning of a POST request: the request line, the headers, and the name of
// the Content-Length header. The caller must append the length.
func PostRequestHead(path string, headers ...string) []byte {
	head := []byte("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n")
	for _, h := range headers {
		head = append(append(head, h...), "\r\n"...)
	}
	return append(head, "Content-Length: "...)
}

// Send writes a request with a single write. head is a result of PostRequestHead.
func (c *Conn) Send(head, body []byte) error {
	c.out = append(c.out[:0], head...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	_, err := c.Write(c.out)
	return err
}

// Get requests a path and returns the status and the body of the response.
func (c *Conn) Get(path string) (status int, body []byte, err error) {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return 0, nil, err
	}
	return c.Receive(nil)
}

// Receive reads a response and appends its body to dst.
func (c *Conn) Receive(dst []byte) (status int, all []byte, err error) {
	status, body, err := c.ReadHead()
	if err != nil {
		return 0, dst, err
	}
	for more := true; more && err == nil; {
		dst, more, err = body.Append(dst)
	}
	return status, dst, err
}

// ReadHead reads the status line and the headers of a response. The caller must read the whole body
// before it uses the connection again.
func (c *Conn) ReadHead() (status int, body Body, err error) {
	body.from = c
	line, err := c.line()
	if err != nil {
		return 0, body, fmt.Errorf("reading the status: %w", err)
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, body, fmt.Errorf("%.100q is not a status line", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, body, fmt.Errorf("parsing the status in %.100q: %w", line, err)
	}
	for {
		if line, err = c.line(); err != nil {
			return 0, body, fmt.Errorf("reading headers: %w", err)
		}
		if len(line) == 0 {
			return status, body, nil
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(name) {
		case "Content-Length":
			if body.length, err = strconv.Atoi(string(value)); err != nil {
				return 0, body, fmt.Errorf("parsing the length of the response: %w", err)
			}
		case "Transfer-Encoding":
			body.chunked = string(value) == "chunked"
		}
	}
}

// Body is a response body that is being read.
type Body struct {
	from    *Conn
	length  int // in bytes; not set if the body is chunked
	chunked bool
}

// Append appends the next part of the body to dst: a chunk or, if the body is not chunked, the
// whole body. more reports whether another part follows.
func (b Body) Append(dst []byte) (all []byte, more bool, err error) {
	if !b.chunked {
		dst, err = b.from.append(dst, b.length)
		return dst, false, err
	}
	line, err := b.from.line()
	if err != nil {
		return dst, false, fmt.Errorf("reading the size of a chunk: %w", err)
	}
	size, err := strconv.ParseUint(string(line), 16, 31)
	if err != nil {
		return dst, false, fmt.Errorf("parsing the size of a chunk: %w", err)
	}
	if dst, err = b.from.append(dst, int(size)); err != nil {
		return dst, false, err
	}
	if line, err = b.from.line(); err != nil {
		return dst, false, fmt.Errorf("reading the end of a chunk: %w", err)
	}
	if len(line) > 0 {
		return dst, false, fmt.Errorf("a chunk ends with %.100q instead of a line end", line)
	}
	return dst, size > 0, nil
}

// line reads a line and returns it without its line ending. The result is valid until the next
// read.
func (c *Conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// append reads the next size bytes and appends them to dst.
func (c *Conn) append(dst []byte, size int) ([]byte, error) {
	begin := len(dst)
	dst = slices.Grow(dst, size)[:begin+size]
	if _, err := io.ReadFull(c.in, dst[begin:]); err != nil {
		return dst, fmt.Errorf("reading the body of a response: %w", err)
	}
	return dst, nil
}
