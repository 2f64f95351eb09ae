// Package batch takes records as lines of a stream, and answers line for line while it reads.
package batch

import (
	"context"
	"errors"
	"io"
	"net/http"
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

// Handlers answers the route of batches.
type Handlers struct {
	*call.Shared
	Records *records.Handlers
	// SpoolDir is the folder of the temporary files with results that clients have not read.
	SpoolDir string
}

// A batch goes through four stages, each of which keeps the order of the lines:
//
//	read lines → parse and prepare (parallel) → enqueue → wait, encode → spool
//
// and the spool is written to the client as fast as it reads. Each stage is
// bounded, so that a batch of any length takes a bounded amount of memory.
const (
	chunkLines = 128       // lines that go through the stages together
	chunkBytes = 256 << 10 // about as many bytes
	queued     = 16        // chunks between two stages: the next commit gathers while one lasts
)

// Batch takes records as NDJSON and answers line for line, in both directions at
// once (spec: Requests).
func (h *Handlers) Batch(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	o, err := h.Records.Options(c, l)
	if err != nil {
		return err
	}
	if o.Key != "" {
		return problem.New(http.StatusBadRequest, "Idempotency-Key belongs to one record; give each line its idempotency_key")
	}
	o.Minimal = c.Preference() != "representation"
	if err := call.CheckContentType(c.Request(), call.NDJSON); err != nil {
		return err
	}
	open, err := limits.Decompressor(c.Request().Header.Get(echo.HeaderContentEncoding), c.HoldWriting)
	if err != nil {
		return err
	}
	who := c.Caller()
	if !h.Limits.Batches.TakeShare(who) {
		return limits.Refuse(limits.RefusedBatches, http.StatusServiceUnavailable, time.Second,
			"too many batches are open, from this caller or in total (limit %d); try again later", h.Limits.Load.Batches)
	}
	defer h.Limits.Batches.Release(who)
	exchange, err := h.exchange(c)
	if err != nil {
		return err
	}
	b := &batch{Handlers: h, ledger: l, values: h.Values.For(l.MemberSecret()), options: o, open: open, body: c.Request().Body, exchange: exchange,
		caller: who, holder: c.Holder(), allowed: c.StillAllowed(access.Write)}
	return b.run(c.Request().Context(), c.Response())
}

// batch is one request's batch.
type batch struct {
	*Handlers
	ledger  *ledger.Ledger
	values  record.Limits // of the ledger's records
	options records.Options
	open    limits.Opener
	body    io.Reader
	*exchange
	caller  string        // whose rate the lines count against
	holder  limits.Holder // whose memory they take
	allowed func() error  // nil while the caller may still write
	results *call.Reply   // of the chunk that is answered; of the goroutine that does
}

// chunk is some lines on their way through the stages.
type chunk struct {
	buffer []byte
	share  limits.Share // of the memory for bodies
	lines  []lineSpan
	items  []batchItem
	parsed chan struct{} // closed when items are ready to be enqueued
	// writing is nil unless the lines count as a write that is under way.
	writing *limits.ReadTurns
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// maxPooledChunk bounds, in bytes, the buffers that are kept for the next chunk.
const maxPooledChunk = 4 * chunkBytes

// newChunk is an empty chunk of a caller; release gives it back.
func newChunk(budget *limits.Budget, who limits.Holder) *chunk {
	c := chunks.Get().(*chunk)
	c.share, c.parsed = limits.Share{Budget: budget, Who: who}, make(chan struct{})
	return c
}

// core returns what a chunk waits for before it is parsed: one of all cores, or, if the chunk is
// long, a core for heavy work. Then a chunk of one long line does not delay the others.
func (h *Handlers) core(c *chunk) chan struct{} {
	if len(c.buffer) > 2*chunkBytes {
		return h.Limits.Heavy.Cores
	}
	return h.Limits.Parsing
}

// lineSpan is a line in chunk.buffer, or what is wrong with it.
type lineSpan struct {
	start, end int
	number     int // from 1
	err        error
}

// batchItem is one line's record and what becomes of it.
type batchItem struct {
	record     *record.Record // nil for a verb
	submission ledger.Submission
	validation *record.PathValidation // has no submission until the paths before it are in the log
	refused    bool
	key        string      // of the line; empty if it has none
	native     *nativeLine // of a line with a format; else nil
	ticket     ledger.Ticket
	err        error
}

// run moves the batch through its stages until the body has ended and every
// line is answered, or the client is gone.
func (b *batch) run(ctx context.Context, w io.Writer) error {
	// net/http ends a request's context when its body breaks off: what came before is
	// recorded and answered all the same.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	read := make(chan *chunk, queued)
	waiting := make(chan *chunk, queued)
	out := newSpool(b.spoolBounds(func() error { return b.ledger.Writable(ctx) }))
	written := make(chan error, 1)
	go b.read(ctx, read)
	go b.enqueue(ctx, read, waiting)
	go func() {
		err := out.drain(w, b.controller.Flush)
		if err != nil {
			b.stop(cancel) // the client cannot learn the results of further lines
		}
		written <- err
	}()
	b.results = results.Get()
	defer b.results.Release()
	var failed error
	for c := range waiting {
		if err := b.answer(ctx, c, out); err != nil && failed == nil {
			failed = err // continue: wait for everything that was enqueued
			b.stop(cancel)
		}
	}
	out.finish()
	return errors.Join(failed, <-written)
}

// read cuts the body into lines and has them parsed. What it sends on, it sends
// in order; parsing continues in parallel.
func (b *batch) read(ctx context.Context, chunks chan<- *chunk) {
	defer close(chunks)
	lines := newLineReader(ctx, b.open, b.body, int(b.Limits.Load.MaxLine))
	lines.most = b.Limits.Rates.LinesAtOnce(chunkLines)
	defer func() {
		lines.close()
		b.drain()
	}()
	for {
		c := newChunk(b.Limits.Writing, b.holder)
		more, err := b.next(ctx, lines, c)
		if err != nil {
			c.release()
			return
		}
		if len(c.lines) > 0 {
			c.begin(b.Limits.Reads)
			core := b.core(c)
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

// next reads one chunk, and waits until its lines may be taken: they count against
// the rate of the sender. The error means that the batch is over.
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
	return more, b.Limits.Rates.WaitForLines(ctx, b.caller, lines.number-before, b.progress)
}

// fill reads the lines of one chunk. A panic here, say of a decompressor, is in
// no request's goroutine: it would end the server.
func (b *batch) fill(lines *lineReader, c *chunk) (more bool) {
	defer func() {
		if r := recover(); r != nil {
			lines.number++
			c.lines = append(c.lines, lineSpan{number: lines.number, err: problem.Panicked(r)})
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

// prepare decodes and prepares one line.
func (b *batch) prepare(ctx context.Context, item *batchItem, text []byte) {
	defer item.recover()
	line, err := b.values.ParseLine(text)
	if err != nil && hasFormat(err) {
		line, item.native, err = b.parseNative(text)
	}
	if err != nil {
		item.err = err
		return
	}
	o := b.options
	o.Key = line.Key
	item.record, item.validation, item.key = line.Record, line.Validation, line.Key
	switch {
	case line.Verb != nil:
		item.submission, item.err = records.PrepareVerb(ctx, b.ledger, line.Verb, o)
	case line.Record != nil:
		item.submission, item.refused, item.err = records.Prepare(b.ledger, line.Record, o)
	}
}

// enqueue hands the lines to the sequencer, in order, and waits for room.
func (b *batch) enqueue(ctx context.Context, chunks <-chan *chunk, waiting chan<- *chunk) {
	defer close(waiting)
	var path *ledger.Ticket // of the last path since the last validation; nil if there is none
	for c := range chunks {
		<-c.parsed
		b.checkSources(ctx, c)
		for i := range c.items {
			item := &c.items[i]
			if item.validation != nil && item.err == nil {
				if path != nil {
					_, _ = path.Wait() // its own line reports the error
					path = nil
				}
				b.prepareValidation(ctx, item)
			}
			if item.err != nil {
				continue
			}
			item.ticket, item.err = b.ledger.Enqueue(ctx, item.submission)
			if item.err == nil && item.record != nil && item.record.Kind == record.PathFingerprint {
				ticket := item.ticket
				path = &ticket
			}
		}
		waiting <- c
	}
}

// prepareValidation prepares a validation. The records of paths in the lines before it are in the log.
func (b *batch) prepareValidation(ctx context.Context, item *batchItem) {
	defer item.recover()
	o := b.options
	o.Key = item.key
	item.submission, item.err = b.Records.PrepareValidation(ctx, b.ledger, item.validation, o)
}

// checkSources refuses citation sets with sources that are not registered, if the ledger has that
// setting. It can wait for the index, and holds no core then.
func (b *batch) checkSources(ctx context.Context, c *chunk) {
	if !b.ledger.RejectsUnregistered() {
		return
	}
	sources := b.Records.CheckSources(b.ledger)
	defer sources.Close()
	for i := range c.items {
		if item := &c.items[i]; item.err == nil && item.record != nil && !item.refused {
			item.checkSources(ctx, sources)
		}
	}
}

// recover makes a panic the error of the line. It is to be deferred: such a panic is in no request's
// goroutine, and would end the server.
func (item *batchItem) recover() {
	if r := recover(); r != nil {
		item.err = problem.Panicked(r)
	}
}

func (item *batchItem) checkSources(ctx context.Context, sources *records.SourceCheck) {
	defer item.recover()
	item.err = sources.Check(ctx, item.record, &item.submission)
}

// answer waits for every line of a chunk and spools what became of it, a piece at a
// time: the client reads the first while the next is put together.
func (b *batch) answer(ctx context.Context, c *chunk, out *spool) error {
	defer c.release()
	if c.refused() {
		// It records nothing, and waits like a read.
		c.end()
		var turn limits.ReadTurn
		if err := turn.Take(ctx, b.Limits.Reads, func() limits.Holder { return b.holder }); err != nil {
			return err
		}
		defer turn.Release()
	}
	text := b.results.Text[:0]
	logged := false // one of a chunk is enough: they fail for the same reason
	statuses := make(map[int]int)
	for i := range c.items {
		if len(text) >= limits.MaxWrite {
			_ = out.write(text) // the last write tells of an error too
			text = text[:0]
		}
		line, status, err := b.result(ctx, text, &c.items[i])
		if err == nil {
			text = append(line, '\n')
			statuses[status]++
			continue
		}
		p, internal := problem.Of(err)
		if internal && !logged && ctx.Err() == nil {
			logged = true
			b.Log.Error("line of a batch failed", "ledger", b.ledger.Name(), "error", err)
		}
		p.Line = c.lines[i].number
		b.Counts.Count(p.Why)
		statuses[p.Status]++
		text = p.AppendLine(text)
	}
	b.Counts.CountLines(statuses)
	b.results.Text = text
	return out.write(text)
}

// result appends the receipt of one line as JSON, and gives the status that it would
// have had as a request of its own; a problem comes as the error.
func (b *batch) result(ctx context.Context, dst []byte, item *batchItem) (text []byte, status int, err error) {
	// The lines behind this one must be waited for, whatever happens here.
	defer func() {
		if r := recover(); r != nil {
			err = problem.Panicked(r)
		}
	}()
	if item.err != nil {
		return nil, 0, item.err
	}
	ack, err := item.ticket.Wait()
	if err != nil {
		return nil, 0, err
	}
	o := &records.Outcome{Record: item.record, Refused: item.refused, Minimal: b.options.Minimal, Derive: b.options.Derive, Key: item.key, Ack: ack}
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
		dst = b.appendImported(context.WithoutCancel(ctx), dst, item.native, receipt.Seq)
	}
	return dst, o.Status(), nil
}

// cut drops what the buffer has beyond start, and all of the share beyond held.
func (c *chunk) cut(start int, held int64) {
	c.buffer = c.buffer[:start]
	c.share.Shrink(held)
}

// begin notes that the lines are a write that is under way.
func (c *chunk) begin(t *limits.ReadTurns) {
	c.writing = t
	t.BeginWrite()
}

// end ends what begin has begun.
func (c *chunk) end() {
	if c.writing != nil {
		c.writing.EndWrite()
		c.writing = nil
	}
}

// refused reports whether no line was handed to the ledger.
func (c *chunk) refused() bool {
	return !slices.ContainsFunc(c.items, func(item batchItem) bool { return item.err == nil })
}

// release gives back the records of a chunk and its memory, for another. Those that
// were enqueued must have been waited for.
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
