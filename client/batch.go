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

// BatchLine is one line of a batch: either a Record with its key, or RawJSON.
type BatchLine struct {
	Record wire.Record
	// IdempotencyKey has the same meaning as in [PostOptions]. The default is the record's run_id or, without one, a
	// random key.
	IdempotencyKey string
	// RawJSON, if it is not nil, is sent in place of Record. It is one line of NDJSON as POST
	// /batch expects it. It must contain an idempotency_key or a run_id, because PostBatch sends it
	// again after a failed connection. The server validates it; the client does not. The caller
	// must not change RawJSON before the result of the line arrives.
	RawJSON []byte
	// Tag is a value for the caller's own use, which PostBatch does not send to the server. It is
	// returned in the Line of the result, and can contain, for example, the line's position in a
	// file.
	Tag any
}

// BatchLineResult is the result of one line. Either Receipt or Err is set; after a [ReceiptError], both are.
type BatchLineResult struct {
	Index   int           // index of the line, from 0
	Line    BatchLine     // the line as the caller passed it
	Receipt *wire.Receipt // nil if the server sent no receipt for the line, or if RawReceipt is set
	// RawReceipt is the receipt exactly as the server sent it. With BatchOptions.KeepRawReceipts,
	// it is set instead of Receipt. It is valid only until the next result.
	RawReceipt []byte
	// Err is an *[Error] if the server refused the line, a [ReceiptError], [ErrLineUnanswered], or an error from
	// encoding the line. It is nil if the line succeeded.
	Err error
}

// BatchOptions are the options of [RecordsService.PostBatch]. A nil pointer means the defaults.
type BatchOptions struct {
	OnMismatch            string // what to do with wrong hash claims: accept or reject; see [PostOptions]
	IncludeDerivedMembers bool   // add members derived from earlier events to receipts; see [PostOptions]
	// RequestFullReceipts requests full receipts instead of minimal ones. It is implied if the client
	// verifies receipts.
	RequestFullReceipts bool
	Gzip                bool // compress the lines in the request
	// KeepRawReceipts makes PostBatch set BatchLineResult.RawReceipt instead of
	// BatchLineResult.Receipt. Use it if you need only a few members of each receipt, because
	// decoding a receipt costs more than sending a line. It has no effect if the client verifies
	// receipts.
	KeepRawReceipts bool
	// MaxPendingLines and MaxPendingBytes limit the lines that PostBatch has read but that the server has not yet answered, and
	// therefore the memory that a batch needs. The defaults are 8,192 lines and 16 MiB. A single line can always be
	// sent, whatever its length.
	MaxPendingLines, MaxPendingBytes int
}

// PostBatch posts a sequence of records and returns one result for each, in order: POST /batch. It sends and receives at
// the same time. lines runs in its own goroutine. If the caller leaves the loop over the results early, this
// goroutine ends the next time that lines yields.
//
// A receipt means that its record is durable. A line that fails does not affect other lines, and the loop continues.
// PostBatch reconnects and sends the unanswered lines again if the connection fails, if it makes no progress within the
// limit of [WithTimeout], or if the server temporarily refuses a line. It never resends a line that has neither a key
// nor a run_id; the result of such a line is [ErrLineUnanswered]. The sequence ends after the first non-nil error. The
// records of lines without a result might have been recorded.
//
// If MaxPendingLines or MaxPendingBytes is reached before the first answer arrives, PostBatch ends the request body. It begins the
// next request after the server has answered all lines of the current one. A batch therefore also works through a
// proxy that reads a whole request before forwarding it.
func (s *RecordsService) PostBatch(ctx context.Context, lines iter.Seq[BatchLine], o *BatchOptions) iter.Seq2[*BatchLineResult, error] {
	return func(yield func(*BatchLineResult, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		b := &batch{ledger: s.ledger}
		b.arrived.L, b.room.L = &b.mu, &b.mu
		if o != nil {
			b.options = *o
		}
		if b.options.MaxPendingLines <= 0 {
			b.options.MaxPendingLines = 8192
		}
		if b.options.MaxPendingBytes <= 0 {
			b.options.MaxPendingBytes = 16 << 20
		}
		context.AfterFunc(ctx, func() { b.change(func() { b.stopped = true }) })
		go b.read(lines)
		b.run(ctx, yield)
	}
}

// batch is the state of one iteration of [RecordsService.PostBatch]. Three goroutines share it: one reads the input,
// one sends on the current connection, and the caller's goroutine receives.
type batch struct {
	ledger   *Ledger
	options  BatchOptions
	progress atomic.Uint64 // incremented whenever the batch makes progress; watch checks that it increases
	yielding atomic.Bool   // the caller is processing a result and has not requested the next

	mu            sync.Mutex // guards the fields below
	arrived       sync.Cond  // wakes goroutines that wait for lines: the sender, and the caller between connections
	room          sync.Cond  // wakes the reader when the queue has room
	queue         []*batchLine
	bytes         int  // total size of the lines in the queue
	sent          int  // number of queued lines that the sender has taken for the current connection
	readerWaiting bool // the reader is waiting for room
	ended         bool // there is no more input
	stopped       bool // the batch has ended
	connected     bool
	streaming     bool // the server has begun to answer the current request
	bodyEnded     bool // the current connection has sent all of its lines
}

type batchLine struct {
	result BatchLineResult
	text   []byte // encoded line without a line ending; nil if the line failed and must not be sent
	want   expected
	repeat bool
	sent   bool
}

// change calls f with mu locked, so that f can change the fields that mu guards. It then wakes all waiting
// goroutines.
func (b *batch) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.arrived.Broadcast()
	b.room.Broadcast()
}

