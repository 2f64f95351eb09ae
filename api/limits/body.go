package limits

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// TimedBody is the body of an HTTP/1 request whose unread rest is read for at most MaxDrainTime. It
// is needed because net/http reads part of the rest before it sends the response and before it
// reuses the connection. It must only be used by the goroutine that reads the body.
type TimedBody struct {
	io.ReadCloser
	controller      *http.ResponseController
	expectsContinue bool  // the client is waiting for 100 Continue
	err             error // error from the last read
}

// LimitArrivalTime requires the client to send the body of r within the duration patience, even if no handler reads
// it. It returns the request to serve. Over HTTP/1, i becomes the body of that request, and w drains i before it
// sends the response.
func (i *TimedBody) LimitArrivalTime(r *http.Request, w *Writer, patience time.Duration) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	// net/http clears the deadline at the end of the body and before the next request. The
	// ResponseWriter in a test might not support deadlines.
	_ = w.controller.SetReadDeadline(time.Now().Add(patience))
	if r.ProtoMajor != 1 {
		return r
	}
	*i = TimedBody{ReadCloser: r.Body, controller: &w.controller, expectsContinue: r.Header.Get("Expect") != ""}
	bounded := r.WithContext(r.Context()) // a copy, because net/http owns the original
	bounded.Body, w.body = i, i
	return bounded
}

// Read implements io.Reader.
func (i *TimedBody) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	i.err = err
	return n, err
}

// drain reads and discards the rest of the body, up to MaxDrainBytes, before the response is sent.
// If that does not reach the end of the body, the connection is closed after the response.
func (i *TimedBody) drain(h http.Header) {
	if errors.Is(i.err, io.EOF) {
		return
	}
	_ = i.controller.SetReadDeadline(time.Now().Add(MaxDrainTime))
	if i.err == nil && !i.expectsContinue {
		_, _ = io.CopyN(io.Discard, i, MaxDrainBytes) // i.err records the error
	}
	if !errors.Is(i.err, io.EOF) {
		h.Set(echo.HeaderConnection, "close")
	}
}

// MaxDrainTime and MaxDrainBytes limit how much of an unneeded body is read before a response, or
// after the end of a batch. This way, a client that is still sending sees the response instead of a
// reset connection.
const (
	MaxDrainTime  = time.Second // longest time spent on reading the unneeded body
	MaxDrainBytes = 256 << 10   // largest part of the unneeded body that is read
)
