// Package queue collects submissions in batches while a ledger's sequencer commits earlier batches.
package queue

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// Reasons why Add refuses a submission.
var (
	ErrFull   = errors.New("ledger: the queue of pending records is full; try again later")
	ErrFrozen = errors.New("ledger: the ledger is frozen and accepts no writes")
	ErrClosed = errors.New("ledger: the ledger is shutting down")
)

// Queue collects items of type T in one batch until the sequencer takes the batch. Its methods are safe
// for concurrent use.
type Queue[T any] struct {
	maxItems, maxBytes int // limits of a batch

	mu      sync.Mutex // guards the fields below
	pending *Batch[T]
	frozen  bool
	closed  error // why the queue was closed; nil while it is open
	failed  error // why the sequencer has stopped; nil while it runs

	// Wake holds a token when a batch has items, or the queue is closed.
	Wake chan struct{}
	// Ended is closed when the sequencer has stopped and accepts no more batches. The sequencer closes it, or
	// ledger.Open if there is no sequencer.
	Ended chan struct{}
}

// New returns an empty queue. A batch has at most maxItems items and maxBytes bytes, but a single item can
// exceed maxBytes.
func New[T any](maxItems, maxBytes int, frozen bool) *Queue[T] {
	return &Queue[T]{
		maxItems: maxItems, maxBytes: maxBytes, pending: newBatch[T](), frozen: frozen,
		Wake: make(chan struct{}, 1), Ended: make(chan struct{}),
	}
}

// Add adds a copy of an item to the pending batch and wakes the sequencer. size is the number of bytes
// that the item adds to a commit. refusal is the reason why the ledger cannot sign, or nil if it can. If
// the error is ErrFull, Add also returns the batch that the sequencer must take before there is room.
func (q *Queue[T]) Add(item T, size int, refusal error) (*T, *Batch[T], error) {
	q.mu.Lock()
	b := q.pending
	if err := q.refuse(size, refusal); err != nil {
		q.mu.Unlock()
		return nil, b, err
	}
	it := b.add(item, size)
	q.mu.Unlock()
	Signal(q.Wake)
	return it, b, nil
}

// refuse returns the reason to reject an item of size bytes, or nil if it can be added. The caller must
// hold q.mu.
func (q *Queue[T]) refuse(size int, refusal error) error {
	switch {
	case q.failed != nil:
		return q.failed
	case q.closed != nil:
		return q.closed
	case q.frozen:
		return ErrFrozen
	case refusal != nil:
		return refusal
	case !q.pending.hasRoom(1, size, q.maxItems, q.maxBytes):
		return ErrFull
	}
	return nil
}

// Take hands the pending batch to the sequencer. If closed is true, no later batch has items.
func (q *Queue[T]) Take() (b *Batch[T], closed bool) { return q.TakeMore(0, 0) }

// TakeMore is like Take, but takes the pending batch only if it can be committed together with items that
// were taken before: count items with the given number of bytes. Otherwise, TakeMore returns nil.
func (q *Queue[T]) TakeMore(count, bytes int) (b *Batch[T], closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if count > 0 && !q.pending.hasRoom(count, bytes, q.maxItems, q.maxBytes) {
		return nil, false
	}
	return q.take(), q.closed != nil
}

func (q *Queue[T]) take() *Batch[T] {
	b := q.pending
	q.pending = newBatch[T]()
	close(b.Taken)
	return b
}

// Fail fails the pending batch with reason, and makes the queue reject all later items with the same error.
func (q *Queue[T]) Fail(reason error) {
	q.mu.Lock()
	q.failed = reason
	b := q.take()
	q.mu.Unlock()
	b.End(reason)
}

// Close makes the queue reject all later items with reason, and waits until the items that it accepted are
// committed. If the queue is already closed, it keeps the first reason.
func (q *Queue[T]) Close(reason error) {
	q.mu.Lock()
	q.closed = cmp.Or(q.closed, reason)
	q.mu.Unlock()
	Signal(q.Wake)
	<-q.Ended
}

// Drain waits until all items accepted before the call are durable.
func (q *Queue[T]) Drain(ctx context.Context) error {
	q.mu.Lock()
	b := q.pending
	q.mu.Unlock()
	Signal(q.Wake)
	select {
	case <-b.Done:
		return b.Err
	case <-q.Ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetFrozen freezes or unfreezes the queue, and reports whether its state changed.
func (q *Queue[T]) SetFrozen(frozen bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	changed := q.frozen != frozen
	q.frozen = frozen
	return changed
}

// IsFrozen reports whether the queue is frozen.
func (q *Queue[T]) IsFrozen() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.frozen
}

// IsClosed reports whether all later items are refused for a reason other than a freeze.
func (q *Queue[T]) IsClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed != nil || q.failed != nil
}

// Failure returns the reason that was passed to Fail, or nil.
func (q *Queue[T]) Failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// Len returns the number of items in the pending batch.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending.Items)
}

// Signal puts a token into a channel of capacity 1, unless the channel already has one.
func Signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Batch is a set of items that are committed together.
type Batch[T any] struct {
	Items []*T
	Bytes int
	spare []T // items that are allocated but not used yet

	Taken chan struct{} // closed when the sequencer takes the batch, so that the queue has room again
	Done  chan struct{} // closed when the batch is durable or Err is set
	Err   error         // set before Done is closed
}

func newBatch[T any]() *Batch[T] {
	return &Batch[T]{Taken: make(chan struct{}), Done: make(chan struct{})}
}

// End reports that the batch is durable, or that it has failed with err.
func (b *Batch[T]) End(err error) {
	b.Err = err
	close(b.Done)
}

// hasRoom reports whether count more items with the given number of bytes fit into a batch with the given
// limits.
func (b *Batch[T]) hasRoom(count, bytes, maxItems, maxBytes int) bool {
	return len(b.Items)+count <= maxItems && (len(b.Items) == 0 || b.Bytes+bytes <= maxBytes)
}

// maxSpare limits how many items a batch allocates at a time. Items that are allocated together can
// only be freed together.
const maxSpare = 64

// add adds a copy of an item to the batch. size is the number of bytes that it adds to the commit.
func (b *Batch[T]) add(item T, size int) *T {
	if len(b.spare) == 0 {
		b.spare = make([]T, min(len(b.Items)+1, maxSpare))
	}
	it := &b.spare[0]
	b.spare = b.spare[1:]
	*it = item
	b.Items = append(b.Items, it)
	b.Bytes += size
	return it
}
