package limits

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Body is the body of a request over HTTP/1, where net/http reads some of what no
// handler has read before it answers, and before it lets go of the connection. It
// belongs to the goroutine that reads.
type Body struct {
	io.ReadCloser
	controller      *http.ResponseController
	expectsContinue bool  // the client sends when it is told to go on
	err             error // of the last read
}

// Limit limits the time for the body of r to arrive, whether a handler reads it or not. It
// returns the request to serve, whose body is i over HTTP/1; w calls i.part before the
// answer.
func (i *Body) Limit(r *http.Request, w *Writer, patience time.Duration) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	// net/http takes the deadline off when the body has come, and before the next
	// request. Not every ResponseWriter has one; those of tests have no slow clients.
	_ = w.controller.SetReadDeadline(time.Now().Add(patience))
	if r.ProtoMajor != 1 {
		return r
	}
	*i = Body{ReadCloser: r.Body, controller: &w.controller, expectsContinue: r.Header.Get("Expect") != ""}
	bounded := r.WithContext(r.Context()) // net/http owns the original
	bounded.Body, w.body = i, i
	return bounded
}

// Read implements io.Reader.
func (i *Body) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	i.err = err
	return n, err
}

// drain is called before the answer. A body that has not come to its end may do so
// soon, if it is short; else the answer is the last on its connection.
func (i *Body) drain(h http.Header) {
	if errors.Is(i.err, io.EOF) {
		return
	}
	_ = i.controller.SetReadDeadline(time.Now().Add(DrainTime))
	if i.err == nil && !i.expectsContinue {
		_, _ = io.CopyN(io.Discard, i, DrainBytes) // i.err tells
	}
	if !errors.Is(i.err, io.EOF) {
		h.Set(echo.HeaderConnection, "close")
	}
}

// What is read of a body that nobody needs, after a batch has ended or before another
// answer, so that a client that still sends sees the answer rather than that nobody
// listens.
const (
	DrainTime  = time.Second
	DrainBytes = 256 << 10
)
