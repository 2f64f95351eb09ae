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
// or not. What it returns is nil where there is nothing to wait for at the end.
func (s *Server) boundBody(w http.ResponseWriter, r *http.Request) (*http.Request, *incoming) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	controller := http.NewResponseController(w)
	// net/http takes the deadline off when the body has come, and before the next
	// request. Not every ResponseWriter has one; those of tests have no slow clients.
	_ = controller.SetReadDeadline(time.Now().Add(s.config.BodyTimeout))
	if r.ProtoMajor != 1 {
		return r, nil
	}
	body := &incoming{ReadCloser: r.Body, controller: controller, asked: r.Header.Get("Expect") != ""}
	r = r.WithContext(r.Context()) // the original is net/http's
	r.Body = body
	return r, body
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
