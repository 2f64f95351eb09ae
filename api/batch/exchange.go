package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/limits"
)

// exchange is the connection of a batch: both sides send at once, and it lasts as long as the
// client sends or reads.
type exchange struct {
	request    *http.Request
	controller *http.ResponseController
	idle       time.Duration // the longest that the client sends nothing; it has twice as long to read
	renewed    time.Time     // by the goroutine that reads
}

// exchange starts the response of a batch.
func (h *Handlers) exchange(c *call.Call) (*exchange, error) {
	response := c.Response()
	e := &exchange{request: c.Request(), controller: http.NewResponseController(response.Writer), idle: h.Limits.Load.BatchIdle}
	// Without full duplex, HTTP/1 reads the whole body before it responds. HTTP/2 is always
	// full duplex and returns ErrNotSupported.
	if err := e.controller.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("enabling full duplex: %w", err)
	}
	c.Writer().Stream(2 * e.idle)
	response.Header().Set(echo.HeaderContentType, call.NDJSON)
	response.WriteHeader(http.StatusOK)
	return e, e.controller.Flush()
}

// progress renews the deadlines of the client in both directions: a client that sends
// everything before it reads reads nothing meanwhile, and while the server is busy the client
// cannot send. The goroutine that reads calls it.
func (e *exchange) progress() {
	if now := time.Now(); now.Sub(e.renewed) > e.idle/8 {
		e.renewed = now
		_ = e.controller.SetReadDeadline(now.Add(e.idle))
		_ = e.controller.SetWriteDeadline(now.Add(2 * e.idle))
	}
}

// drain reads the rest of a short body, and otherwise ends the connection. It runs before the
// handler returns.
func (e *exchange) drain() {
	_ = e.controller.SetReadDeadline(time.Now().Add(limits.DrainTime))
	n, err := io.CopyN(io.Discard, e.request.Body, limits.DrainBytes)
	if n == limits.DrainBytes || !errors.Is(err, io.EOF) {
		limits.EndConnection(e.request)
		if e.request.ProtoMajor == 1 {
			// net/http closes the body too, but after the handler. If the body ends there, its end
			// starts a read in the background, and in full duplex nothing stops that: the read of
			// the next request panics (golang.org/issue/68560).
			_ = e.request.Body.Close() // it broke off
		}
	}
	_ = e.controller.SetReadDeadline(time.Time{})
	_ = e.controller.SetWriteDeadline(time.Now().Add(2 * e.idle))
}

// stop ends reading, even if the client sends nothing.
func (e *exchange) stop(cancel context.CancelFunc) {
	cancel() // first, since each read checks ctx before it begins
	_ = e.controller.SetReadDeadline(time.Now())
}
