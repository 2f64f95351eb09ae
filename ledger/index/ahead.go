package index

import (
	"context"

	"colophon/ledger/record"
)

// How far the log is read and drawn from ahead of the fold, which is the one thing
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
	events  [chunkEvents]drawn
	count   int   // events that there are
	large   bool  // some event was drawn from a large entry
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

// ahead reads the log from where the fold is to its head and draws from it in a goroutine
// of its own, which has what identities are known to itself. Each chunk that was received
// is given back when it is done with; the goroutine ends with the log, after an error, or
// when ctx is done.
func (f *Follower) ahead(ctx context.Context) <-chan *chunk {
	ready := make(chan *chunk, chunksAhead)
	r := drawer{ctx: ctx, free: f.fold.chunks, ready: ready, known: &f.fold.drawn, records: f.store.records, log: f.number, seq: f.fold.state.size}
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

// drawer fills chunks. It belongs to its goroutine.
type drawer struct {
	ctx   context.Context // of the goroutine
	free  <-chan *chunk
	ready chan<- *chunk
	chunk *chunk // being filled; nil when there is none
	known *identities

	records *keptRecords // IPC records come to
	log     uint64       // which is the number of the log there
	seq     uint64       // of the next event
	kept    []byte       // scratch
}

// take adds an event, and reports whether more are wanted.
func (r *drawer) take(entry []byte, err error) bool {
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
		if err = c.events[c.count].draw(c.entries[start:len(c.entries):len(c.entries)], r.known); err == nil {
			r.keep(&c.events[c.count], len(entry))
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

// keep keeps the next event if it is an IPC record: who asks about runs mostly asks about
// late ones.
func (r *drawer) keep(e *drawn, size int) {
	if r.records != nil && e.Kind == record.IPCRecord {
		said, listed := ipcRecordOf(&e.Event, e.ipc), recordOf(&e.Event)
		r.kept = r.records.keep(r.kept[:0], r.log, r.seq, size, &said, &listed)
	}
	r.seq++
}

// send hands the chunk over. It never waits: there is room for all chunks.
func (r *drawer) send() {
	if r.chunk != nil {
		r.ready <- r.chunk
		r.chunk = nil
	}
}