// read encodes the input lines and queues them. It waits while the queue is full.
func (b *batch) read(lines iter.Seq[BatchLine]) {
	index := 0
	for line := range lines {
		if !b.push(b.encode(index, line)) {
			return
		}
		index++
	}
	b.change(func() { b.ended = true })
}

// push queues a line, and waits while the queue is full. It returns false if the batch has ended.
func (b *batch) push(line *batchLine) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.stopped && len(b.queue) > 0 && (len(b.queue) >= b.options.MaxPendingLines || b.bytes+len(line.text) > b.options.MaxPendingBytes) {
		b.readerWaiting = true
		b.arrived.Broadcast()
		b.room.Wait()
	}
	b.readerWaiting = false
	b.queue = append(b.queue, line)
	b.bytes += len(line.text)
	b.arrived.Broadcast()
	return !b.stopped
}

func (b *batch) encode(index int, line BatchLine) *batchLine {
	l := &batchLine{result: BatchLineResult{Index: index, Line: line}}
	if line.RawJSON != nil {
		l.text, l.repeat = withoutLineEnds(line.RawJSON), true
		if b.ledger.hasVerifiers() {
			l.want = expectText(line.RawJSON)
		}
		return l
	}
	key, run, kind := line.IdempotencyKey, line.Record.RecordRunID(), line.Record.RecordKind()
	if key == "" && run == "" && b.ledger.client.randomKeys {
		key = rand.Text()
	}
	l.repeat = key != "" || run != ""
	if b.ledger.hasVerifiers() {
		l.want = expect(kind, key, run)
	}
	text, err := wire.Marshal(wire.BatchLine{Kind: kind, Record: line.Record, IdempotencyKey: key})
	if err != nil {
		l.result.Err = fmt.Errorf("client: encoding line %d: %w", index, err)
		return l
	}
	l.text = withoutLineEnds(text)
	return l
}

// withoutLineEnds replaces line breaks with spaces. In valid JSON, they occur only between tokens.
func withoutLineEnds(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), []byte(" ")), []byte("\n"), []byte(" "))
}

// run connects repeatedly until every line has a result, the caller stops, or an error ends the batch.
func (b *batch) run(ctx context.Context, yield func(*BatchLineResult, error) bool) {
	for failures := 0; ; {
		if !b.passFailed(yield) {
			return
		}
		if !b.waitForLine() { // do not connect before there is a line to send
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
		case err == nil: // the request body ended before the input did
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

// waitForLine waits until the queue has a line. It returns false if no line will follow or the batch has ended.
func (b *batch) waitForLine() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) == 0 && !b.ended && !b.stopped {
		b.arrived.Wait()
	}
	return len(b.queue) > 0 && !b.stopped
}

// giveUp sets ErrLineUnanswered for each line that was sent and must not be sent again.
func (b *batch) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.queue {
		if line.sent && !line.repeat && line.text != nil {
			b.bytes -= len(line.text)
			line.text, line.result.Err = nil, ErrLineUnanswered
		}
	}
}

