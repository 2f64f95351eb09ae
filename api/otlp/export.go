package otlp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/internal/genai"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// An export request goes through these stages, which preserve the order of its items:
//
//	split the body → decode and prepare (parallel) → enqueue → wait
const (
	chunkItems = 128       // maximum number of items in a chunk
	chunkBytes = 256 << 10 // approximate maximum size of the items in a chunk
	queued     = 16        // maximum number of chunks that wait between two stages
)

// export is the state of one export request.
type export struct {
	*Handlers
	ledger         *ledger.Ledger
	signal         *Signal
	items          *items
	actor          string
	holder         limits.Holder // caller that the memory of the items is charged to
	maxChunkMemory int64         // maximum memory of a chunk, in bytes; a chunk and the body must fit in the budget together
	hashes         bool          // the ledger stores hashes instead of content
	values         record.Limits
	labels         genai.LabelLimits
}

// chunk is a group of items that go through the stages together. At first it reserves the maximum
// memory that its items can need. Once the items are decoded, it reserves only the memory that its
// records and messages need.
type chunk struct {
	items    []item
	needs    []need             // memory needed by each item, not counting its resource
	share    limits.MemoryShare // memory for the decoded items, held until the records are written
	parsed   chan struct{}
	records  []prepared   // one for each item that is a generation
	messages []logMessage // one for each item that is a chat message
	others   result       // counts the ignored and rejected items
	failed   error        // the error that made the whole request fail
}

// need is the memory, in bytes, that an item needs for its decoded elements and for its text.
type need struct{ elements, text int64 }

// prepared is a record that is ready to be enqueued.
type prepared struct {
	record     *record.Record
	submission ledger.Submission
	ticket     ledger.Ticket
}

// result counts the items of a request by outcome.
type result struct {
	recorded, replayed, ignored, rejected int

	first string // source and error of the first rejected item
}

// message says how many items were rejected, and gives the error of the first one. It returns "" if
// none were rejected.
func (r *result) message() string {
	if r.rejected == 0 {
		return ""
	}
	return fmt.Sprintf("rejected items: %d; first error: %s", r.rejected, r.first)
}

// maxMessage is the maximum length, in bytes, of an item's error in result.message.
const maxMessage = 500

func (r *result) reject(i genai.Item) {
	if r.rejected += i.Count; r.first == "" {
		r.first = strings.ToValidUTF8(fmt.Sprintf("%s: %.*s", i.Source, maxMessage, i.Err), "")
	}
}

// add adds the counts of other to r. The items in r come first, so r.first takes precedence.
func (r *result) add(other result) {
	r.recorded += other.recorded
	r.replayed += other.replayed
	r.ignored += other.ignored
	r.rejected += other.rejected
	if r.first == "" {
		r.first = other.first
	}
}

// run moves the items through the stages. Even after an error, it waits until the ledger has
// processed every enqueued record, because the ledger uses the record's memory until then.
func (e *export) run(ctx context.Context) (*result, error) {
	// Items that have arrived are recorded even if the client gives up.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	parsed, waiting := make(chan *chunk, queued), make(chan *chunk, queued)
	go e.parseAll(ctx, parsed)
	var recorded result
	ended := make(chan error, 1)
	go func() { ended <- waitAll(waiting, &recorded) }()
	total := e.enqueueAll(ctx, cancel, parsed, waiting)
	err := <-ended
	total.add(recorded)
	return total, err
}

