package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/ledger/record"
)

// A batch goes through four stages, each of which keeps the order of the lines:
//
//	read lines → parse and prepare (parallel) → enqueue → wait, encode → spool
//
// and the spool is written to the client as fast as it reads. Each stage is
// bounded, so that a batch of any length takes a bounded amount of memory.
const (
	chunkLines = 128       // lines that go through the stages together
	chunkBytes = 256 << 10 // about as many bytes
	queued     = 4         // chunks between two stages
)

// batch takes records as NDJSON and answers line for line, in both directions at
// once (3.1).
func (s *Server) batch(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	o, err := s.options(c, l)
	if err != nil {
		return err
	}
	if o.key != "" {
		return fault(http.StatusBadRequest, "Idempotency-Key belongs to one record; give each line its idempotency_key")
	}
	o.minimal = preference(c) != "representation"
	if err := contentType(c.Request(), ndjson); err != nil {
		return err
	}
	open, err := decompressor(c.Request().Header.Get(echo.HeaderContentEncoding))
	if err != nil {
		return err
	}
	response := c.Response()
	controller := http.NewResponseController(response)
	// Without it HTTP/1 would read the whole body before it answers; HTTP/2
	// always goes both ways and says that there is nothing to enable.
	if err := controller.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("enabling full duplex: %w", err)
	}
	response.Header().Set(echo.HeaderContentType, ndjson)
	response.WriteHeader(http.StatusOK)
	if err := controller.Flush(); err != nil {
		return err
	}
	b := &batch{server: s, ledger: l, options: o, open: open, body: c.Request().Body}
	return b.run(c.Request().Context(), response, controller)
}

// decompressor opens a body of that Content-Encoding.
func decompressor(encoding string) (func(io.Reader) (io.ReadCloser, error), error) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }, nil
	case "gzip":
		return func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }, nil
	case "zstd":
		return func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}, nil
	}
	return nil, fault(http.StatusUnsupportedMediaType, "Content-Encoding must be gzip, zstd or identity")
}

// maxWindow bounds, in bytes, what a zstd body can make the server hold.
const maxWindow = 32 << 20

// batch is one request's batch.
type batch struct {
	server  *Server
	ledger  *ledger.Ledger
	options options
	open    func(io.Reader) (io.ReadCloser, error)
	body    io.Reader
}

// chunk is some lines on their way through the stages.
type chunk struct {
	buffer []byte
	lines  []lineSpan
	items  []batchItem
	parsed chan struct{} // closed when items are ready to be enqueued
}

// lineSpan is a line in chunk.buffer, or what is wrong with it.
type lineSpan struct {
	start, end int
	number     int // from 1
	err        error
}

// batchItem is one line's record and what becomes of it.
type batchItem struct {
	record     *record.Record
	submission ledger.Submission
	refused    bool
	key        string // of the line; empty if it has none
	ticket     ledger.Ticket
	err        error
}

// run moves the batch through its stages until the body has ended and every
// line is answered, or the client is gone.
func (b *batch) run(ctx context.Context, w io.Writer, controller *http.ResponseController) error {
	read := make(chan *chunk, queued)
	waiting := make(chan *chunk, queued)
	room := func() error { return b.ledger.Writable(ctx) }
	out := newSpool(b.server.config.SpoolMemory, b.server.config.SpoolDir, room)
	written := make(chan error, 1)
	go b.read(ctx, read)
	go b.enqueue(ctx, read, waiting)
	go func() { written <- out.drain(w, controller.Flush) }()
	var failed error
	for c := range waiting {
		if err := b.answer(ctx, c, out); err != nil && failed == nil {
			failed = err // go on: what was enqueued must be waited for
		}
	}
	out.finish()
	return errors.Join(failed, <-written)
}