// connect makes one request that sends lines and receives their answers. It returns errComplete if the server has
// answered all lines of the input, and nil if it has answered all lines of this request but more input can follow.
func (b *batch) connect(ctx context.Context, yield func(*BatchLineResult, error) bool) (answered bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	body, pipe := io.Pipe()
	// If the connection breaks before the response begins, the transport keeps reading the request body to its end.
	// Closing the body ends this.
	context.AfterFunc(ctx, func() { body.Close() })
	b.change(func() { b.connected, b.streaming, b.bodyEnded, b.sent = true, false, false, 0 })
	var running sync.WaitGroup
	running.Go(func() { b.send(pipe) })
	defer running.Wait()
	defer b.change(func() { b.connected, b.sent = false, 0 })
	defer body.Close() // stops the sender
	defer cancel(nil)
	defer b.watch(b.ledger.client.timeout, cancel).Stop()
	answered, err = b.receive(ctx, watched{body, &b.progress}, yield)
	if silent := context.Cause(ctx); err != nil && errors.Is(silent, errSilent) {
		err = silent
	}
	return answered, err
}

// errSilent is the cause with which watch cancels a connection that makes no progress.
var errSilent = fmt.Errorf("%w: the server has neither read nor answered a line", ErrUnreachable)

// watch starts a timer that cancels a connection that makes no progress while lines are unanswered and the caller
// waits for results. The server makes progress when it reads from the request or answers. The timer fires between
// limit and twice limit after the last progress. If limit is 0, it never fires. The caller must stop the timer.
func (b *batch) watch(limit time.Duration, cancel context.CancelCauseFunc) *time.Timer {
	var timer *time.Timer
	seen := uint64(0) // progress when the timer last fired
	timer = time.AfterFunc(math.MaxInt64, func() {
		// Read progress last, because whatever makes waits true increments progress first.
		waits := !b.yielding.Load() && b.oldestSent() != nil
		progress := b.progress.Load()
		if waits && progress == seen {
			cancel(fmt.Errorf("%w for %v", errSilent, limit))
			return
		}
		seen = progress
		timer.Reset(limit)
	})
	if limit > 0 {
		timer.Reset(limit)
	}
	return timer
}

// watched wraps a request body and counts each read as progress.
type watched struct {
	io.Reader
	progress *atomic.Uint64
}

func (r watched) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.progress.Add(1)
	return n, err
}

// end returns the error for receive to return when the server has ended its response. Like connect, it
// returns errComplete if all lines of the input were answered, and nil if more lines can follow.
func (b *batch) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.sent > 0:
		return fmt.Errorf("%w: the response ended before all lines were answered (%d unanswered)", ErrUnreachable, b.sent)
	case !b.bodyEnded: // returning nil would make run reconnect in a tight loop if the server answers no line
		return fmt.Errorf("%w: the response ended before all lines were sent", ErrUnreachable)
	case b.ended && len(b.queue) == 0:
		return errComplete
	}
	return nil
}

// passFailed yields the lines at the head of the queue that failed before they were sent. It returns false if the
// caller stops.
func (b *batch) passFailed(yield func(*BatchLineResult, error) bool) bool {
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

// oldestSent returns the line that the server must answer next. It returns nil if all lines sent on the connection
// are answered.
func (b *batch) oldestSent() *batchLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sent == 0 {
		return nil
	}
	return b.queue[0]
}

// drop removes the oldest line from the queue. The line was answered, or it failed before it was
// sent.
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
	if b.readerWaiting {
		b.room.Broadcast()
	}
}

