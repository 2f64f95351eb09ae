// Package batch accepts records as lines of a stream, and answers each line while it reads
// further lines.
package batch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/api/records"
	"colophon/ledger"
	"colophon/ledger/record"
)

// Handlers serves the batch route.
type Handlers struct {
	*call.ServerState
	Records *records.Handlers
	// SpoolDir is the folder for temporary files that hold results until the client reads them.
	SpoolDir string
}

// A batch goes through these stages, each of which keeps the order of the lines:
//
//	read lines → parse and prepare (parallel) → enqueue → wait, encode → spool
//
// The spool is written to the client as fast as the client reads. Each stage has a limit, so
// that a batch of any length needs a bounded amount of memory.
const (
	chunkLines      = 128       // maximum number of lines in a chunk
	chunkBytes      = 256 << 10 // approximate maximum size of a chunk, in bytes
	maxQueuedChunks = 16        // maximum number of chunks that wait between two stages; they accumulate while a commit is in progress
)

// PostBatch accepts records as NDJSON and answers each line. It reads and writes at the same time
// (spec: Requests).
func (h *Handlers) PostBatch(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	o, err := h.Records.ReadOptions(c, l)
	if err != nil {
		return err
	}
	if o.IdempotencyKey != "" {
		return problem.New(http.StatusBadRequest, "the Idempotency-Key header applies to a single record; in a batch, give each line its own idempotency_key")
	}
	o.MinimizeReceipt = c.ReturnPreference() != "representation"
	if err := call.CheckContentType(c.Request(), call.NDJSONMediaType); err != nil {
		return err
	}
	open, err := limits.Decompressor(c.Request().Header.Get(echo.HeaderContentEncoding), c.HoldWriteMemory)
	if err != nil {
		return err
	}
	who := c.LimitKey()
	if !h.Limiter.BatchSlots.TakeShare(who) {
		return limits.NewRejectedError(limits.ReasonBatches, http.StatusServiceUnavailable, time.Second,
			"too many batches are open, from this caller or in total (limit %d); try again later", h.Limiter.Limits.MaxBatches)
	}
	defer h.Limiter.BatchSlots.Release(who)
	exchange, err := h.exchange(c)
	if err != nil {
		return err
	}
	b := &batch{Handlers: h, ledger: l, values: h.RecordLimits.WithPayloadMemberSecret(l.PayloadMemberSecret()), options: o, open: open, body: c.Request().Body, exchange: exchange,
		caller: who, holder: c.Holder(), allowed: c.ScopeRechecker(access.ScopeWrite)}
	return b.run(c.Request().Context(), c.Response())
}

type batch struct {
	*Handlers
	ledger  *ledger.Ledger
	values  record.Limits // limits on each record
	options records.Options
	open    limits.DecompressFunc
	body    io.Reader
	*exchange
	caller  string        // caller whose rate limit applies to the lines
	holder  limits.Holder // holder whose share of memory the lines use
	allowed func() error  // returns an error once the caller is no longer allowed to write
	results *call.Buffer  // results of the chunk that is being answered; used only by the goroutine that runs answer
}

