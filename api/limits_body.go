package api

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// incoming is the body of a request over HTTP/1, where net/http reads some of what no
// handler has read before it answers, and before it lets go of the connection. It
// belongs to the goroutine that reads.
type incoming struct {
	io.ReadCloser
	controller *http.ResponseController
	asked      bool  // the client sends when it is told to go on
	err        error // of the last read
}

// boundBody gives the body of a request its time to come, whether a handler reads it
// or not.
func (c *call) boundBody(patience time.Duration) {
	r := c.request
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	// net/http takes the deadline off when the body has come, and before the next
	// request. Not every ResponseWriter has one; those of tests have no slow clients.
	_ = c.writer.controller.SetReadDeadline(time.Now().Add(patience))
	if r.ProtoMajor != 1 {
		return
	}
	c.incoming = incoming{ReadCloser: r.Body, controller: &c.writer.controller, asked: r.Header.Get("Expect") != ""}
	c.request = r.WithContext(r.Context()) // the original is net/http's
	c.request.Body, c.writer.body = &c.incoming, &c.incoming
}

// Read implements io.Reader.
func (i *incoming) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	i.err = err
	return n, err
}

// part is called before the answer. A body that has not come to its end may do so
// soon, if it is short; else the answer is the last on its connection.
func (i *incoming) part(h http.Header) {
	if errors.Is(i.err, io.EOF) {
		return
	}
	_ = i.controller.SetReadDeadline(time.Now().Add(partingTime))
	if i.err == nil && !i.asked {
		_, _ = io.CopyN(io.Discard, i, partingBytes) // i.err tells
	}
	if !errors.Is(i.err, io.EOF) {
		h.Set(echo.HeaderConnection, "close")
	}
}