// send writes queued lines to the request body until the body must end or is closed.
func (b *batch) send(pipe *io.PipeWriter) {
	out := &batchWriter{Writer: bufio.NewWriterSize(pipe, 64<<10)}
	if b.options.Gzip {
		out.gzip = gzip.NewWriter(pipe)
		out.Reset(out.gzip)
	}
	var taken [64][]byte
	for {
		lines := b.take(taken[:0], false)
		if len(lines) == 0 { // flush before waiting
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

// take marks up to cap(texts) queued lines as sent and returns their texts. If no line is ready, it returns none
// or, if wait is true, waits for a line. If wait is true and take returns none, the request body must end: the
// input has ended, MaxPendingLines or MaxPendingBytes is reached before the server has begun to answer, the next line must not
// be sent, or the connection has ended.
func (b *batch) take(texts [][]byte, wait bool) [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for wait && b.sent == len(b.queue) && b.connected && !b.ended && !b.stopped && (!b.readerWaiting || b.streaming) {
		b.arrived.Wait()
	}
	if !b.connected || b.stopped {
		return nil
	}
	b.progress.Add(1)
	for len(texts) < cap(texts) && b.sent < len(b.queue) && b.queue[b.sent].text != nil {
		line := b.queue[b.sent]
		line.sent = true
		texts = append(texts, line.text)
		b.sent++
	}
	return texts
}

// batchWriter buffers a request body, and compresses it if BatchOptions.Gzip is set.
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

// batchAnswer is the server's answer to one line. Exactly one field is set.
type batchAnswer struct {
	receipt *wire.Receipt
	problem *Error
	text    []byte // undecoded receipt, if the caller wants raw receipts
}

// receive makes the request and yields a result for each answer.
func (b *batch) receive(ctx context.Context, body io.Reader, yield func(*BatchLineResult, error) bool) (answered bool, err error) {
	c := b.ledger.client
	r := request{method: http.MethodPost, path: b.ledger.path + "/batch", header: map[string]string{"Content-Type": "application/x-ndjson"},
		query: (&PostOptions{OnMismatch: b.options.OnMismatch, IncludeDerivedMembers: b.options.IncludeDerivedMembers}).values()}
	if b.options.Gzip {
		r.header["Content-Encoding"] = "gzip"
	}
	if b.options.RequestFullReceipts || b.ledger.hasVerifiers() {
		r.header["Prefer"] = "return=representation"
	}
	response, err := c.send(ctx, r, body)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	lines := c.lines(response.Body, nil)
	for lines.Scan() {
		b.progress.Add(1)
		a, err := b.decode(lines.Bytes())
		if err != nil {
			return answered, err
		}
		line := b.oldestSent()
		switch {
		case line == nil && answered && a.problem != nil && a.problem.Status == http.StatusRequestTimeout:
			return answered, nil // the server ended the request because no further line arrived in time
		case line == nil && a.problem != nil:
			return answered, a.problem // the problem concerns the whole body, not one line
		case line == nil:
			return answered, fmt.Errorf("%w: the server has answered more lines than were sent", ErrUnexpectedResponse)
		case a.problem != nil && a.problem.Temporary() && line.repeat:
			return answered, a.problem // the line will be sent again
		}
		answered = true
		b.drop()
		b.yielding.Store(true)
		if !yield(b.result(line, a), nil) {
			return answered, errStopped
		}
		b.progress.Add(1)
		b.yielding.Store(false)
	}
	if err := lines.Err(); err != nil {
		return answered, err
	}
	return answered, b.end()
}

// decode parses one line of the response. If the caller wants raw receipts, it returns receipts undecoded.
func (b *batch) decode(text []byte) (a batchAnswer, err error) {
	if b.options.KeepRawReceipts && !b.ledger.hasVerifiers() && bytes.HasPrefix(text, []byte(`{"ledger":`)) {
		return batchAnswer{text: text}, nil // a receipt, because a problem has no member "ledger"
	}
	// The line is either a receipt or a problem. They share no member, so one struct can decode both.
	var line struct {
		wire.Receipt
		wire.Problem
	}
	if err := decode(text, &line); err != nil {
		return a, fmt.Errorf("%w to a line of a batch: %w", ErrUnexpectedResponse, err)
	}
	switch {
	case line.Status != 0:
		return batchAnswer{problem: &Error{Problem: line.Problem, Request: "line of a batch"}}, nil
	case b.options.KeepRawReceipts && !b.ledger.hasVerifiers():
		return batchAnswer{text: text}, nil
	}
	return batchAnswer{receipt: &line.Receipt}, nil
}

func (b *batch) result(line *batchLine, a batchAnswer) *BatchLineResult {
	switch {
	case a.problem != nil:
		a.problem.Request = fmt.Sprintf("line %d of a batch", line.result.Index)
		line.result.Err = a.problem
	case a.receipt != nil:
		line.result.Receipt = a.receipt
		line.result.Err = b.ledger.accept(a.receipt, line.want)
	}
	line.result.RawReceipt = a.text
	return &line.result
}
