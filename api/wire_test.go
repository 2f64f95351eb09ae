package api

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// connection is a minimal HTTP client connection. It parses only the status and the length of each
// response.
type connection struct {
	t      testing.TB
	conn   net.Conn
	buffer []byte // holds the bytes of one response
}

func (s *service) wire(t testing.TB) *connection {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.http.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &connection{t: t, conn: conn, buffer: make([]byte, 64<<10)}
}

// ask sends a request, reads the whole response, and requires the given status.
func (w *connection) ask(request []byte, status int) {
	_, err := w.conn.Write(request)
	require.NoError(w.t, err)
	for read, end := 0, -1; end < 0 || read < end; {
		n, err := w.conn.Read(w.buffer[read:])
		require.NoError(w.t, err)
		read += n
		if end < 0 {
			end = w.end(w.buffer[:read], status)
		}
	}
}

// end returns the length of a response, or -1 if its header is not complete yet. A complete header
// must have the given status.
func (w *connection) end(answer []byte, status int) int {
	header, _, whole := bytes.Cut(answer, []byte("\r\n\r\n"))
	if !whole {
		return -1
	}
	got, _ := strconv.Atoi(string(header[len("HTTP/1.1 "):len("HTTP/1.1 200")]))
	_, length, _ := bytes.Cut(header, []byte("\r\nContent-Length: "))
	length, _, _ = bytes.Cut(length, []byte("\r\n"))
	n, err := strconv.Atoi(string(length))
	if got != status || err != nil {
		require.Fail(w.t, "unexpected answer", "it needs the status %d and a Content-Length: %s", status, answer)
	}
	return len(header) + len("\r\n\r\n") + n
}

// request returns the bytes of an HTTP/1.1 request.
func request(method, path, kind, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", method, path, kind, len(body), body)
}

// sampleRecord returns a typical IPC record of about 1.4 KB. Each i yields a different payload,
// output, and run_id; the prompt is always the same.
func sampleRecord(i int) string {
	return fmt.Sprintf(`{"run_id":"run/%d","model":"gpt-4","temperature":0.7,"max_tokens":256,"payload":{"instruction":"%s%d"},"system_prompt":"%s","output":"%s%d"}`,
		i, strings.Repeat("a question about the river ", 18), i, strings.Repeat("You answer briefly. ", 10), strings.Repeat("a sentence of the answer ", 20), i)
}
