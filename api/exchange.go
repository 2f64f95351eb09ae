package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/limits"
)

// exchange is the connection of a batch, which goes both ways at once and lasts for
// as long as the client sends or takes something.
type exchange struct {
	request    *http.Request
	controller *http.ResponseController
	idle       time.Duration // for the client to send; it has twice as long to read
	renewed    time.Time     // by the goroutine that reads
}

// exchange begins to answer a batch.
func (s *Server) exchange(c echo.Context) (*exchange, error) {
	response := c.Response()
	e := &exchange{request: c.Request(), controller: http.NewResponseController(response.Writer), idle: s.limits.Load.BatchIdle}
	// Without it HTTP/1 would read the whole body before it answers; HTTP/2
	// always goes both ways and says that there is nothing to enable.
	if err := e.controller.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("enabling full duplex: %w", err)
	}
	if w := limits.WriterOf(c); w != nil {
		w.Stream(2 * e.idle)
	}
	response.Header().Set(echo.HeaderContentType, ndjson)
	response.WriteHeader(http.StatusOK)
	return e, e.controller.Flush()
}

// progress begins the client's time anew, in both directions: one that sends all
// before it reads takes nothing meanwhile, and while the server takes its time
// nobody can send. It is called by the goroutine that reads.
func (e *exchange) progress() {
	if now := time.Now(); now.Sub(e.renewed) > e.idle/8 {
		e.renewed = now
		_ = e.controller.SetReadDeadline(now.Add(e.idle))
		_ = e.controller.SetWriteDeadline(now.Add(2 * e.idle))
	}
}

// part reads the rest of the body, if it is short, and else ends the connection.
func (e *exchange) part() {
	_ = e.controller.SetReadDeadline(time.Now().Add(limits.DrainTime))
	n, err := io.CopyN(io.Discard, e.request.Body, limits.DrainBytes)
	if n == limits.DrainBytes || !errors.Is(err, io.EOF) {
		limits.EndConnection(e.request)
	}
	_ = e.controller.SetReadDeadline(time.Time{})
	_ = e.controller.SetWriteDeadline(time.Now().Add(2 * e.idle))
}

// stop ends reading, even from a client who sends nothing.
func (e *exchange) stop(cancel context.CancelFunc) {
	cancel() // first: whoever begins to read after it looks
	_ = e.controller.SetReadDeadline(time.Now())
}

// recheck is the least time between two looks at whether a long request may go on.
const recheck = time.Second

// stillAllowed gives a function that says whether whoever makes a request may still
// do what any of these scopes lets him: tokens are revoked and expire while batches
// and streams go on. It looks once a second, and belongs to one goroutine.
func (s *Server) stillAllowed(c echo.Context, scopes access.Scopes) func() error {
	r, name, looked := c.Request(), c.Param("ledger"), time.Now()
	return func() error {
		now := time.Now()
		if now.Sub(looked) < recheck {
			return nil
		}
		looked = now
		identity, err := s.identify(r)
		if err != nil {
			return unauthorized()
		}
		return needs{on: theLedger, any: scopes}.check(identity, name)
	}
}
