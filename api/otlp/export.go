package otlp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/internal/genai"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// A request goes through these stages, which keep the order of its items:
//
//	split the body → decode and prepare (parallel) → enqueue → wait
const (
	chunkItems = 128       // largest number of items that go through the stages together
	chunkBytes = 256 << 10 // approximate largest size of these items
	queued     = 16        // largest number of chunks between two stages
)

// export is the state of one export request.
type export struct {
	*Handlers
	ledger *ledger.Ledger
	signal *Signal
	items  *items
	actor  string
	holder limits.Holder // holder whose share of memory the items use
	hashes bool          // the ledger keeps no content
	values record.Limits
	labels genai.LabelLimits
}

// chunk is a group of items that go through the stages together.
type chunk struct {
	items    []item
	share    limits.MemoryShare // memory for the decoded items
	parsed   chan struct{}
	results  []prepared
	messages []logMessage
	failed   error // why the whole request failed
}

// prepared is a decoded item. If it is a generation, it has a record and a submission.
type prepared struct {
	genai.Item
	record     *record.Record // nil if the item is not a generation, or was rejected
	submission ledger.Submission
	ticket     ledger.Ticket
}

// result counts the items of a request by outcome.
type result struct {
	recorded, replayed, ignored, rejected int

	first string // source and error of the first rejected item
}

// message returns the number of rejected items and the error of the first. It returns "" if
// none were rejected.
func (r *result) message() string {
	if r.rejected == 0 {
		return ""
	}
	return fmt.Sprintf("%d rejected; the first: %s", r.rejected, r.first)
}

// maxMessage is the maximum length, in bytes, of an item's error in result.message.
const maxMessage = 500

func (r *result) reject(i genai.Item) {
	if r.rejected += i.Count; r.first == "" {
		r.first = strings.ToValidUTF8(fmt.Sprintf("%s: %.*s", i.Source, maxMessage, i.Err), "")
	}
}

// run moves the items through the stages. It always waits for the records that it has enqueued,
// because the ledger uses their memory until then.
func (e *export) run(ctx context.Context) (*result, error) {
	// Items that have arrived are recorded even if the client gives up.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	parsed := make(chan *chunk, queued)
	go e.parseAll(ctx, parsed)
	var chunks []*chunk
	var messages genai.MessageCollector
	var failed error
	for c := range parsed {
		<-c.parsed
		chunks = append(chunks, c)
		for _, m := range c.messages {
			messages.Add(m.record, m.resource)
		}
		if failed == nil {
			failed = c.failed
		}
		if failed != nil {
			c.drop(0)
			cancel()
			continue
		}
		failed = e.enqueue(ctx, c)
	}
	if failed == nil && !messages.Empty() {
		c := e.parseMessages(&messages)
		chunks = append(chunks, c)
		failed = e.enqueue(ctx, c)
	}
	total := new(result)
	for _, c := range chunks {
		failed = errors.Join(failed, c.wait(total))
		c.release()
	}
	return total, failed
}

// parseAll parses the items in chunks, and sends the chunks to parsed in order.
func (e *export) parseAll(ctx context.Context, parsed chan<- *chunk) {
	defer close(parsed)
	for rest := e.items.list; len(rest) > 0; {
		n, size, count := 0, 0, 0
		for n < len(rest) && n < chunkItems && size < chunkBytes {
			size += len(rest[n].raw)
			count += e.items.elements(rest[n].raw, e.signal.shape)
			if at := rest[n].resource; at >= 0 && (n == 0 || at != rest[n-1].resource) {
				count += e.items.elements(e.items.resources[at], resourceShape)
			}
			n++
		}
		c := e.newChunk(rest[:n])
		rest = rest[n:]
		// A chunk takes its memory before it takes a core, because it can wait for memory.
		if c.failed = c.share.Take(ctx, int64(count)*itemMemory); c.failed != nil {
			close(c.parsed)
			parsed <- c
			return
		}
		core := e.Limits.Parsing
		if size > 2*chunkBytes { // so that one long item does not delay other requests
			core = e.Limits.Heavy.Cores
		}
		select {
		case core <- struct{}{}:
		case <-ctx.Done():
			c.share.Release()
			return
		}
		go func() {
			defer func() { <-core }()
			e.parse(c)
		}()
		parsed <- c // run reads until the channel is closed
	}
}

func (e *export) newChunk(items []item) *chunk {
	return &chunk{items: items, share: limits.MemoryShare{Budget: e.Limits.Writing, Who: e.holder}, parsed: make(chan struct{})}
}

