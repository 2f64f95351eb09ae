package index

import (
	"context"

	"colophon/ledger/event"
	"colophon/storage"
)

// How far the log is read and decoded ahead of the fold, which is the one thing
// that cannot be done by two.
const (
	chunkEvents = 64
	chunksAhead = 4
)

// chunk is some events that follow one another.
type chunk struct {
	entries  []byte // their bytes
	decoders [chunkEvents]event.Decoder
	events   []event.Event
	err      error // what ended the chunk: that of the event behind the last
}

// newChunks holds as many chunks as are in use at once.
func newChunks() chan *chunk {
	free := make(chan *chunk, chunksAhead)
	for range chunksAhead {
		free <- new(chunk)
	}
	return free
}

// ahead reads the log from a seq to its head and decodes it in a goroutine of its
// own. Each chunk that was received is given back through free when it is done
// with; the goroutine ends with the log, after an error, or when ctx is done.
func ahead(ctx context.Context, log storage.Reader, from uint64, free chan *chunk) <-chan *chunk {
	ready := make(chan *chunk, chunksAhead)
	go func() {
		defer close(ready)
		r := reader{ctx: ctx, free: free, ready: ready}
		for entry, err := range log.Entries(ctx, from) {
			if !r.take(entry.Bytes, err) {
				return
			}
		}
		r.send()
	}()
	return ready
}

// reader fills chunks. It belongs to its goroutine.
type reader struct {
	ctx   context.Context // of the goroutine
	free  <-chan *chunk
	ready chan<- *chunk
	chunk *chunk // being filled; nil when there is none
}

// take adds an event, and reports whether more are wanted.
func (r *reader) take(entry []byte, err error) bool {
	if r.chunk == nil {
		if r.ctx.Err() != nil {
			return false
		}
		select {
		case r.chunk = <-r.free:
		case <-r.ctx.Done():
			return false
		}
		r.chunk.entries, r.chunk.events, r.chunk.err = r.chunk.entries[:0], r.chunk.events[:0], nil
	}
	c := r.chunk
	var e event.Event
	if err == nil {
		start := len(c.entries)
		c.entries = append(c.entries, entry...)
		e, err = c.decoders[len(c.events)].Decode(c.entries[start:len(c.entries):len(c.entries)])
	}
	if err != nil {
		c.err = err
		r.send()
		return false
	}
	if c.events = append(c.events, e); len(c.events) == chunkEvents {
		r.send()
	}
	return true
}

// send hands the chunk over. It never waits: there is room for all chunks.
func (r *reader) send() {
	if r.chunk != nil {
		r.ready <- r.chunk
		r.chunk = nil
	}
}
