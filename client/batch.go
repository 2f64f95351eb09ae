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
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"colophon/client/wire"
)

// Line is one record of a batch: a Record with its key, or a Text.
type Line struct {
	Record wire.Record
	// IdempotencyKey is as in [WriteOptions]: the default is the record's run_id, and without one a random key.
	IdempotencyKey string
	// Text, if it is not nil, is sent in place of the record: one line of NDJSON as POST /batch takes it. It has to
	// have an idempotency_key or a run_id, since it is sent again after a failed connection. The server says what
	// is wrong with it. It must not change until it has its result.
	Text []byte
	// Tag is the caller's own, such as the place of the line in a file. It comes back with the result.
	Tag any
}

// LineResult is what became of one line. Either Receipt or Err is set; both are after a [ReceiptError].
type LineResult struct {
	Index   int // of the line, from 0
	Line    Line
	Receipt *wire.Receipt
	// Text is the receipt as the server sent it, in place of Receipt, if BatchOptions.Undecoded asks for it. It is valid until
	// the next result.
	Text []byte
	// Err is an *[Error] if the server refused the line, [ErrUnanswered], or an error of encoding it.
	Err error
}

// BatchOptions are the options of [RecordsService.Batch]. A nil pointer asks for the defaults.
type BatchOptions struct {
	OnMismatch string // as in [WriteOptions]
	Derive     bool   // as in [WriteOptions]
	Whole      bool   // whole receipts, not minimal ones. A client that verifies receipts always gets these
	Gzip       bool   // compress the lines
	// Undecoded returns receipts as Text, for programs that need little of them: decoding costs more than sending.
	// It has no effect if the client verifies receipts.
	Undecoded bool
	// MaxLines and MaxBytes bound what is sent and not answered, and so the memory that the batch takes. The
	// defaults are 8,192 lines and 16 MiB. One line can always be sent.
	MaxLines, MaxBytes int
}

// Batch posts a sequence of records and returns one result for each, in order: POST /batch. It sends and
// receives at the same time. lines runs in a goroutine of its own, which ends when the loop over the results
// ends and lines yields once more.
//
// A receipt means that its record is durable. Lines that fail do not affect others, and the loop continues. If
// the connection fails, or nothing moves on it for the time of [WithTimeout], or the server has no room for a
// line, Batch connects again and sends the lines that are not answered, which is safe because each has a key or
// a run_id. An error of the sequence ends the batch: records of lines without a result may or may not be
// recorded.
//
// If MaxLines or MaxBytes are sent before the first answer comes, the body ends, and the next begins once it is
// answered. So a batch also gets through a proxy that reads a whole request before it passes it on.
func (s *RecordsService) Batch(ctx context.Context, lines iter.Seq[Line], o *BatchOptions) iter.Seq2[*LineResult, error] {
	return func(yield func(*LineResult, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		b := &batch{ledger: s.ledger}
		b.arrived.L, b.room.L = &b.mu, &b.mu
		if o != nil {
			b.options = *o
		}
		if b.options.MaxLines <= 0 {
			b.options.MaxLines = 8192
		}
		if b.options.MaxBytes <= 0 {
			b.options.MaxBytes = 16 << 20
		}
		context.AfterFunc(ctx, func() { b.change(func() { b.stopped = true }) })
		go b.read(lines)
		b.run(ctx, yield)
	}
}

// batch is one run of an iterator of [RecordsService.Batch]. Three goroutines share it: the reader of the input, the
// sender of the current connection, and the caller's, which receives.
type batch struct {
	ledger   *Ledger
	options  BatchOptions
	moves    atomic.Uint64 // lines taken and answered, and reads of bodies: for watch
	yielding atomic.Bool   // the caller has a result and has not asked for the next

	mu        sync.Mutex // guards what follows
	arrived   sync.Cond  // the sender, or the caller without a connection, may continue
	room      sync.Cond  // the reader may continue
	queue     []*batchLine
	bytes     int  // of the queue
	sent      int  // lines of the queue that the current connection has sent, or is about to send
	full      bool // the reader waits for room
	ended     bool // there is no more input
	stopped   bool // the batch has ended
	connected bool
	streaming bool // the current connection answers while lines are sent
	bodyEnded bool // the current connection has sent all of its lines
}

// batchLine is a line of a batch.
type batchLine struct {
	result LineResult
	text   []byte // without a line end; nil if it is not to be sent, because of result.Err
	want   expected
	repeat bool
	sent   bool
}

// change changes what the other goroutines may wait for.
func (b *batch) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.arrived.Broadcast()
	b.room.Broadcast()
}

// read encodes the input and queues it while there is room.
func (b *batch) read(lines iter.Seq[Line]) {
	index := 0
	for line := range lines {
		if !b.push(b.encode(index, line)) {
			return
		}
		index++
	}
	b.change(func() { b.ended = true })
}

