package api

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"

	"colophon/ledger"
	"colophon/proofs"
)

// frames are events as followers are sent them. Those who are at the same place are
// sent the same bytes, which are encoded once; the latest blocks are kept.
type frames struct {
	// encoders bounds how many blocks are read and encoded at once: writers need
	// the cores more.
	encoders *semaphore.Weighted

	mu     sync.Mutex // guards what follows
	blocks generations[position, *block]
}

// position is where a block begins.
type position struct {
	ledger string
	from   uint64
}

// block is some events of a ledger, one after the other. Once it is ready it never
// changes.
type block struct {
	ready chan struct{} // closed when what follows is set
	next  uint64        // seq after the last
	bytes []byte
	err   error
}

// The bounds of a block, of which the first that is met counts. All blocks end where
// blockEvents divides the seq, so that followers who began at different places come
// to share them. One event more than fit may be in it.
const (
	blockEvents = 32
	blockBytes  = 64 << 10
)

// keptBlocks is how many blocks are kept, at most twice as many.
const keptBlocks = 128

func newFrames() *frames {
	return &frames{encoders: semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2))),
		blocks: newGenerations[position, *block](keptBlocks)}
}

// at is the block that begins at an event; head is beyond it.
func (f *frames) at(ctx context.Context, l *ledger.Ledger, from, head uint64) (*block, error) {
	f.mu.Lock()
	mine := false
	b := f.blocks.get(position{l.Name(), from}, func() *block {
		mine = true
		return &block{ready: make(chan struct{})}
	})
	f.mu.Unlock()
	if mine {
		f.fill(b, l, from, head)
	}
	select {
	case <-b.ready:
		return b, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fill reads and encodes a block, for all who wait for it: it is not given up for
// one of them.
func (f *frames) fill(b *block, l *ledger.Ledger, from, head uint64) {
	defer close(b.ready)
	ctx := context.Background()
	_ = f.encoders.Acquire(ctx, 1) // never fails: that is never done
	defer f.encoders.Release(1)
	end := min(head, from-from%blockEvents+blockEvents)
	b.next = from
	for entry, err := range l.Store().Entries(ctx, from) {
		if err == nil {
			b.bytes, err = appendFrame(b.bytes, entry.Seq, entry.Bytes)
		}
		if err != nil {
			b.err = fmt.Errorf("entries from %d: %w", from, err)
			f.forget(position{l.Name(), from})
			return
		}
		if b.next++; b.next >= end || len(b.bytes) >= blockBytes {
			return
		}
	}
}

// forget has the next who asks for a block try again.
func (f *frames) forget(p position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blocks.drop(p)
}

// appendFrame appends one event as server-sent events have it: its seq is the id,
// the line that /events answers the data.
func appendFrame(dst []byte, seq uint64, entry []byte) ([]byte, error) {
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	hash := proofs.EventHash(prev, body)
	dst = strconv.AppendUint(append(dst, "id: "...), seq, 10)
	dst = strconv.AppendUint(append(dst, "\ndata: {\"seq\":"...), seq, 10)
	dst = hex.AppendEncode(append(dst, `,"event_hash":"`...), hash[:])
	dst = base64.StdEncoding.AppendEncode(append(dst, `","entry":"`...), entry)
	dst = append(append(dst, `","event":`...), body...)
	return append(dst, "}\n\n"...), nil
}