// parseAll parses the items in chunks, and sends the chunks to parsed in order.
func (e *export) parseAll(ctx context.Context, parsed chan<- *chunk) {
	defer close(parsed)
	for rest := e.items.list; len(rest) > 0; {
		c := e.newChunk()
		size, memory := 0, int64(0)
		for n := 0; n < len(rest) && n < chunkItems && size < chunkBytes; n++ {
			size += len(rest[n].raw)
			needs := need{int64(e.items.elements(rest[n].raw, e.signal.shape)) * itemMemory, textMemory(rest[n].raw)}
			c.needs = append(c.needs, needs)
			if at := rest[n].resource; n == 0 || at != rest[n-1].resource {
				memory += e.items.resourceMemory(at)
			}
			memory += needs.elements + needs.text + recordMemory
		}
		c.items, rest = rest[:len(c.needs)], rest[len(c.needs):]
		// A chunk takes its memory before it takes a core, because it must not occupy a core while
		// it waits for memory.
		if c.failed = c.share.Take(ctx, min(memory, e.maxChunkMemory)); c.failed != nil {
			close(c.parsed)
			parsed <- c
			return
		}
		core := e.Limiter.ParseSlots
		if size > 2*chunkBytes { // one long item must not delay other requests
			core = e.Limiter.HeavyWorkLimiter.Slots
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
		parsed <- c // cannot block forever: enqueueAll receives until the channel is closed
	}
}

func (e *export) newChunk() *chunk {
	return &chunk{share: limits.MemoryShare{Budget: e.Limiter.WriteMemory, Holder: e.holder}, parsed: make(chan struct{})}
}

// parse decodes and prepares the items of a chunk.
func (e *export) parse(c *chunk) {
	defer close(c.parsed)
	reader := e.signal.newReader(&reading{Reader: genai.NewReader(e.labels), items: e.items})
	keep, resource := int64(0), -1
	for n, i := range c.items {
		records := len(c.records)
		if ok := e.read(c, reader, i); !ok {
			keep += messageMemory + c.needs[n].text + c.needs[n].elements
			if i.resource != resource { // a message keeps its resource in memory
				resource = i.resource
				keep += e.items.resourceMemory(resource)
			}
		} else if len(c.records) > records {
			// The elements include jsonCopies copies of a JSON text, but the record keeps only one.
			keep += recordMemory + c.needs[n].text + c.needs[n].elements/jsonCopies
		}
	}
	if logs, are := reader.(*logReader); are {
		c.messages = logs.messages
	}
	c.share.ShrinkTo(keep)
}

// read reads and prepares one item of a chunk. ok is false if the item is a chat message, which is
// combined with other messages into a record later. If read recovers from a panic, it rejects only
// this item. The other items must still be recorded, because the exporter would not send them
// again.
func (e *export) read(c *chunk, reader itemReader, i item) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			e.Logger.Error("cannot record an OTLP item", "ledger", e.ledger.Name(), "error", problem.FromPanic(r))
			c.others.reject(genai.Item{Source: "an item", Count: 1, Err: errFailed})
			ok = true
		}
	}()
	read, ok := reader.read(i)
	if ok {
		e.prepare(c, read)
	}
	return ok
}

var errFailed = errors.New("internal server error; see the server's log for the cause")

// prepare adds an item to its chunk. If the item is a generation, prepare adds a record and its
// submission; otherwise it only counts the item.
func (e *export) prepare(c *chunk, read genai.Item) {
	if read.Err == nil && read.Record == nil {
		c.others.ignored += read.Count
		return
	}
	var p prepared
	if read.Err == nil && e.hashes {
		read.Record, read.Err = hashed(read.Record, e.values)
	}
	if read.Err == nil {
		p.record, read.Err = e.values.ParseRecord(record.KindIPCRecord, read.Record)
	}
	if read.Err == nil {
		if p.submission, read.Err = e.ledger.PrepareRecord(p.record, e.actor, read.IdempotencyKey); read.Err != nil {
			p.record.Release()
		}
	}
	if read.Err != nil {
		c.others.reject(read)
		return
	}
	// The same generation can arrive more than once: in a span and in a log record, or again with
	// labels that a collector has added. Once makes the ledger record only the first copy.
	p.submission.MatchKeyOnly = true
	c.records = append(c.records, p)
}

// hashed returns a copy of a record in which the hashes of the content replace the content.
func hashed(text []byte, values record.Limits) ([]byte, error) {
	r, err := values.ParseRecord(record.KindIPCRecord, text)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var whole, hashes pyjson.Document
	if err := errors.Join(whole.Parse(text), hashes.Parse(r.HashesJSON())); err != nil {
		return nil, err
	}
	var w pyjson.Builder
	w.BeginObject()
	for name, v := range whole.Root().Members() {
		switch string(name.Text()) {
		case "payload", "system_prompt", "output":
		default:
			w.AddValue(string(name.Text()), v)
		}
	}
	for _, name := range [...]string{"input_hash", "system_prompt_hash", "output_hash"} {
		w.AddValue(name, hashes.Root().Member(name))
	}
	w.EndObject()
	return w.Buf, nil
}

