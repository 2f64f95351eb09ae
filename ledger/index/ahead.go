package index

import (
	"context"
)

// Limits for reading and decoding events ahead of the fold. Reading ahead runs in parallel with the
// fold, because only the fold itself must be sequential. A chunk ends early if its entries reach
// chunkBytes.
const (
	chunkEvents = 64
	chunkBytes  = 128 << 10
	chunksAhead = 8
)

// largeEntry is the size in bytes above which an entry counts as large. Few entries are that large.
const largeEntry = 8 << 10

// chunk holds up to chunkEvents consecutive events.
type chunk struct {
	entries []byte // the encoded entries, one after the other
	events  [chunkEvents]Event
	count   int   // number of events
	large   bool  // an entry is longer than largeEntry
	err     error // error of reading or decoding the event after the last one, or nil
}

// reset empties a chunk. Each event keeps a buffer that is as large as the largest entry that it
// has decoded. If the chunk contained a large entry, reset frees these buffers, because otherwise
// hundreds of events would each keep a large buffer.
func (c *chunk) reset() {
	if c.large {
		*c = chunk{entries: c.entries}
	}
	c.entries, c.count, c.err = c.entries[:0], 0, nil
}

// newChunks returns a channel with the free chunks of a fold. A chunk is nil until it is first
// used, because most ledgers are idle.
func newChunks() chan *chunk {
	free := make(chan *chunk, chunksAhead)
	for range chunksAhead {
		free <- nil
	}
	return free
}

// ahead starts a goroutine that reads and decodes the log from the fold's position up to the head.
// The caller returns each chunk to f.fold.chunks after use. The goroutine stops at the head of the
// log, after an error, or when ctx is done.
func (f *Follower) ahead(ctx context.Context) <-chan *chunk {
	ready := make(chan *chunk, chunksAhead)
	r := aheadReader{ctx: ctx, free: f.fold.chunks, ready: ready, preparers: f.fold.preparers, seq: f.fold.state.size}
	go func() {
		defer close(ready)
		for entry, err := range f.log.Entries(ctx, r.seq) {
			if !r.take(entry.Bytes, err) {
				return
			}
		}
		r.send()
	}()
	return ready
}

// aheadReader fills chunks. It belongs to the goroutine that ahead starts.
type aheadReader struct {
	ctx   context.Context
	free  <-chan *chunk
	ready chan<- *chunk
	chunk *chunk // the chunk that is being filled, or nil

	preparers []Preparer
	seq       uint64 // seq of the next event
}

// take adds an event. It returns false if the reader should stop.
func (r *aheadReader) take(entry []byte, err error) bool {
	if r.chunk == nil {
		if r.ctx.Err() != nil {
			return false
		}
		select {
		case r.chunk = <-r.free:
		case <-r.ctx.Done():
			return false
		}
		if r.chunk == nil {
			r.chunk = new(chunk)
		}
		r.chunk.reset()
	}
	c := r.chunk
	if err == nil {
		start := len(c.entries)
		c.large = c.large || len(entry) > largeEntry
		c.entries = append(c.entries, entry...)
		if err = c.events[c.count].decode(c.entries[start:len(c.entries):len(c.entries)]); err == nil {
			r.prepare(&c.events[c.count])
		}
	}
	if err != nil {
		c.err = err
		r.send()
		return false
	}
	if c.count++; c.count == chunkEvents || len(c.entries) >= chunkBytes {
		r.send()
	}
	return true
}

// prepare runs the preparers on the next event.
func (r *aheadReader) prepare(e *Event) {
	e.Seq = r.seq
	for _, p := range r.preparers {
		p.Prepare(e)
	}
	r.seq++
}

// send delivers the current chunk. It never blocks, because ready has room for all chunks.
func (r *aheadReader) send() {
	if r.chunk != nil {
		r.ready <- r.chunk
		r.chunk = nil
	}
}
