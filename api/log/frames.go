package log

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"

	"colophon/api/limits"
	"colophon/ledger"
	"colophon/proofs"
)

// frames caches events that are encoded as server-sent events. Followers that have reached the same
// event share a block, so that each event is read and encoded only once.
type frames struct {
	// encoders limits how many blocks are read and encoded at the same time, so that cores
	// remain for writes.
	encoders *semaphore.Weighted

	mu     sync.Mutex // guards the fields below
	blocks limits.RecentMap[position, *block]
}

// position identifies a block by its ledger and the seq of its first event.
type position struct {
	ledger string
	from   uint64
}

// block is a run of consecutive events of a ledger. It is immutable once ready is closed.
type block struct {
	ready chan struct{} // closed when the fields below are set
	next  uint64        // seq after the last event
	bytes []byte
	err   error
}

// blockEvents and blockBytes limit the size of a block. A block ends when it reaches either limit,
// so it can exceed blockBytes by one event. It also ends before any seq that is a multiple of
// blockEvents, so that followers that began at different events share the later blocks.
const (
	blockEvents = 32
	blockBytes  = 64 << 10
)

// keptBlocks limits the cache to 2*keptBlocks blocks (see limits.RecentMap).
const keptBlocks = 128

func newFrames() *frames {
	return &frames{encoders: semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2))),
		blocks: limits.NewRecentMap[position, *block](keptBlocks)}
}

// at returns the block that begins with the event whose seq is from; from must be less than head.
func (f *frames) at(ctx context.Context, l *ledger.Ledger, from, head uint64) (*block, error) {
	f.mu.Lock()
	created := false
	b := f.blocks.GetOrAdd(position{l.Name(), from}, func() *block {
		created = true
		return &block{ready: make(chan struct{})}
	})
	f.mu.Unlock()
	if created {
		f.fill(b, l, from, head)
	}
	select {
	case <-b.ready:
		return b, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fill reads and encodes a block. It does not use the context of any request, because all
// followers that wait for the block share the result.
func (f *frames) fill(b *block, l *ledger.Ledger, from, head uint64) {
	defer close(b.ready)
	ctx := context.Background()
	_ = f.encoders.Acquire(ctx, 1) // cannot fail: the context is never cancelled
	defer f.encoders.Release(1)
	end := min(head, from-from%blockEvents+blockEvents)
	b.next = from
	for entry, err := range l.Reader().Entries(ctx, from) {
		if err == nil {
			b.bytes, err = appendFrame(b.bytes, entry.Seq, entry.Bytes)
		}
		if err != nil {
			b.err = fmt.Errorf("reading entries starting at %d: %w", from, err)
			f.forget(position{l.Name(), from})
			return
		}
		if b.next++; b.next >= end || len(b.bytes) >= blockBytes {
			return
		}
	}
}

// forget drops a failed block, so that the next request reads it again.
func (f *frames) forget(p position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blocks.Remove(p)
}

// appendFrame appends one server-sent event. Its id is the seq, and its data is the line that
// /events sends.
func appendFrame(dst []byte, seq uint64, entry []byte) ([]byte, error) {
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return nil, fmt.Errorf("encoding entry %d: %w", seq, err)
	}
	hash := proofs.EventHash(prev, body)
	dst = strconv.AppendUint(append(dst, "id: "...), seq, 10)
	dst = strconv.AppendUint(append(dst, "\ndata: {\"seq\":"...), seq, 10)
	dst = hex.AppendEncode(append(dst, `,"event_hash":"`...), hash[:])
	dst = base64.StdEncoding.AppendEncode(append(dst, `","entry":"`...), entry)
	dst = append(append(dst, `","event":`...), body...)
	return append(dst, "}\n\n"...), nil
}
