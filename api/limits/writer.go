package limits

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"
)

// Writer gives the client a limited time to read each piece of a response. A client that stops
// reading is disconnected; a slow client is not, however long the response is. Only one goroutine
// can use a Writer at a time.
type Writer struct {
	http.ResponseWriter
	controller http.ResponseController
	limit      time.Duration
	head       bool // the request is HEAD, so the body is not sent
	metrics    Metrics
	body       *TimedBody // request body to drain before the response; nil if there is none
	renewed    time.Time
	HeavySlot  heavySlot      // released before a write waits for the client
	Turn       ReadTurn       // ended before a write waits for the client
	writing    *ReadScheduler // nil unless the request is a write in progress
}

// NewWriter returns a Writer that writes to w and gives the client at most limit to read each
// piece. head reports whether the request method is HEAD.
func NewWriter(w http.ResponseWriter, limit time.Duration, head bool, metrics Metrics) Writer {
	return Writer{ResponseWriter: w, controller: *http.NewResponseController(w), limit: limit, head: head, metrics: metrics}
}

// OmitsBody reports whether the writer omits the body of the response, because the request method
// is HEAD.
func (w *Writer) OmitsBody() bool { return w.head }

// BeginStream prepares the writer for a response that is sent while the body of the request is
// still being read. From then on, the client has at most limit to read each piece, and the writer
// does not drain the body before the response.
func (w *Writer) BeginStream(limit time.Duration) { w.limit, w.body = limit, nil }

// EndHeavyWork releases the request's slot for heavy work and ends its ReadTurn, if it holds
// either.
func (w *Writer) EndHeavyWork() {
	w.HeavySlot.Release()
	w.Turn.Release()
}

// BeginWriteRequest tells t that the request is a write in progress. The write ends when its response
// begins or EndWriteRequest is called.
func (w *Writer) BeginWriteRequest(t *ReadScheduler) {
	w.EndWriteRequest()
	w.writing = t
	t.BeginWrite()
}

// EndWriteRequest ends the write that BeginWriteRequest began, if it is still in progress.
func (w *Writer) EndWriteRequest() {
	if w.writing != nil {
		w.writing.EndWrite()
		w.writing = nil
	}
}

// MaxWriteBytes is the maximum size, in bytes, of one piece of a response. The client has a limited
// time to read each piece.
const MaxWriteBytes = 64 << 10

// WriterOf returns the Writer that sends the response to c, or nil if the response does not use
// a Writer.
func WriterOf(c echo.Context) *Writer {
	w, _ := c.Response().Writer.(*Writer)
	return w
}

// renew restarts the client's time for the next piece. To save system calls, it does nothing
// until an eighth of the time has passed.
func (w *Writer) renew() {
	if now := time.Now(); now.Sub(w.renewed) > w.limit/8 {
		w.renewed = now
		// A ResponseWriter in a test might not support deadlines.
		_ = w.controller.SetWriteDeadline(now.Add(w.limit))
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	w.EndHeavyWork()
	w.EndWriteRequest()
	if w.body != nil {
		w.body.drain(w.Header())
		w.body = nil
	}
	w.renew()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (written int, err error) {
	w.EndHeavyWork()
	for {
		w.renew()
		n, err := w.ResponseWriter.Write(b[:min(len(b), MaxWriteBytes)])
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			return written, w.countSlowRead(err)
		}
	}
}

// FlushError flushes the response. http.ResponseController calls it.
func (w *Writer) FlushError() error {
	w.renew()
	return w.countSlowRead(w.controller.Flush())
}

// ClearDeadline removes the time limit while there is nothing to write.
func (w *Writer) ClearDeadline() {
	w.renewed = time.Time{}
	_ = w.controller.SetWriteDeadline(w.renewed)
}

// countSlowRead returns err. If err means that the client reads too slowly, countSlowRead also counts it in the
// metrics.
func (w *Writer) countSlowRead(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.metrics.CountRefusal(ReasonSlowReader)
	}
	return err
}

// Unwrap returns the underlying ResponseWriter. It is called by http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
