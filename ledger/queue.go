package ledger

import (
	"cmp"
	"context"
	"sync"
)

// queue collects submissions in one batch while the sequencer commits the previous batch. Its
// methods are safe for concurrent use.
type queue struct {
	maxItems, maxBytes int // limits of a batch: Config.MaxPendingRecords and Config.MaxPendingBytes

	mu      sync.Mutex // guards the fields below
	pending *batch
	frozen  bool
	closed  error // why the queue was closed; nil while it is open
	failed  error // why the sequencer has stopped; nil while it runs

	wake  chan struct{} // holds a token when pending has items, or closed is set
	ended chan struct{} // closed when the sequencer has stopped and accepts no more batches
}

func newQueue(maxItems, maxBytes int, frozen bool) *queue {
	return &queue{
		maxItems: maxItems, maxBytes: maxBytes, pending: newBatch(), frozen: frozen,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// add adds a submission to the pending batch and wakes the sequencer. refusal is the reason why the
// ledger cannot sign, or nil if it can. If the error is ErrQueueFull, add also returns the batch that
// the sequencer must take before there is room.
func (q *queue) add(s *Submission, refusal error) (*item, *batch, error) {
	size := s.size()
	q.mu.Lock()
	b := q.pending
	if err := q.refuse(size, refusal); err != nil {
		q.mu.Unlock()
		return nil, b, err
	}
	it := b.add(s, size)
	q.mu.Unlock()
	signal(q.wake)
	return it, b, nil
}

// refuse returns the reason to reject a submission of size bytes, or nil if it can be added. The
// caller must hold q.mu.
func (q *queue) refuse(size int, refusal error) error {
	b := q.pending
	switch {
	case q.failed != nil:
		return q.failed
	case q.closed != nil:
		return q.closed
	case q.frozen:
		return ErrFrozen
	case refusal != nil:
		return refusal
	case len(b.items) >= q.maxItems || len(b.items) > 0 && b.bytes+size > q.maxBytes:
		return ErrQueueFull
	}
	return nil
}

// take hands the pending batch to the sequencer. If closed is true, no later batch has items.
func (q *queue) take() (b *batch, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b = q.pending
	q.pending = newBatch()
	close(b.taken)
	return b, q.closed != nil
}

// fail fails the pending batch with reason, and makes the queue reject all later submissions with
// the same error.
func (q *queue) fail(reason error) {
	q.mu.Lock()
	q.failed = reason
	b := q.pending
	q.pending = newBatch()
	q.mu.Unlock()
	b.err = reason
	close(b.taken)
	close(b.done)
}

// close makes the queue reject all later submissions with reason, and waits until the submissions
// that it accepted are committed. If the queue is already closed, it keeps the first reason.
func (q *queue) close(reason error) {
	q.mu.Lock()
	q.closed = cmp.Or(q.closed, reason)
	q.mu.Unlock()
	signal(q.wake)
	<-q.ended
}

// drain waits until all submissions accepted before the call are durable.
func (q *queue) drain(ctx context.Context) error {
	q.mu.Lock()
	b := q.pending
	q.mu.Unlock()
	signal(q.wake)
	select {
	case <-b.done:
		return b.err
	case <-q.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setFrozen freezes or unfreezes the queue, and reports whether its state changed.
func (q *queue) setFrozen(frozen bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	changed := q.frozen != frozen
	q.frozen = frozen
	return changed
}

func (q *queue) isFrozen() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.frozen
}

// isClosed reports whether all later submissions are refused for a reason other than a freeze.
func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed != nil || q.failed != nil
}

// len returns the number of submissions in the pending batch.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending.items)
}

// signal puts a token into a channel of capacity 1, unless the channel already has one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// batch is a set of submissions that are committed together.
type batch struct {
	items []*item
	bytes int
	spare []item // items that are allocated but not used yet

	taken chan struct{} // closed when the sequencer takes the batch, so that the queue has room again
	done  chan struct{} // closed when the batch is durable or err is set
	err   error         // set before done is closed
}

// item is one submission and, after its batch is done, its acknowledgement.
type item struct {
	Submission
	ack Ack
	err error // why this item failed although its batch is durable
}

func newBatch() *batch {
	return &batch{taken: make(chan struct{}), done: make(chan struct{})}
}

// maxSpare limits how many items a batch allocates at a time. Items that are allocated together can
// only be freed together.
const maxSpare = 64

// add adds a submission to the batch. size is the number of bytes that it adds to the commit.
func (b *batch) add(s *Submission, size int) *item {
	if len(b.spare) == 0 {
		b.spare = make([]item, min(len(b.items)+1, maxSpare))
	}
	it := &b.spare[0]
	b.spare = b.spare[1:]
	it.Submission = *s
	b.items = append(b.items, it)
	b.bytes += size
	return it
}