// read cuts the body into lines and has them parsed. What it sends on, it sends
// in order; parsing goes on in parallel, at most one chunk a core.
func (b *batch) read(ctx context.Context, chunks chan<- *chunk) {
	defer close(chunks)
	cores := make(chan struct{}, runtime.GOMAXPROCS(0))
	lines := newLineReader(b.open, b.body, b.server.config.MaxLine)
	defer lines.close()
	for {
		c := &chunk{parsed: make(chan struct{})}
		more := b.fill(lines, c)
		if len(c.lines) > 0 {
			select {
			case cores <- struct{}{}:
			case <-ctx.Done():
				return
			}
			go func() {
				b.parse(c)
				<-cores
			}()
			select {
			case chunks <- c:
			case <-ctx.Done():
				<-c.parsed
				c.release()
				return
			}
		}
		if !more {
			return
		}
	}
}

// fill reads the lines of one chunk. A panic here, say of a decompressor, is in
// no request's goroutine: it would end the server.
func (b *batch) fill(lines *lineReader, c *chunk) (more bool) {
	defer func() {
		if r := recover(); r != nil {
			lines.number++
			c.lines = append(c.lines, lineSpan{number: lines.number, err: panicked(r)})
		}
	}()
	return lines.fill(c)
}

// parse decodes and prepares every line of a chunk.
func (b *batch) parse(c *chunk) {
	defer close(c.parsed)
	c.items = make([]batchItem, len(c.lines))
	for i, l := range c.lines {
		if c.items[i].err = l.err; l.err == nil {
			b.prepare(&c.items[i], c.buffer[l.start:l.end])
		}
	}
}

// prepare decodes and prepares one line.
func (b *batch) prepare(item *batchItem, text []byte) {
	// A panic here is in no request's goroutine: it would end the server.
	defer func() {
		if r := recover(); r != nil {
			item.err = panicked(r)
		}
	}()
	line, err := b.server.config.Limits.ParseLine(text)
	if err != nil {
		item.err = err
		return
	}
	o := b.options
	o.key = line.Key
	item.record, item.key = line.Record, line.Key
	item.submission, item.refused, item.err = prepare(b.ledger, line.Record, o)
}

// enqueue hands the lines to the sequencer, in order, and waits for room.
func (b *batch) enqueue(ctx context.Context, chunks <-chan *chunk, waiting chan<- *chunk) {
	defer close(waiting)
	for c := range chunks {
		<-c.parsed
		for i := range c.items {
			if item := &c.items[i]; item.err == nil {
				item.ticket, item.err = b.ledger.Enqueue(ctx, item.submission)
			}
		}
		waiting <- c
	}
}

// answer waits for every line of a chunk and spools what became of it.
func (b *batch) answer(ctx context.Context, c *chunk, out *spool) error {
	defer c.release()
	var encoded bytes.Buffer
	logged := false // one of a chunk is enough: they fail for the same reason
	for i := range c.items {
		item := &c.items[i]
		line, err := b.result(ctx, item)
		if err != nil {
			p, internal := asProblem(err)
			if internal && !logged {
				logged = true
				b.server.config.Log.Error("line of a batch failed", "ledger", b.ledger.Name(), "error", err)
			}
			p.Line = c.lines[i].number
			_ = encodeJSON(&encoded, p) // a problem and a buffer: neither can fail
			continue
		}
		encoded.Write(line)
		encoded.WriteByte('\n')
	}
	return out.write(encoded.Bytes())
}

// result is the receipt of one line as JSON; a problem comes as the error.
func (b *batch) result(ctx context.Context, item *batchItem) (line []byte, err error) {
	// The lines behind this one must be waited for, whatever happens here.
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
	}()
	if item.err != nil {
		return nil, item.err
	}
	ack, err := item.ticket.Wait()
	if err != nil {
		return nil, err
	}
	o := outcome{record: item.record, refused: item.refused, minimal: b.options.minimal, derive: b.options.derive, key: item.key, ack: ack}
	receipt, err := b.server.receiptOf(context.WithoutCancel(ctx), b.ledger, o)
	if err != nil {
		return nil, err
	}
	if p := o.problem(); p != nil {
		p.Receipt = receipt.AppendJSON(nil)
		return nil, p
	}
	return b.server.encodeReceipt(ctx, b.ledger, o, receipt), nil
}

// release gives back the records of a chunk. Those that were enqueued must have
// been waited for.
func (c *chunk) release() {
	for i := range c.items {
		if r := c.items[i].record; r != nil {
			r.Release()
		}
	}
}
