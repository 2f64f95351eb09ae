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

// exchange is the connection of a batch. Both sides can send at the same time. The connection
// stays open for as long as the client sends or reads.
type exchange struct {
	request    *http.Request
	controller *http.ResponseController
	idle       time.Duration // longest time that the client can stay silent; it has twice as long to read
	renewed    time.Time     // only the reading goroutine uses it
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
	c.Writer().BeginStream(2 * e.idle)
	response.Header().Set(echo.HeaderContentType, call.NDJSON)
	response.WriteHeader(http.StatusOK)
	return e, e.controller.Flush()
}

// progress renews the client's deadlines in both directions, because a client that sends
// everything before it reads does not read in the meantime, and a client cannot send while the
// server is busy. The goroutine that reads calls it.
func (e *exchange) progress() {
	if now := time.Now(); now.Sub(e.renewed) > e.idle/8 {
		e.renewed = now
		_ = e.controller.SetReadDeadline(now.Add(e.idle))
		_ = e.controller.SetWriteDeadline(now.Add(2 * e.idle))
	}
}

// drain reads the rest of the body if it is short, and otherwise makes this request the last
// on its connection. It runs before the handler returns.
func (e *exchange) drain() {
	_ = e.controller.SetReadDeadline(time.Now().Add(limits.DrainTime))
	n, err := io.CopyN(io.Discard, e.request.Body, limits.DrainBytes)
	if n == limits.DrainBytes || !errors.Is(err, io.EOF) {
		limits.EndConnection(e.request)
		if e.request.ProtoMajor == 1 {
			// net/http also closes the body, but after the handler. If the body ends there,
			// net/http starts a background read, which nothing stops in full duplex, and the
			// read of the next request panics (golang.org/issue/68560).
			_ = e.request.Body.Close() // an error means that the body broke off
		}
	}
	_ = e.controller.SetReadDeadline(time.Time{})
	_ = e.controller.SetWriteDeadline(time.Now().Add(2 * e.idle))
}

// stop makes reads of the body fail, including a read that is waiting for the client.
func (e *exchange) stop(cancel context.CancelFunc) {
	cancel() // first, because each read checks ctx before it begins
	_ = e.controller.SetReadDeadline(time.Now())
}
