package client

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"

	"colophon/client/wire"
)

// Line is one record of a batch.
type Line struct {
	Record wire.Record
	// IdempotencyKey is as in [WriteOptions]: the default is the record's run_id, and without one a random key.
	IdempotencyKey string
}

// LineResult is what became of one line. Either Receipt or Err is set; both are after a [ReceiptError].
type LineResult struct {
	Index   int // of the line, from 0
	Line    Line
	Receipt *wire.Receipt
	// Err is an *[Error] if the server refused the line, [ErrUnanswered], or an error of encoding it.
	Err error
}

// BatchOptions are the options of [RecordsService.Batch]. A nil pointer asks for the defaults.
type BatchOptions struct {
	OnMismatch string // as in [WriteOptions]
	Derive     bool   // as in [WriteOptions]
	Whole      bool   // whole receipts, not minimal ones. A client that verifies receipts always gets these
	Gzip       bool   // compress the lines
	// MaxLines and MaxBytes bound what is sent and not answered, and so the memory that the batch takes. The
	// defaults are 8,192 lines and 16 MiB. One line can always be sent.
	MaxLines, MaxBytes int
}

// Batch posts a sequence of records and returns one result for each, in order: POST /batch. It sends and
// receives at the same time. lines runs in a goroutine of its own, which ends when the loop over the results
// ends and lines yields once more.
//
// A receipt means that its record is durable. Lines that fail do not affect others, and the loop goes on. If
// the connection fails, or the server has no room for a line, Batch connects again and sends the lines that
// are not answered, which is safe because each has a key or a run_id. An error of the sequence ends the
// batch: records of lines without a result may or may not be recorded.
//
// A body ends, and the next begins, when MaxLines or MaxBytes are sent and not answered. So a batch also gets
// through a proxy that reads a whole request before it passes it on.
func (s *RecordsService) Batch(ctx context.Context, lines iter.Seq[Line], o *BatchOptions) iter.Seq2[*LineResult, error] {
	return func(yield func(*LineResult, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		b := &batch{ledger: s.ledger, input: make(chan *batchLine), local: make(chan struct{}, 1)}
		if o != nil {
			b.options = *o
		}
		if b.options.MaxLines <= 0 {
			b.options.MaxLines = 8192
		}
		if b.options.MaxBytes <= 0 {
			b.options.MaxBytes = 16 << 20
		}
		go b.read(ctx, lines)
		b.run(ctx, yield)
	}
}

// batch is one run of an iterator of [RecordsService.Batch].
type batch struct {
	ledger  *Ledger
	options BatchOptions
	input   chan *batchLine // closed at the end
	local   chan struct{}   // has an element if a line may be failed without being sent

	mu    sync.Mutex
	queue []*batchLine // sent or about to be, and not answered; oldest first
	bytes int          // of the queue
	ended bool         // there is no more input
}

// batchLine is a line on its way.
type batchLine struct {
	result LineResult
	text   []byte // with its line end; nil if it is not to be sent, because of result.Err
	want   expected
	repeat bool
	sent   bool
}

// read encodes the input.
func (b *batch) read(ctx context.Context, lines iter.Seq[Line]) {
	defer close(b.input)
	index := 0
	for line := range lines {
		select {
		case b.input <- b.encode(index, line):
		case <-ctx.Done():
			return
		}
		index++
	}
}

func (b *batch) encode(index int, line Line) *batchLine {
	key, run, kind := line.IdempotencyKey, line.Record.Run(), line.Record.RecordKind()
	if key == "" && run == "" && b.ledger.client.keys {
		key = rand.Text()
	}
	l := &batchLine{result: LineResult{Index: index, Line: line}, want: expect(kind, key, run), repeat: key != "" || run != ""}
	text, err := wire.Marshal(wire.BatchLine{Kind: kind, Record: line.Record, IdempotencyKey: key})
	if err != nil {
		l.result.Err = fmt.Errorf("client: line %d: %w", index, err)
		return l
	}
	// A line end in JSON is always between tokens.
	l.text = append(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), []byte(" ")), []byte("\n"), []byte(" ")), '\n')
	return l
}