// push queues a line, and reports whether the batch continues.
func (b *batch) push(line *batchLine) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.stopped && len(b.queue) > 0 && (len(b.queue) >= b.options.MaxLines || b.bytes+len(line.text) > b.options.MaxBytes) {
		b.full = true
		b.arrived.Broadcast()
		b.room.Wait()
	}
	b.full = false
	b.queue = append(b.queue, line)
	b.bytes += len(line.text)
	b.arrived.Broadcast()
	return !b.stopped
}

func (b *batch) encode(index int, line Line) *batchLine {
	l := &batchLine{result: LineResult{Index: index, Line: line}}
	if line.Text != nil {
		l.text, l.repeat = withoutLineEnds(line.Text), true
		if b.ledger.verifies() {
			l.want = expectText(line.Text)
		}
		return l
	}
	key, run, kind := line.IdempotencyKey, line.Record.Run(), line.Record.RecordKind()
	if key == "" && run == "" && b.ledger.client.keys {
		key = rand.Text()
	}
	l.repeat = key != "" || run != ""
	if b.ledger.verifies() {
		l.want = expect(kind, key, run)
	}
	text, err := wire.Marshal(wire.BatchLine{Kind: kind, Record: line.Record, IdempotencyKey: key})
	if err != nil {
		l.result.Err = fmt.Errorf("client: line %d: %w", index, err)
		return l
	}
	l.text = withoutLineEnds(text)
	return l
}

// withoutLineEnds replaces line ends by spaces: in JSON they are always between tokens.
func withoutLineEnds(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), []byte(" ")), []byte("\n"), []byte(" "))
}

// run makes connections until every line has a result.
func (b *batch) run(ctx context.Context, yield func(*LineResult, error) bool) {
	for failures := 0; ; {
		if !b.passFailed(yield) {
			return
		}
		if !b.waitForLine() { // connect once there is something to send
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
			}
			return
		}
		if b.oldest().text == nil {
			continue
		}
		answered, err := b.connect(ctx, yield)
		switch {
		case errors.Is(err, errStopped) || errors.Is(err, errComplete):
			return
		case err == nil: // the body ended before the input
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

// waitForLine waits until the queue has a line, and reports whether it has.
func (b *batch) waitForLine() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) == 0 && !b.ended && !b.stopped {
		b.arrived.Wait()
	}
	return len(b.queue) > 0 && !b.stopped
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
	ctx, cancel := context.WithCancelCause(ctx)
	body, pipe := io.Pipe()
	b.change(func() { b.connected, b.streaming, b.bodyEnded, b.sent = true, false, false, 0 })
	var running sync.WaitGroup
	running.Go(func() { b.send(pipe) })
	defer running.Wait()
	defer b.change(func() { b.connected, b.sent = false, 0 })
	defer body.Close() // ends the sender, whatever it does
	defer cancel(nil)
	defer b.watch(b.ledger.client.timeout, cancel).Stop()
	answered, err = b.receive(ctx, watched{body, &b.moves}, yield)
	if silent := context.Cause(ctx); err != nil && errors.Is(silent, errSilent) {
		err = silent
	}
	return answered, err
}

// errSilent ends a connection on which nothing moves.
var errSilent = fmt.Errorf("%w: the server has neither taken nor answered a line", ErrUnreachable)

// watch cancels a connection that, for limit to twice that, neither takes bytes nor answers although lines are
// unanswered and the caller waits for results. It never does if limit is 0. The caller stops the timer.
func (b *batch) watch(limit time.Duration, cancel context.CancelCauseFunc) *time.Timer {
	var timer *time.Timer
	seen := uint64(0) // moves when the timer last fired
	timer = time.AfterFunc(math.MaxInt64, func() {
		// moves comes last: whatever begins a wait has counted a move before.
		waits := !b.yielding.Load() && b.oldestSent() != nil
		moves := b.moves.Load()
		if waits && moves == seen {
			cancel(fmt.Errorf("%w for %v", errSilent, limit))
			return
		}
		seen = moves
		timer.Reset(limit)
	})
	if limit > 0 {
		timer.Reset(limit)
	}
	return timer
}

// watched is a body whose reads count as movement.
type watched struct {
	io.Reader
	moves *atomic.Uint64
}

func (r watched) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.moves.Add(1)
	return n, err
}

// end says what the end of an answer means.
func (b *batch) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.sent > 0:
		return fmt.Errorf("%w: the answer ended before %d lines were answered", ErrUnreachable, b.sent)
	case !b.bodyEnded: // without this, a server that answers nothing would be asked again at once, for ever
		return fmt.Errorf("%w: the answer ended before the lines", ErrUnreachable)
	case b.ended && len(b.queue) == 0:
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

