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

// exchange is the connection of a batch request. Both sides can send at the same time, and the
// connection stays open for as long as the client keeps sending or reading.
type exchange struct {
	request    *http.Request
	controller *http.ResponseController
	idle       time.Duration // how long the client can go without sending; it has twice as long to read results
	renewed    time.Time     // when progress last renewed the deadlines; used only by the reading goroutine
}

// exchange starts the response to a batch request.
func (h *Handlers) exchange(c *call.Call) (*exchange, error) {
	response := c.Response()
	e := &exchange{request: c.Request(), controller: http.NewResponseController(response.Writer), idle: h.Limiter.Limits.BatchIdleTimeout}
	// Without full duplex, HTTP/1 reads the whole body before it responds. HTTP/2 is always
	// full duplex and returns ErrNotSupported.
	if err := e.controller.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("enabling full-duplex mode: %w", err)
	}
	c.Writer().BeginStream(2 * e.idle)
	response.Header().Set(echo.HeaderContentType, call.NDJSONMediaType)
	response.WriteHeader(http.StatusOK)
	return e, e.controller.Flush()
}

// progress renews the deadlines for reading and writing. A client is not idle if it sends
// everything before it reads anything, or if it cannot send because the server is busy. Only the
// goroutine that reads may call progress.
func (e *exchange) progress() {
	if now := time.Now(); now.Sub(e.renewed) > e.idle/8 {
		e.renewed = now
		_ = e.controller.SetReadDeadline(now.Add(e.idle))
		_ = e.controller.SetWriteDeadline(now.Add(2 * e.idle))
	}
}

// drain discards the rest of the body if little of it is left; otherwise, it makes this request the
// last on its connection. It runs before the handler returns.
func (e *exchange) drain() {
	_ = e.controller.SetReadDeadline(time.Now().Add(limits.MaxDrainTime))
	n, err := io.CopyN(io.Discard, e.request.Body, limits.MaxDrainBytes)
	if n == limits.MaxDrainBytes || !errors.Is(err, io.EOF) {
		limits.EndConnectionAfter(e.request)
		if e.request.ProtoMajor == 1 {
			// Close the body now, because net/http closes it only after the handler has returned.
			// If the body ended at that point, net/http would start a background read that nothing
			// stops in full duplex, and the read of the next request would panic
			// (golang.org/issue/68560).
			_ = e.request.Body.Close() // an error means that the body was cut off
		}
	}
	_ = e.controller.SetReadDeadline(time.Time{})
	_ = e.controller.SetWriteDeadline(time.Now().Add(2 * e.idle))
}

// stop makes all reads of the body fail, including one that is waiting for the client.
func (e *exchange) stop(cancel context.CancelFunc) {
	cancel() // first, because each read checks ctx before it begins
	_ = e.controller.SetReadDeadline(time.Now())
}