// chunk is a group of lines that go through the stages together.
type chunk struct {
	buffer []byte
	share  limits.MemoryShare // share of the memory budget for bodies
	lines  []lineSpan
	items  []batchItem
	parsed chan struct{} // closed when items are ready to be enqueued
	// writing is the scheduler on which begin has called BeginWrite. It is nil before begin and
	// after end.
	writing *limits.ReadScheduler
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// maxPooledChunk is the maximum size, in bytes, of a chunk buffer that is kept for reuse.
const maxPooledChunk = 4 * chunkBytes

// newChunk returns an empty chunk that takes its memory from budget on behalf of the given holder.
// The chunk goes back to the pool when release is called.
func newChunk(budget *limits.MemoryBudget, who limits.Holder) *chunk {
	c := chunks.Get().(*chunk)
	c.share, c.parsed = limits.MemoryShare{Budget: budget, Holder: who}, make(chan struct{})
	return c
}

// parsingSemaphore returns the semaphore to acquire before parsing a chunk. Long chunks use the semaphore for
// heavy work, so that a chunk with one long line does not delay other chunks.
func (h *Handlers) parsingSemaphore(c *chunk) chan struct{} {
	if len(c.buffer) > 2*chunkBytes {
		return h.Limiter.HeavyWorkLimiter.Slots
	}
	return h.Limiter.ParseSlots
}

// lineSpan is the location of a line in chunk.buffer, or the error that the line caused.
type lineSpan struct {
	start, end int
	number     int // line number, starting at 1
	err        error
}

// batchItem holds the record of one line and the result for that line.
type batchItem struct {
	record     *record.Record // nil for an action
	submission ledger.Submission
	validation *record.PathValidationLine // if not nil, enqueue prepares submission once the paths in earlier lines are in the log
	refused    bool
	key        string      // the line's idempotency key, or ""
	native     *nativeLine // nil unless the line has a "format" member
	ticket     ledger.Ticket
	err        error
}

// run moves the batch through its stages until the body has ended and every line is answered,
// or the client has disconnected.
func (b *batch) run(ctx context.Context, w io.Writer) error {
	// net/http cancels the context of a request if its body is cut off, but the lines that have
	// arrived must still be recorded and answered.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	read := make(chan *chunk, maxQueuedChunks)
	waiting := make(chan *chunk, maxQueuedChunks)
	out := newSpool(b.spoolBounds(func() error { return b.ledger.CheckWritable(ctx) }))
	written := make(chan error, 1)
	go b.read(ctx, read)
	go b.enqueue(ctx, read, waiting)
	go func() {
		err := out.drain(w, b.controller.Flush)
		if err != nil {
			b.stop(cancel) // the client can no longer receive the results of further lines
		}
		written <- err
	}()
	b.results = results.Get()
	defer b.results.Release()
	var failed error
	for c := range waiting {
		if err := b.answer(ctx, c, out); err != nil && failed == nil {
			failed = err // continue the loop, because all enqueued lines must be awaited
			b.stop(cancel)
		}
	}
	out.finish()
	return errors.Join(failed, <-written)
}

// read splits the body into lines and starts parsing them. It passes on the chunks in order while
// they are still being parsed in parallel.
func (b *batch) read(ctx context.Context, chunks chan<- *chunk) {
	defer close(chunks)
	lines := newLineReader(ctx, b.open, b.body, int(b.Limiter.Limits.MaxLineSize))
	lines.most = b.Limiter.Rates.LinesPerWait(chunkLines)
	defer func() {
		lines.close()
		b.drain()
	}()
	for {
		c := newChunk(b.Limiter.WriteMemory, b.holder)
		more, err := b.next(ctx, lines, c)
		if err != nil {
			c.release()
			return
		}
		if len(c.lines) > 0 {
			c.begin(b.Limiter.ReadScheduler)
			core := b.parsingSemaphore(c)
			select {
			case core <- struct{}{}:
			case <-ctx.Done():
				c.release()
				return
			}
			go func() {
				b.parse(ctx, c)
				<-core
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

// next reads one chunk, and waits until the caller's rate limit allows its lines. After an
// error, no further lines are read.
func (b *batch) next(ctx context.Context, lines *lineReader, c *chunk) (more bool, err error) {
	before := lines.number
	b.progress()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	more = b.fill(lines, c)
	if err := b.allowed(); err != nil {
		c.cut(0, 0)
		c.lines, lines.number = nil, before
		lines.end(c, err)
		return false, nil
	}
	return more, b.Limiter.Rates.WaitForLines(ctx, b.caller, lines.number-before, b.progress)
}

// fill reads the lines of one chunk. It recovers from a panic, for example in a decompressor:
// net/http recovers only the goroutine of a request, so a panic here would crash the server.
func (b *batch) fill(lines *lineReader, c *chunk) (more bool) {
	defer func() {
		if r := recover(); r != nil {
			lines.number++
			c.lines = append(c.lines, lineSpan{number: lines.number, err: problem.FromPanic(r)})
		}
	}()
	return lines.fill(c)
}

// parse decodes and prepares every line of a chunk.
func (b *batch) parse(ctx context.Context, c *chunk) {
	defer close(c.parsed)
	c.items = slices.Grow(c.items[:0], len(c.lines))[:len(c.lines)]
	for i, l := range c.lines {
		if c.items[i].err = l.err; l.err == nil {
			b.prepare(ctx, &c.items[i], c.buffer[l.start:l.end])
		}
	}
}

// prepare decodes one line and prepares its submission. If the line is a validation, enqueue
// prepares the submission instead.
func (b *batch) prepare(ctx context.Context, item *batchItem, text []byte) {
	defer item.recover()
	line, err := b.values.ParseBatchLine(text)
	if err != nil && hasFormat(err) {
		line, item.native, err = b.parseNative(text)
	}
	if err != nil {
		item.err = err
		return
	}
	o := b.options
	o.IdempotencyKey = line.Key
	item.record, item.validation, item.key = line.Record, line.Validation, line.Key
	switch {
	case line.Action != nil:
		item.submission, item.err = records.PrepareAction(ctx, b.ledger, line.Action, o)
	case line.Record != nil:
		item.submission, item.refused, item.err = records.PrepareRecord(b.ledger, line.Record, o)
	}
}

// enqueue passes the lines to the sequencer in order, waiting for room in its queue if necessary.
func (b *batch) enqueue(ctx context.Context, chunks <-chan *chunk, waiting chan<- *chunk) {
	defer close(waiting)
	var path *ledger.Ticket // ticket of the last path that was enqueued since the last validation; nil if there is none
	for c := range chunks {
		<-c.parsed
		b.checkSources(ctx, c)
		for i := range c.items {
			item := &c.items[i]
			if item.validation != nil && item.err == nil {
				if path != nil {
					_, _ = path.Wait() // an error is reported on the line of the path itself
					path = nil
				}
				b.prepareValidation(ctx, item)
			}
			if item.err != nil {
				continue
			}
			item.ticket, item.err = b.ledger.Enqueue(ctx, item.submission)
			if item.err == nil && item.record != nil && item.record.Kind == record.KindPathFingerprint {
				ticket := item.ticket
				path = &ticket
			}
		}
		waiting <- c
	}
}

// prepareValidation prepares the submission of a validation. The paths in earlier lines must
// already be in the log.
func (b *batch) prepareValidation(ctx context.Context, item *batchItem) {
	defer item.recover()
	o := b.options
	o.IdempotencyKey = item.key
	item.submission, item.err = b.Records.PrepareValidation(ctx, b.ledger, item.validation, o)
}

// checkSources refuses citation sets that cite unregistered sources, if the ledger is configured to
// reject them. It might wait for the index, so the caller must not occupy a core.
func (b *batch) checkSources(ctx context.Context, c *chunk) {
	if !b.ledger.RejectsUnregisteredSources() {
		return
	}
	sources := b.Records.NewSourceChecker(b.ledger)
	defer sources.Close()
	for i := range c.items {
		if item := &c.items[i]; item.err == nil && item.record != nil && !item.refused {
			item.checkSources(ctx, sources)
		}
	}
}

// recover turns a panic into the error of the line. It must be deferred: net/http recovers only the
// goroutine of a request, so a panic in another one would crash the server.
func (item *batchItem) recover() {
	if r := recover(); r != nil {
		item.err = problem.FromPanic(r)
	}
}

func (item *batchItem) checkSources(ctx context.Context, sources *records.SourceChecker) {
	defer item.recover()
	item.err = sources.Check(ctx, item.record, &item.submission)
}

// answer waits for every line of a chunk and spools the results in pieces, so that the client
// can read the first piece while the next one is encoded.
func (b *batch) answer(ctx context.Context, c *chunk, out *spool) error {
	defer c.release()
	if c.refused() {
		// No line of the chunk was recorded. The chunk therefore waits for a turn, like a request
		// that only reads.
		c.end()
		var turn limits.ReadTurn
		if err := turn.Take(ctx, b.Limiter.ReadScheduler, func() limits.Holder { return b.holder }); err != nil {
			return err
		}
		defer turn.Release()
	}
	text := b.results.Text[:0]
	logged := false // one log message per chunk is enough, because its lines usually fail for the same reason
	statuses := make(map[int]int)
	for i := range c.items {
		if len(text) >= limits.MaxWriteBytes {
			_ = out.write(text) // the last write returns the error again
			text = text[:0]
			runtime.Gosched() // let the spool's reader send this piece, so that the next one is not spooled to a file
		}
		line, status, err := b.result(ctx, text, &c.items[i])
		if err == nil {
			text = append(line, '\n')
			statuses[status]++
			continue
		}
		p, internal := problem.FromError(err)
		if internal && !logged && ctx.Err() == nil {
			logged = true
			b.Logger.Error("cannot process a line of a batch", "ledger", b.ledger.Name(), "error", err)
		}
		p.Line = c.lines[i].number
		b.LimitMetrics.CountRefusal(p.Reason)
		statuses[p.Status]++
		text = p.AppendLine(text)
	}
	b.LimitMetrics.CountLines(statuses)
	b.results.Text = text
	return out.write(text)
}

// result appends the receipt of one line as JSON, and returns the status that the line would
// have had as a separate request. If the line has a problem, result returns it as the error.
func (b *batch) result(ctx context.Context, dst []byte, item *batchItem) (text []byte, status int, err error) {
	// If handling this line panics, the later lines must still be awaited.
	defer func() {
		if r := recover(); r != nil {
			err = problem.FromPanic(r)
		}
	}()
	if item.err != nil {
		return nil, 0, item.err
	}
	ack, err := item.ticket.Wait()
	if err != nil {
		return nil, 0, err
	}
	o := &records.Outcome{Record: item.record, Refused: item.refused, MinimizeReceipt: b.options.MinimizeReceipt, IncludeDerivedMembers: b.options.IncludeDerivedMembers, IdempotencyKey: item.key, Ack: ack}
	receipt, err := o.Receipt(context.WithoutCancel(ctx), b.ledger)
	if err != nil {
		return nil, 0, err
	}
	if p := o.Problem(); p != nil {
		p.Receipt = receipt.AppendJSON(nil)
		return nil, 0, p
	}
	dst = b.Records.AppendReceipt(ctx, dst, b.ledger, o, receipt)
	if item.native != nil {
		dst = b.appendImported(context.WithoutCancel(ctx), dst, item.native, receipt.Seq, ack.Outcome == ledger.OutcomeReplayed)
	}
	return dst, o.Status(), nil
}

// cut truncates the buffer to start bytes and shrinks the chunk's share of memory to held bytes.
func (c *chunk) cut(start int, held int64) {
	c.buffer = c.buffer[:start]
	c.share.ShrinkTo(held)
}

// begin marks the lines as a write in progress.
func (c *chunk) begin(t *limits.ReadScheduler) {
	c.writing = t
	t.BeginWrite()
}

// end reverses begin.
func (c *chunk) end() {
	if c.writing != nil {
		c.writing.EndWrite()
		c.writing = nil
	}
}

// refused reports whether none of the lines was passed to the ledger.
func (c *chunk) refused() bool {
	return !slices.ContainsFunc(c.items, func(item batchItem) bool { return item.err == nil })
}

// release frees the records and the memory of a chunk, and returns the chunk to the pool. It must
// not be called until every enqueued line has its result.
func (c *chunk) release() {
	c.end()
	c.share.Release()
	for i := range c.items {
		if r := c.items[i].record; r != nil {
			r.Release()
		}
	}
	clear(c.items)
	clear(c.lines)
	c.buffer, c.lines, c.items = c.buffer[:0], c.lines[:0], c.items[:0]
	if cap(c.buffer) <= maxPooledChunk {
		chunks.Put(c)
	}
}
