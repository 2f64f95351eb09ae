package ledger

import (
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

// group is what the sequencer commits together: the items of one or several batches of the queue.
type group struct {
	batches []*batch
	items   []*item
	bytes   int
	closed  bool // no later group has items
	// claims has the stored claims of the items' keys as of a time after the first commitCount commits of
	// the sequencer. It is nil if the keys have not been looked up.
	claims      map[proofs.Hash]storage.Claim
	commitCount uint64
}

func (g *group) add(b *batch, closed bool) {
	g.batches, g.bytes, g.closed = append(g.batches, b), g.bytes+b.Bytes, closed
	if g.items == nil {
		g.items = slices.Clip(b.Items) // no later add changes b.Items
	} else {
		g.items = append(g.items, b.Items...)
	}
}

// end reports that the group is durable, or that it has failed with err.
func (g *group) end(err error) {
	for _, b := range g.batches {
		b.End(err)
	}
}

// groups yields what the sequencer must commit, in order. It ends after the queue is closed.
func (s *sequencer) groups() iter.Seq[*group] {
	if s.config.LookUpKeysAhead {
		return s.groupsLookedUp
	}
	return func(yield func(*group) bool) {
		for range s.queue.Wake {
			gather()
			g := new(group)
			if g.add(s.queue.Take()); !yield(g) || g.closed {
				return
			}
		}
	}
}

// gather yields the processor, so that goroutines that are about to submit join the next batch. On a busy
// machine this makes larger batches; on an idle one it costs nothing.
func gather() { runtime.Gosched() }

// groupsLookedUp is like groups, but looks up the keys of the next group while the sequencer commits the
// previous one.
func (s *sequencer) groupsLookedUp(yield func(*group) bool) {
	ready, stop := make(chan *group), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() { s.lookAhead(ready, stop) })
	defer ended.Wait()
	defer close(stop)
	for {
		if g := <-ready; !yield(g) || g.closed {
			return
		}
	}
}

// lookAhead sends groups to ready. While the sequencer is busy, it adds newer batches to the next group.
// It returns after the last group, or once stop is closed.
func (s *sequencer) lookAhead(ready chan<- *group, stop <-chan struct{}) {
	var next *group // nil if there is none
	for {
		wake, send := s.queue.Wake, ready
		if next == nil {
			send = nil
		} else if next.closed {
			wake = nil
		}
		select {
		case send <- next:
			if next.closed {
				return
			}
			next = nil
		case <-wake:
			gather()
			if next == nil {
				next = new(group)
			}
			b, closed := s.queue.TakeMore(len(next.items), next.bytes)
			for b == nil { // there is no room in the group
				select {
				case ready <- next:
				case <-stop:
					next.end(s.queue.Failure())
					return
				}
				next = new(group)
				b, closed = s.queue.TakeMore(0, 0)
			}
			s.lookUp(next, b, closed)
		case <-stop:
			if next != nil {
				next.end(s.queue.Failure())
			}
			return
		}
	}
}

// lookUp adds a batch to a group after looking up its keys. If that fails, the batch fails, and only
// closed is added.
func (s *sequencer) lookUp(g *group, b *batch, closed bool) {
	count := s.commitCount.Load()
	claims, err := s.storedClaims(context.Background(), b.Items)
	if err != nil {
		b.End(err)
		g.closed = closed
		return
	}
	if g.claims == nil {
		g.claims, g.commitCount = claims, count
	} else {
		maps.Copy(g.claims, claims)
	}
	g.add(b, closed)
}
