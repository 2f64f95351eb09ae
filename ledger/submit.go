package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"time"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
)

// Submission is one event on its way to the sequencer. Its slices must not
// change until the acknowledgement.
type Submission struct {
	// Body is the event body up to what the sequencer fills in, as AppendBody of
	// a record.Record or a record.Verb makes it, and within record.MaxEntry.
	Body     []byte
	Contents []record.Content
	// Redactions are the records whose content the event withdraws (spec: Redactions), all of
	// them in the log: By is filled in when it gets its seq.
	Redactions []storage.Redaction
	// Key is the digest of the idempotency key; nil when there is none. With
	// it come the canonical digest of the record and the event to log when the
	// key is held by another record (spec: Idempotency): its body, given the holder's seq.
	Key     *proofs.Hash
	Record  proofs.Hash
	Refusal func(first uint64) []byte
	// Refused: Body logs the refusal of the record. The record claims no key,
	// but one that it holds already replays it all the same.
	Refused bool
	// rekey is who seals the commit of the event, once it has its seq, and those after
	// it; nil where that stays as it is.
	rekey func(seq uint64) (*keyring, error)
}

// Outcome says what became of a submission.
type Outcome uint8

// The three outcomes. All are durable when they are reported.
const (
	Appended   Outcome = iota // the event is in the log
	Replayed                  // the same record held the key; nothing was added
	Conflicted                // another record holds the key; the refusal is in the log
)

// Ack is the answer to a submission, given after the commit.
type Ack struct {
	Outcome Outcome
	// First is the seq of the event that holds the key; for Replayed and
	// Conflicted only.
	First uint64
	// Entry is prev_event_hash and body: of the event that was appended or, for
	// Replayed, of the event First.
	Entry []byte
	// The event that was appended: the submitted one or, for Conflicted, the
	// refusal. Zero for Replayed.
	Seq       uint64
	EventHash proofs.Hash
	LeafHash  proofs.Hash
	Time      time.Time
	TimeText  string // Time as the event has it
	// Head covers the event.
	Head *Head
}

// HeaderKey is the digest of an idempotency key that a client chose.
func HeaderKey(key string) proofs.Hash {
	return sha256.Sum256([]byte("key\x00" + key))
}

// batch is what is committed together.
type batch struct {
	items []*item
	bytes int
	room  []item // for the next items

	taken chan struct{} // closed when the sequencer takes it: there is room again
	done  chan struct{} // closed when it is durable, or err is set
	err   error         // set before done is closed
}

// item is one submission and, once its batch is done, its acknowledgement.
type item struct {
	Submission
	ack Ack
	err error // why nothing became of it, though its batch is durable
}

func newBatch() *batch {
	return &batch{taken: make(chan struct{}), done: make(chan struct{})}
}

// maxRoom is how many items a batch makes at once, at most. Their memory is freed
// when nobody waits for any of them.
const maxRoom = 64

// add puts a submission of that size, in bytes, into the batch.
func (b *batch) add(s Submission, size int) *item {
	if len(b.room) == 0 {
		b.room = make([]item, min(len(b.items)+1, maxRoom))
	}
	it := &b.room[0]
	b.room = b.room[1:]
	it.Submission = s
	b.items = append(b.items, it)
	b.bytes += size
	return it
}

// Ticket stands for an accepted submission.
type Ticket struct {
	ledger *Ledger
	item   *item
	batch  *batch
}

// Wait returns when the event is durable or its batch has failed. It cannot be
// cut short: until then the sequencer uses what the submission refers to. The error is
// ErrClaim where the database leads the idempotency key to an event that does not claim
// it: nothing was recorded.
func (t Ticket) Wait() (Ack, error) {
	<-t.batch.done
	if err := cmp.Or(t.batch.err, t.item.err); err != nil {
		return Ack{}, err
	}
	ack := t.item.ack
	if ack.Outcome != Replayed {
		return ack, nil
	}
	// Here and not in the sequencer: callers do this in parallel.
	var err error
	if ack.Entry, err = t.ledger.checkClaim(storage.Key{Key: *t.item.Key, Record: t.item.Record, Seq: ack.First}); err != nil {
		return Ack{}, err
	}
	return ack, nil
}

// Submit hands one event to the sequencer and waits until it is durable. It
// fails with ErrBusy at once when the queue is full.
func (l *Ledger) Submit(s Submission) (Ack, error) {
	ticket, _, err := l.enqueue(s)
	if err != nil {
		return Ack{}, err
	}
	return ticket.Wait()
}

// Enqueue hands one event to the sequencer. Where the queue is full it waits
// for room. Events enqueued one after the other get their seq in that order.
func (l *Ledger) Enqueue(ctx context.Context, s Submission) (Ticket, error) {
	for {
		ticket, full, err := l.enqueue(s)
		if err != ErrBusy {
			return ticket, err
		}
		select {
		case <-full:
		case <-l.done:
			return Ticket{}, ErrClosed
		case <-ctx.Done():
			return Ticket{}, ctx.Err()
		}
	}
}

// enqueue adds to the pending batch. With ErrBusy comes a channel that is
// closed when there is room.
func (l *Ledger) enqueue(s Submission) (Ticket, <-chan struct{}, error) {
	size := len(s.Body)
	for _, c := range s.Contents {
		size += len(c.Bytes)
	}
	for _, r := range s.Redactions {
		size += withdrawnBytes * (1 + len(r.Digests))
	}
	refusal := l.refuses()
	if s.rekey != nil {
		refusal = l.refusal // to retire a missing key is what ends the other refusal
	}
	l.mu.Lock()
	b := l.pending
	switch {
	case l.failed:
		l.mu.Unlock()
		return Ticket{}, nil, ErrOutcomeUnknown
	case l.closed:
		l.mu.Unlock()
		return Ticket{}, nil, ErrClosed
	case l.frozen:
		l.mu.Unlock()
		return Ticket{}, nil, ErrFrozen
	case refusal != nil:
		l.mu.Unlock()
		return Ticket{}, nil, refusal
	case len(b.items) >= l.config.MaxPending || len(b.items) > 0 && b.bytes+size > l.config.MaxPendingBytes:
		l.mu.Unlock()
		return Ticket{}, b.taken, ErrBusy
	}
	it := b.add(s, size)
	l.mu.Unlock()
	l.signal()
	return Ticket{l, it, b}, nil, nil
}

// signal tells the sequencer that there is something to do.
func (l *Ledger) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
