package index

import (
	"context"
	"iter"
	"slices"
)

// Limits for reading and decoding events ahead of the fold, in parallel with it. A chunk is
// complete after chunkEvents events, or earlier if its entries reach chunkBytes.
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
	seq     uint64 // seq of the first event
	count   int    // number of events
	folded  int    // number of events that have been folded
	large   bool   // an entry is longer than largeEntry
	err     error  // error from reading or decoding the event that follows the chunk, or nil
}

// reset empties a chunk. Each event keeps a buffer that is as large as the largest entry that it
// has decoded. If the chunk contained a large entry, reset frees these buffers, because otherwise
// hundreds of events would each keep a large buffer.
func (c *chunk) reset() {
	if c.large {
		*c = chunk{entries: c.entries}
	}
	c.entries, c.count, c.folded, c.err = c.entries[:0], 0, 0, nil
}

// newChunks returns a channel with the free chunks of a fold. The chunks are nil until their first
// use, which saves memory, because most ledgers are idle.
func newChunks() chan *chunk {
	free := make(chan *chunk, chunksAhead)
	for range chunksAhead {
		free <- nil
	}
	return free
}

// ahead starts a goroutine that reads and decodes the log, from the first event that has not been
// decoded yet up to the head. The caller returns each chunk to f.fold.chunks after use. The goroutine
// stops at the head of the log, after an error, or when ctx is done.
func (f *Follower) ahead(ctx context.Context) <-chan *chunk {
	ready := make(chan *chunk, chunksAhead)
	r := aheadReader{ctx: ctx, free: f.fold.chunks, ready: ready, preparers: f.fold.preparers, seq: f.fold.decodedTo()}
	go func() {
		defer close(ready)
		for entry, err := range entries(ctx, f, r.seq) {
			if !r.take(entry, err) {
				return
			}
		}
		r.send()
	}()
	return ready
}

// entries yields the log's entries in order, from the given seq up to the head. It reads from the log only
// those that are not in memory.
func entries(ctx context.Context, f *Follower, seq uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from := seq; ; {
			for entry, found := f.recent.advanceTo(seq); found; entry, found = f.recent.advanceTo(seq) {
				if !yield(entry, nil) {
					return
				}
				seq++
			}
			if seq > from { // If memory held everything up to the head, save the query to the log.
				if head, err := f.log.Head(ctx); err == nil && head.Size <= seq {
					return
				}
			}
			again := false
			for entry, err := range f.log.Entries(ctx, seq) {
				if !yield(entry.Bytes, err) || err != nil {
					return
				}
				seq++
				if _, again = f.recent.advanceTo(seq); again {
					break
				}
			}
			if !again {
				return
			}
		}
	}
}

// decodedTo returns the seq of the first event that has not been decoded yet. It first discards the
// decoded events if they do not start at the event that the fold needs next.
func (f *Fold) decodedTo() uint64 {
	seq := f.state.size
	for i, c := range f.decoded {
		if i == 0 && c.seq+uint64(c.folded) != seq || i > 0 && c.seq != seq {
			f.discardDecoded()
			return f.state.size
		}
		seq = c.seq + uint64(c.count)
	}
	return seq
}

// discardDecoded frees the chunks of decoded events that have not been folded.
func (f *Fold) discardDecoded() {
	for _, c := range f.decoded {
		f.chunks <- c
	}
	f.decoded = f.decoded[:0]
}

// keepDecoded keeps the unused chunks of a stopped goroutine for the next batch. It drops the
// goroutine's error, because the next goroutine will encounter the same error.
func (f *Fold) keepDecoded(ready <-chan *chunk) {
	for c := range ready {
		if c.err = nil; c.count == 0 {
			f.chunks <- c
			continue
		}
		f.decoded = append(f.decoded, c)
	}
}

// next returns the next chunk to fold. It returns false at the head of the log.
func (f *Fold) next(ready <-chan *chunk) (*chunk, bool) {
	if len(f.decoded) == 0 {
		c, ok := <-ready
		if !ok {
			return nil, false
		}
		f.decoded = append(f.decoded, c)
	}
	return f.decoded[0], true
}

// free frees the chunk that next returned.
func (f *Fold) free() {
	f.chunks <- f.decoded[0]
	f.decoded = slices.Delete(f.decoded, 0, 1)
}

// aheadReader fills chunks. Only the goroutine that ahead starts uses it.
type aheadReader struct {
	ctx   context.Context
	free  <-chan *chunk
	ready chan<- *chunk
	chunk *chunk // the chunk that is being filled, or nil

	preparers []Preparer
	seq       uint64 // seq of the next event
}

// take decodes an entry and adds the event to the current chunk. It returns false if the reader
// should stop.
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
		r.chunk.seq = r.seq
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
