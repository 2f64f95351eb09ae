package limits

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"
)

// Writer gives the client a limited time to take each piece of an answer.
// Who does not read is dropped; who reads slowly is not, however long the answer is.
// It belongs to one goroutine at a time.
type Writer struct {
	http.ResponseWriter
	controller http.ResponseController
	limit      time.Duration
	head       bool // of a HEAD request: what is written is not sent
	metrics    Metrics
	body       *Body // what is left of it goes before the answer; nil: nothing
	renewed    time.Time
	Slot       heavySlot // given back before anything waits for the client
}

// NewWriter returns a writer to w that limits the time for each piece to limit. head
// says that the request is HEAD.
func NewWriter(w http.ResponseWriter, limit time.Duration, head bool, metrics Metrics) Writer {
	return Writer{ResponseWriter: w, controller: *http.NewResponseController(w), limit: limit, head: head, metrics: metrics}
}

// IsHead reports whether the request is HEAD, so that what is written is not sent.
func (w *Writer) IsHead() bool { return w.head }

// Stream prepares the writer for an answer that is sent while the body is read: limit
// replaces the time for each piece, and the body is not read before the answer.
func (w *Writer) Stream(limit time.Duration) { w.limit, w.body = limit, nil }

// ReleaseSlot gives the slot for heavy work back, if the request holds one.
func (w *Writer) ReleaseSlot() { w.Slot.Release() }

// MaxWrite is what the client has to take in one limit, in bytes.
const MaxWrite = 64 << 10

// WriterOf is the writer that a handler's answer goes through.
func WriterOf(c echo.Context) *Writer {
	w, _ := c.Response().Writer.(*Writer)
	return w
}

// renew begins the time for the next piece. What is left of it is precise enough
// while most of it is.
func (w *Writer) renew() {
	if now := time.Now(); now.Sub(w.renewed) > w.limit/8 {
		w.renewed = now
		// Not every ResponseWriter has deadlines; those of tests have no clients.
		_ = w.controller.SetWriteDeadline(now.Add(w.limit))
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	w.Slot.Release()
	if w.body != nil {
		w.body.drain(w.Header())
		w.body = nil
	}
	w.renew()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (written int, err error) {
	w.Slot.Release()
	for {
		w.renew()
		n, err := w.ResponseWriter.Write(b[:min(len(b), MaxWrite)])
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			return written, w.noted(err)
		}
	}
}

// FlushError is what http.ResponseController flushes with.
func (w *Writer) FlushError() error {
	w.renew()
	return w.noted(w.controller.Flush())
}

// ClearDeadline takes the time off while there is nothing to write.
func (w *Writer) ClearDeadline() {
	w.renewed = time.Time{}
	_ = w.controller.SetWriteDeadline(w.renewed)
}

// noted counts an error that means a slow client.
func (w *Writer) noted(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.metrics.Count(RefusedSlowReader)
	}
	return err
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