// run makes connections until every line has a result.
func (b *batch) run(ctx context.Context, yield func(*LineResult, error) bool) {
	for failures := 0; ; {
		if !b.passFailed(yield) {
			return
		}
		if b.oldest() == nil { // connect once there is something to send
			select {
			case line, more := <-b.input:
				if !more {
					return
				}
				b.push(line)
				continue
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
		answered, err := b.connect(ctx, yield)
		switch {
		case errors.Is(err, errStopped) || errors.Is(err, errComplete):
			return
		case err == nil: // the body was full
			failures = 0
			continue
		case ctx.Err() != nil:
			yield(nil, ctx.Err())
			return
		case !repeatable(err):
			yield(nil, err)
			return
		}
		if answered {
			failures = 0
		}
		failures++
		if err := b.ledger.client.pause(ctx, failures, err); err != nil {
			yield(nil, err)
			return
		}
		b.giveUp()
	}
}

// giveUp fails the lines that were sent and cannot be sent again.
func (b *batch) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.queue {
		if line.sent && !line.repeat && line.text != nil {
			b.bytes -= len(line.text)
			line.text, line.result.Err = nil, ErrUnanswered
		}
	}
}

// connect makes one request. Its error is nil if the body ended and was answered to the end, and there may be
// more lines; errComplete if there are none.
func (b *batch) connect(ctx context.Context, yield func(*LineResult, error) bool) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	body, pipe := io.Pipe()
	answers := make(chan batchAnswer)
	var running sync.WaitGroup
	running.Go(func() { b.send(ctx, pipe) })
	running.Go(func() {
		defer close(answers)
		b.receive(ctx, body, answers)
	})
	defer running.Wait()
	defer body.Close() // ends the sender, whatever it does
	defer cancel()
	for {
		if !b.passFailed(yield) {
			return answered, errStopped
		}
		select {
		case <-b.local:
		case a, more := <-answers:
			if !more {
				return answered, b.end()
			}
			if a.err != nil {
				return answered, a.err
			}
			line := b.oldest()
			switch {
			case line == nil && a.problem != nil && a.problem.Status == http.StatusRequestTimeout:
				return answered, nil // the input has paused for longer than the server waits
			case line == nil && a.problem != nil:
				return answered, a.problem // about the body, not a line
			case line == nil:
				return answered, fmt.Errorf("%w: the server has answered more lines than were sent", ErrAnswer)
			case a.problem != nil && a.problem.Temporary() && line.repeat:
				return answered, a.problem // the line is sent again
			}
			answered = true
			b.drop()
			if !yield(b.result(line, a), nil) {
				return answered, errStopped
			}
		}
	}
}

// end says what the end of an answer means.
func (b *batch) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.queue) > 0:
		return fmt.Errorf("%w: the answer ended before %d lines were answered", ErrUnreachable, len(b.queue))
	case b.ended:
		return errComplete
	}
	return nil
}

// passFailed yields the lines at the head of the queue that are not to be sent.
func (b *batch) passFailed(yield func(*LineResult, error) bool) bool {
	for {
		line := b.oldest()
		if line == nil || line.text != nil {
			return true
		}
		b.drop()
		if !yield(&line.result, nil) {
			return false
		}
	}
}

func (b *batch) result(line *batchLine, a batchAnswer) *LineResult {
	if a.problem != nil {
		a.problem.Request = fmt.Sprintf("line %d of a batch", line.result.Index)
		line.result.Err = a.problem
		return &line.result
	}
	line.result.Receipt = a.receipt
	line.result.Err = b.ledger.accept(a.receipt, line.want)
	return &line.result
}

func (b *batch) oldest() *batchLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return nil
	}
	return b.queue[0]
}

func (b *batch) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= len(b.queue[0].text)
	b.queue[0] = nil
	b.queue = b.queue[1:]
}

// push adds a line of the input, and reports whether the queue is full.
func (b *batch) push(line *batchLine) (full bool) {
	b.mu.Lock()
	b.queue = append(b.queue, line)
	b.bytes += len(line.text)
	full = len(b.queue) >= b.options.MaxLines || b.bytes >= b.options.MaxBytes
	b.mu.Unlock()
	if line.text == nil {
		select {
		case b.local <- struct{}{}:
		default:
		}
	}
	return full
}

