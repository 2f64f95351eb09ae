package api

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"
)

// patientWriter gives the client a limited time to take each piece of an answer.
// Who does not read is dropped; who reads slowly is not, however long the answer is.
// It belongs to one goroutine at a time.
type patientWriter struct {
	http.ResponseWriter
	controller http.ResponseController
	limit      time.Duration
	head       bool // of a HEAD request: what is written is not sent
	metrics    loadMetrics
	body       *incoming // what is left of it goes before the answer; nil: nothing
	renewed    time.Time
	slot       heavySlot // given back before anything waits for the client
}

// piece is what the client has to take in one limit, in bytes.
const piece = 64 << 10

// writerOf is the writer that a handler's answer goes through.
func writerOf(c echo.Context) *patientWriter {
	w, _ := c.Response().Writer.(*patientWriter)
	return w
}

// renew begins the time for the next piece. What is left of it is precise enough
// while most of it is.
func (w *patientWriter) renew() {
	if now := time.Now(); now.Sub(w.renewed) > w.limit/8 {
		w.renewed = now
		// Not every ResponseWriter has deadlines; those of tests have no clients.
		_ = w.controller.SetWriteDeadline(now.Add(w.limit))
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *patientWriter) WriteHeader(status int) {
	w.slot.giveBack()
	if w.body != nil {
		w.body.part(w.Header())
		w.body = nil
	}
	w.renew()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *patientWriter) Write(b []byte) (written int, err error) {
	w.slot.giveBack()
	for {
		w.renew()
		n, err := w.ResponseWriter.Write(b[:min(len(b), piece)])
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			return written, w.noted(err)
		}
	}
}

// FlushError is what http.ResponseController flushes with.
func (w *patientWriter) FlushError() error {
	w.renew()
	return w.noted(w.controller.Flush())
}

// rest takes the time off while there is nothing to write.
func (w *patientWriter) rest() {
	w.renewed = time.Time{}
	_ = w.controller.SetWriteDeadline(w.renewed)
}

// noted counts an error that means a slow client.
func (w *patientWriter) noted(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.metrics.refuse(refusedSlowReader)
	}
	return err
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
