package index

import (
	"context"
)

// How far the log is read and decoded ahead of the fold, which is the one thing
// that cannot be done by two. A chunk ends with the event that brings it to so many
// bytes, if it does not end before.
const (
	chunkEvents = 64
	chunkBytes  = 128 << 10
	chunksAhead = 8
)

// largeEntry is the length of an entry, in bytes, that is far beyond the usual.
const largeEntry = 8 << 10

// chunk is some events that follow one another.
type chunk struct {
	entries []byte // their bytes
	events  [chunkEvents]Event
	count   int   // events that there are
	large   bool  // some event has a large entry
	err     error // what ended the chunk: that of the event behind the last
}

// reset empties a chunk. Events keep what memory their longest entry took, which
// hundreds of them do not where that was much.
func (c *chunk) reset() {
	if c.large {
		*c = chunk{entries: c.entries}
	}
	c.entries, c.count, c.err = c.entries[:0], 0, nil
}

// newChunks holds as many chunks as are in use at once.
func newChunks() chan *chunk {
	free := make(chan *chunk, chunksAhead)
	for range chunksAhead {
		free <- nil // made when it is first used: most ledgers are at rest
	}
	return free
}

// ahead reads the log from where the fold is to its head and decodes it in a goroutine of
// its own. Each chunk that was received
// is given back when it is done with; the goroutine ends with the log, after an error, or
// when ctx is done.
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

// aheadReader fills chunks. It belongs to its goroutine.
type aheadReader struct {
	ctx   context.Context // of the goroutine
	free  <-chan *chunk
	ready chan<- *chunk
	chunk *chunk // being filled; nil when there is none

	preparers []Preparer
	seq       uint64 // of the next event
}

// take adds an event, and reports whether more are wanted.
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

// prepare has derivers prepare the next event.
func (r *aheadReader) prepare(e *Event) {
	e.Seq = r.seq
	for _, p := range r.preparers {
		p.Prepare(e)
	}
	r.seq++
}

// send hands the chunk over. It never waits: there is room for all chunks.
func (r *aheadReader) send() {
	if r.chunk != nil {
		r.ready <- r.chunk
		r.chunk = nil
	}
}