// send writes the queue, and then the input until the queue is full. It ends when the body ends or is closed.
func (b *batch) send(ctx context.Context, pipe *io.PipeWriter) {
	out := &batchWriter{Writer: bufio.NewWriterSize(pipe, 64<<10)}
	if b.options.Gzip {
		out.gzip = gzip.NewWriter(pipe)
		out.Reset(out.gzip)
	}
	b.mu.Lock()
	again := append([]*batchLine(nil), b.queue...)
	full := len(b.queue) >= b.options.MaxLines || b.bytes >= b.options.MaxBytes
	b.mu.Unlock()
	for _, line := range again {
		if b.write(out, line) != nil {
			return
		}
	}
	for !full {
		line, more, err := b.next(ctx, out)
		if err != nil {
			return
		}
		if !more {
			b.mu.Lock()
			b.ended = true
			b.mu.Unlock()
			break
		}
		full = b.push(line)
		if b.write(out, line) != nil {
			return
		}
	}
	if out.close() == nil {
		pipe.Close()
	}
}

func (b *batch) write(out *batchWriter, line *batchLine) error {
	b.mu.Lock()
	text := line.text
	line.sent = true
	b.mu.Unlock()
	_, err := out.Write(text)
	return err
}

// next takes a line of the input. Before it waits for one, it sends what is written.
func (b *batch) next(ctx context.Context, out *batchWriter) (line *batchLine, more bool, err error) {
	select {
	case line, more = <-b.input:
		return line, more, nil
	default:
	}
	if err := out.flush(); err != nil {
		return nil, false, err
	}
	select {
	case line, more = <-b.input:
		return line, more, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// batchWriter buffers a body, and may compress it.
type batchWriter struct {
	*bufio.Writer
	gzip *gzip.Writer
}

func (w *batchWriter) flush() error {
	if err := w.Flush(); err != nil || w.gzip == nil {
		return err
	}
	return w.gzip.Flush()
}

func (w *batchWriter) close() error {
	if err := w.Flush(); err != nil || w.gzip == nil {
		return err
	}
	return w.gzip.Close()
}

// batchAnswer is the answer to a line, or why there are no more.
type batchAnswer struct {
	receipt *wire.Receipt
	problem *Error
	err     error
}

// receive makes the request and reads its answers.
func (b *batch) receive(ctx context.Context, body io.Reader, answers chan<- batchAnswer) {
	pass := func(a batchAnswer) bool {
		select {
		case answers <- a:
			return a.err == nil
		case <-ctx.Done():
			return false
		}
	}
	c := b.ledger.client
	r := request{method: http.MethodPost, path: b.ledger.path + "/batch", header: map[string]string{"Content-Type": "application/x-ndjson"},
		query: (&WriteOptions{OnMismatch: b.options.OnMismatch, Derive: b.options.Derive}).values()}
	if b.options.Gzip {
		r.header["Content-Encoding"] = "gzip"
	}
	if b.options.Whole || b.ledger.verifies() {
		r.header["Prefer"] = "return=representation"
	}
	response, err := c.send(ctx, r, body)
	if err != nil {
		pass(batchAnswer{err: err})
		return
	}
	defer response.Body.Close()
	lines := c.lines(response.Body, nil)
	for lines.Scan() {
		// One of the two, which have no member in common.
		var line struct {
			wire.Receipt
			wire.Problem
		}
		a := batchAnswer{receipt: &line.Receipt}
		if err := decode(lines.Bytes(), &line); err != nil {
			a.err = fmt.Errorf("%w to a line of a batch: %w", ErrAnswer, err)
		}
		if line.Status != 0 {
			a = batchAnswer{problem: &Error{Problem: line.Problem, Request: "line of a batch"}}
		}
		if !pass(a) {
			return
		}
	}
	if err := lines.Err(); err != nil {
		pass(batchAnswer{err: err})
	}
}
