package limits

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// TimedBody is the body of a request over HTTP/1. Before net/http sends the response, and before it
// reuses the connection, it reads part of a body that no handler has read; TimedBody limits how
// long that takes. It belongs to the goroutine that reads.
type TimedBody struct {
	io.ReadCloser
	controller      *http.ResponseController
	expectsContinue bool  // the client waits for 100 Continue
	err             error // error of the last read
}

// LimitArrivalTime sets a read deadline for the body of r, patience from now. The deadline applies even if no handler
// reads the body. It returns the request to serve. Over HTTP/1, i becomes the body of that request, and w
// drains i before it sends the response.
func (i *TimedBody) LimitArrivalTime(r *http.Request, w *Writer, patience time.Duration) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	// net/http clears the deadline at the end of the body and before the next request. The
	// ResponseWriter of a test might not support deadlines.
	_ = w.controller.SetReadDeadline(time.Now().Add(patience))
	if r.ProtoMajor != 1 {
		return r
	}
	*i = TimedBody{ReadCloser: r.Body, controller: &w.controller, expectsContinue: r.Header.Get("Expect") != ""}
	bounded := r.WithContext(r.Context()) // net/http owns the original
	bounded.Body, w.body = i, i
	return bounded
}

// Read implements io.Reader.
func (i *TimedBody) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	i.err = err
	return n, err
}

// drain reads the rest of a short body. It runs before the response. If the body is longer than
// DrainBytes, the connection is closed after the response.
func (i *TimedBody) drain(h http.Header) {
	if errors.Is(i.err, io.EOF) {
		return
	}
	_ = i.controller.SetReadDeadline(time.Now().Add(DrainTime))
	if i.err == nil && !i.expectsContinue {
		_, _ = io.CopyN(io.Discard, i, DrainBytes) // i.err has the error
	}
	if !errors.Is(i.err, io.EOF) {
		h.Set(echo.HeaderConnection, "close")
	}
}

// DrainTime and DrainBytes limit how much of an unneeded body is read, before a response or
// after a batch has ended. With this, a client that is still sending sees the response instead
// of a reset connection.
const (
	DrainTime  = time.Second
	DrainBytes = 256 << 10
)
