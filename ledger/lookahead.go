package ledger

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"

	"colophon/ledger/queue"
	"colophon/proofs"
	"colophon/storage"
)

// batch is a batch of the queue.
type batch = queue.Batch[item]

// item is one submission and, after its batch is done, its acknowledgement.
type item struct {
	Submission
	ack Ack
	err error // why this item failed although its batch is durable
}

// commitGroup is what the sequencer commits together: the items of one or several batches of the queue.
type commitGroup struct {
	batches []*batch
	items   []*item
	bytes   int
	closed  bool // no later group has items
	// claims has the stored claims of the items' keys, including those of at least the first commitCount
	// commits of the sequencer. It is nil if the keys have not been looked up.
	claims      map[proofs.Hash]storage.Claim
	commitCount uint64
}

func (g *commitGroup) add(b *batch, closed bool) {
	g.batches, g.bytes, g.closed = append(g.batches, b), g.bytes+b.Bytes, closed
	if g.items == nil {
		g.items = slices.Clip(b.Items) // no later add changes b.Items
	} else {
		g.items = append(g.items, b.Items...)
	}
}

// end reports that the group is durable, or that it has failed with err.
func (g *commitGroup) end(err error) {
	for _, b := range g.batches {
		b.End(err)
	}
}

// groups yields what the sequencer must commit, in order. It ends after the queue is closed.
func (s *sequencer) groups() iter.Seq[*commitGroup] {
	if s.config.LookUpKeysAhead {
		return s.groupsWithClaims
	}
	return func(yield func(*commitGroup) bool) {
		for range s.queue.Wake {
			yieldToSubmitters()
			g := new(commitGroup)
			if g.add(s.queue.Take()); !yield(g) || g.closed {
				return
			}
		}
	}
}

// yieldToSubmitters yields the processor, so that goroutines that are about to submit join the next batch.
// On a busy machine this makes larger batches; on an idle one it costs nothing.
func yieldToSubmitters() { runtime.Gosched() }

// groupsWithClaims is like groups, but looks up the keys of the next group while the sequencer commits the
// previous one.
func (s *sequencer) groupsWithClaims(yield func(*commitGroup) bool) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &lookAhead{sequencer: s, ready: make(chan *commitGroup)}
	var ended sync.WaitGroup
	ended.Go(func() { a.run(ctx) })
	defer ended.Wait()
	defer cancel()
	for {
		g := <-a.ready
		s.aheadCount.Add(-int64(len(g.items)))
		if !yield(g) || g.closed {
			return
		}
	}
}

// lookAhead prepares the next group while the sequencer is busy.
type lookAhead struct {
	*sequencer
	ready chan *commitGroup
	next  *commitGroup // nil if there is none
}

// run sends groups to ready. While the sequencer is busy, run adds newer batches to the next group. It
// returns after the last group, or once ctx is done.
func (a *lookAhead) run(ctx context.Context) {
	defer a.abandon()
	for a.next == nil || !a.next.closed {
		var send chan<- *commitGroup // nil while there is no next group
		if a.next != nil {
			select { // do not let an idle sequencer wait for another look-up
			case a.ready <- a.next:
				a.next = nil
				continue
			default:
				send = a.ready
			}
		}
		select {
		case send <- a.next:
			a.next = nil
		case <-a.queue.Wake:
			yieldToSubmitters()
			if !a.take(ctx) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
	a.send(ctx)
}

// take takes the pending batch and adds it to the next group. If the batch does not fit, take first waits
// until the sequencer has taken that group, and then starts a new one. It returns false once ctx is done.
func (a *lookAhead) take(ctx context.Context) bool {
	if a.next == nil {
		a.next = new(commitGroup)
	}
	b, closed := a.queue.TakeMore(len(a.next.items), a.next.bytes)
	if b == nil {
		if !a.send(ctx) {
			return false
		}
		a.next = new(commitGroup)
		b, closed = a.queue.Take()
	}
	a.lookUp(ctx, b, closed)
	return true
}

// send waits until the sequencer takes the next group. It returns false once ctx is done.
func (a *lookAhead) send(ctx context.Context) bool {
	select {
	case a.ready <- a.next:
		a.next = nil
		return true
	case <-ctx.Done():
		return false
	}
}

// abandon fails the next group if there is one, because the sequencer has stopped. Nothing of the group was
// written.
func (a *lookAhead) abandon() {
	if a.next != nil {
		a.aheadCount.Add(-int64(len(a.next.items)))
		a.next.end(cmp.Or(a.queue.Failure(), ErrClosed))
	}
}

// lookUp looks up the keys of a batch, and adds the batch to the next group. If the look-up fails, the batch
// fails, and lookUp only records closed in the group. If ctx is done, lookUp adds the batch for abandon to fail.
func (a *lookAhead) lookUp(ctx context.Context, b *batch, closed bool) {
	a.aheadCount.Add(int64(len(b.Items)))
	count := a.commitCount.Load()
	claims, err := a.storedClaims(ctx, b.Items)
	if err != nil && ctx.Err() == nil {
		a.aheadCount.Add(-int64(len(b.Items)))
		b.End(err)
		a.next.closed = closed
		return
	}
	if a.next.claims == nil {
		a.next.claims, a.next.commitCount = claims, count
	} else {
		maps.Copy(a.next.claims, claims)
	}
	a.next.add(b, closed)
}