// parse decodes and prepares the items of a chunk.
func (e *export) parse(c *chunk) {
	defer close(c.parsed)
	reader := e.signal.newReader(&reading{Reader: genai.NewReader(e.labels), items: e.items})
	c.results = make([]prepared, 0, len(c.items))
	for _, i := range c.items {
		if p, ok := e.read(reader, i); ok {
			c.results = append(c.results, p)
		}
	}
	if logs, are := reader.(*logReader); are && len(logs.messages) > 0 {
		c.messages = logs.messages // the messages keep their memory
		return
	}
	c.share.Release()
}

// read reads and prepares one item. It recovers from a panic, so that the other items are still
// recorded: the exporter would not repeat the request.
func (e *export) read(reader itemReader, i item) (p prepared, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			e.Log.Error("recording an OTLP item failed", "ledger", e.ledger.Name(), "error", problem.FromPanic(r))
			p, ok = prepared{Item: genai.Item{Source: "an item", Count: 1, Err: errFailed}}, true
		}
	}()
	read, ok := reader.read(i)
	if !ok {
		return prepared{}, false
	}
	return e.prepare(read), true
}

var errFailed = errors.New("the server failed; its log names the cause")

// parseMessages prepares the generations whose messages are log records.
func (e *export) parseMessages(messages *genai.MessageCollector) *chunk {
	e.Limits.Parsing <- struct{}{}
	defer func() { <-e.Limits.Parsing }()
	c := e.newChunk(nil)
	for read := range messages.Items(genai.NewReader(e.labels)) {
		c.results = append(c.results, e.prepare(read))
	}
	return c
}

// prepare prepares the submission of an item, if the item is a generation.
func (e *export) prepare(read genai.Item) prepared {
	p := prepared{Item: read}
	if p.Err != nil || p.Item.Record == nil {
		return p
	}
	if e.hashes {
		p.Item.Record, p.Err = hashed(p.Item.Record, e.values)
	}
	if p.Err == nil {
		p.record, p.Err = e.values.Parse(record.IPCRecord, p.Item.Record)
	}
	if p.Err == nil {
		p.submission, p.Err = e.ledger.Prepare(p.record, e.actor, p.Key)
		// A generation can be reported more than once: by its span and by a log record, or with
		// other labels after a collector has added some.
		p.submission.Once = true
	}
	return p
}

// hashed returns a record that has the hashes of its content in place of the content.
func hashed(text []byte, values record.Limits) ([]byte, error) {
	r, err := values.Parse(record.IPCRecord, text)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var whole, hashes pyjson.Document
	if err := errors.Join(whole.Parse(text), hashes.Parse(r.HashesJSON())); err != nil {
		return nil, err
	}
	var w pyjson.Builder
	w.Open()
	for name, v := range whole.Root().Members() {
		switch string(name.Text()) {
		case "payload", "system_prompt", "output":
		default:
			w.Value(string(name.Text()), v)
		}
	}
	for _, name := range [...]string{"input_hash", "system_prompt_hash", "output_hash"} {
		w.Value(name, hashes.Root().Member(name))
	}
	w.Close()
	return w.B, nil
}

// enqueue passes the records of a chunk to the sequencer, and waits for room in its queue.
func (e *export) enqueue(ctx context.Context, c *chunk) error {
	for i := range c.results {
		p := &c.results[i]
		if p.Err != nil || p.record == nil {
			continue
		}
		var err error
		if p.ticket, err = e.ledger.Enqueue(ctx, p.submission); err != nil {
			c.drop(i)
			return err
		}
	}
	return nil
}

// drop releases the records from index i on, which were not enqueued.
func (c *chunk) drop(i int) {
	for _, p := range c.results[i:] {
		if p.record != nil {
			p.record.Release()
		}
	}
	c.results = c.results[:i]
}

// wait waits for every record of a chunk, and counts the items of the chunk by outcome.
func (c *chunk) wait(total *result) (failed error) {
	for i := range c.results {
		p := &c.results[i]
		switch {
		case p.Err != nil:
			total.reject(p.Item)
			continue
		case p.record == nil:
			total.ignored += p.Count
			continue
		}
		ack, err := p.ticket.Wait()
		switch {
		case err != nil:
			failed = err
		case ack.Outcome == ledger.Replayed:
			total.replayed++
		default:
			total.recorded++
		}
	}
	return failed
}

// release frees the records and the memory of a chunk. All records that were enqueued must have
// their results.
func (c *chunk) release() {
	c.share.Release()
	for i := range c.results {
		if r := c.results[i].record; r != nil {
			r.Release()
		}
	}
}