func (b *batch) oldest() *batchLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return nil
	}
	return b.queue[0]
}

// oldestSent is the line that is answered next; nil if the connection has got none that is not answered.
func (b *batch) oldestSent() *batchLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sent == 0 {
		return nil
	}
	return b.queue[0]
}

// drop takes the oldest line from the queue.
func (b *batch) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= len(b.queue[0].text)
	b.queue[0] = nil
	b.queue = b.queue[1:]
	if b.sent > 0 {
		b.sent--
		b.streaming = true
	}
	if b.full {
		b.room.Broadcast()
	}
}

// send writes the queue until the body has to end or is closed.
func (b *batch) send(pipe *io.PipeWriter) {
	out := &batchWriter{Writer: bufio.NewWriterSize(pipe, 64<<10)}
	if b.options.Gzip {
		out.gzip = gzip.NewWriter(pipe)
		out.Reset(out.gzip)
	}
	var taken [64][]byte
	for {
		lines := b.take(taken[:0], false)
		if len(lines) == 0 { // what is written goes out before the sender waits
			if out.flush() != nil {
				return
			}
			lines = b.take(taken[:0], true)
		}
		if len(lines) == 0 {
			break
		}
		for _, text := range lines {
			if _, err := out.Write(text); err != nil {
				return
			}
			if err := out.WriteByte('\n'); err != nil {
				return
			}
		}
	}
	b.change(func() { b.bodyEnded = true })
	if out.close() == nil {
		pipe.Close()
	}
}

// take returns the texts of the next lines, as many as fit into the capacity. None, if it may wait, is the end of the
// body: there is no more input, or none without answers, or the next line is not to be sent.
func (b *batch) take(texts [][]byte, wait bool) [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for wait && b.sent == len(b.queue) && b.connected && !b.ended && !b.stopped && (!b.full || b.streaming) {
		b.arrived.Wait()
	}
	if !b.connected || b.stopped {
		return nil
	}
	b.moves.Add(1)
	for len(texts) < cap(texts) && b.sent < len(b.queue) && b.queue[b.sent].text != nil {
		line := b.queue[b.sent]
		line.sent = true
		texts = append(texts, line.text)
		b.sent++
	}
	return texts
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

// batchAnswer is the answer to a line: one of these.
type batchAnswer struct {
	receipt *wire.Receipt
	problem *Error
	text    []byte // of a receipt that is not decoded
}

// receive makes the request and yields a result for each answer.
func (b *batch) receive(ctx context.Context, body io.Reader, yield func(*LineResult, error) bool) (answered bool, err error) {
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
		return false, err
	}
	defer response.Body.Close()
	lines := c.lines(response.Body, nil)
	for lines.Scan() {
		b.moves.Add(1)
		a, err := b.decode(lines.Bytes())
		if err != nil {
			return answered, err
		}
		line := b.oldestSent()
		switch {
		case line == nil && answered && a.problem != nil && a.problem.Status == http.StatusRequestTimeout:
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
		b.yielding.Store(true)
		if !yield(b.result(line, a), nil) {
			return answered, errStopped
		}
		b.moves.Add(1)
		b.yielding.Store(false)
	}
	if err := lines.Err(); err != nil {
		return answered, err
	}
	return answered, b.end()
}

// decode reads one line of the answer. If the caller wants receipts undecoded, it returns a receipt
// as text.
func (b *batch) decode(text []byte) (a batchAnswer, err error) {
	if b.options.Undecoded && !b.ledger.verifies() && bytes.HasPrefix(text, []byte(`{"ledger":`)) {
		return batchAnswer{text: text}, nil // a problem has no such member
	}
	// One of the two, which have no member in common.
	var line struct {
		wire.Receipt
		wire.Problem
	}
	if err := decode(text, &line); err != nil {
		return a, fmt.Errorf("%w to a line of a batch: %w", ErrAnswer, err)
	}
	switch {
	case line.Status != 0:
		return batchAnswer{problem: &Error{Problem: line.Problem, Request: "line of a batch"}}, nil
	case b.options.Undecoded && !b.ledger.verifies():
		return batchAnswer{text: text}, nil
	}
	return batchAnswer{receipt: &line.Receipt}, nil
}

func (b *batch) result(line *batchLine, a batchAnswer) *LineResult {
	switch {
	case a.problem != nil:
		a.problem.Request = fmt.Sprintf("line %d of a batch", line.result.Index)
		line.result.Err = a.problem
	case a.receipt != nil:
		line.result.Receipt = a.receipt
		line.result.Err = b.ledger.accept(a.receipt, line.want)
	}
	line.result.Text = a.text
	return &line.result
}