// enqueueAll enqueues the parsed chunks in order, and then the chunks of generations that were assembled
// from chat messages. It sends every chunk to waiting. After a failure, it cancels parsing and enqueues
// nothing more. It returns the counts of ignored and rejected items.
func (e *export) enqueueAll(ctx context.Context, cancel func(), parsed <-chan *chunk, waiting chan<- *chunk) *result {
	defer close(waiting)
	others, failed := new(result), false
	enqueue := func(c *chunk) {
		if c.failed == nil && !failed {
			others.add(c.others)
			c.failed = e.enqueue(ctx, c)
		} else {
			c.drop(0)
		}
		if c.failed != nil {
			failed = true
			cancel()
		}
	}
	var messages genai.MessageCollector
	var held []*chunk // chunks with messages, which must stay in memory until the end
	for c := range parsed {
		<-c.parsed
		enqueue(c)
		if len(c.messages) == 0 {
			waiting <- c
			continue
		}
		held = append(held, c)
		for _, m := range c.messages {
			messages.Add(m.record, m.resource, m.number)
		}
	}
	if !failed {
		for c := range e.parseMessages(ctx, &messages) {
			enqueue(c)
			waiting <- c
			if failed {
				break
			}
		}
	}
	for _, c := range held {
		waiting <- c
	}
	return others
}

// parseMessages yields chunks of the generations whose messages were sent as log records. The memory
// that is already reserved for the messages also covers the text of these records.
func (e *export) parseMessages(ctx context.Context, messages *genai.MessageCollector) iter.Seq[*chunk] {
	return func(yield func(*chunk) bool) {
		next, stop := iter.Pull(messages.Items(genai.NewReader(e.labels)))
		defer stop()
		for more := !messages.Empty(); more; {
			c := e.newChunk()
			if c.failed = c.share.Take(ctx, min(chunkItems*recordMemory, e.maxChunkMemory)); c.failed == nil {
				more = e.fill(c, next)
			}
			if !yield(c) {
				return
			}
		}
	}
}

// fill prepares the next generations made from messages, and adds them to c. It returns false once no
// generation is left. If fill recovers from a panic, it sets c.failed, and the request fails.
func (e *export) fill(c *chunk, next func() (genai.Item, bool)) (more bool) {
	e.Limiter.ParseSlots <- struct{}{}
	defer func() {
		<-e.Limiter.ParseSlots
		if r := recover(); r != nil {
			c.failed = problem.FromPanic(r)
		}
	}()
	for range chunkItems {
		read, ok := next()
		if !ok {
			return false
		}
		e.prepare(c, read)
	}
	return true
}

// enqueue passes the records of a chunk to the sequencer, and waits for room in its queue.
func (e *export) enqueue(ctx context.Context, c *chunk) (err error) {
	for i := range c.records {
		p := &c.records[i]
		if p.ticket, err = e.ledger.Enqueue(ctx, p.submission); err != nil {
			c.drop(i)
			return err
		}
	}
	return nil
}

// drop releases and removes c.records[i:], which were not enqueued.
func (c *chunk) drop(i int) {
	for _, p := range c.records[i:] {
		p.record.Release()
	}
	c.records = c.records[:i]
}

// waitAll waits for every record of the chunks, and releases each chunk as soon as all of its records
// have their outcomes. It counts the records by outcome, and returns the error that made the request
// fail, or nil.
func waitAll(waiting <-chan *chunk, total *result) (failed error) {
	for c := range waiting {
		if failed == nil {
			failed = c.failed
		}
		if err := c.wait(total); err != nil {
			failed = errors.Join(failed, err)
		}
		c.release()
	}
	return failed
}

// wait waits for every record of a chunk, and counts the records by outcome.
func (c *chunk) wait(total *result) (failed error) {
	for i := range c.records {
		ack, err := c.records[i].ticket.Wait()
		switch {
		case err != nil:
			failed = err
		case ack.Outcome == ledger.OutcomeReplayed:
			total.replayed++
		default:
			total.recorded++
		}
	}
	return failed
}

// release frees the records and the memory of a chunk. It must be called only after the ledger
// has returned a result for every enqueued record.
func (c *chunk) release() {
	for i := range c.records {
		c.records[i].record.Release()
	}
	c.records = nil
	c.share.Release()
}
