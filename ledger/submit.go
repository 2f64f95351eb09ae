package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"iter"
	"time"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
)

// Submission is one event to append. Its slices must not change before Ticket.Wait or Submit
// returns.
type Submission struct {
	// Body is the event body without the members that the sequencer adds, as returned by the
	// AppendBodyPrefix method of record.Record or record.Action. Its length is at most
	// fields.MaxEntryBytes.
	Body     []byte
	Contents []record.Content // content to store with the event
	// Redactions lists the records whose content the commit deletes (spec: Redactions). They must
	// already be in the log. The sequencer sets their RedactingSeq fields.
	Redactions []storage.Redaction
	// KeyDigest is the digest of the idempotency key, or nil. If it is not nil, RecordDigest must
	// be the canonical digest of the record, and RefusalBody must be set (spec: Idempotency).
	KeyDigest    *proofs.Hash
	RecordDigest proofs.Hash
	// RefusalBody returns the body of the event to append if another record, at seq first, already
	// holds the idempotency key.
	RefusalBody func(first uint64) []byte
	// IsRefusal means that Body logs the refusal of the record. The event does not claim the key,
	// but if the record already holds the key, the outcome is still OutcomeReplayed.
	IsRefusal bool
	// MatchKeyOnly means that the idempotency key alone identifies the record: if any record holds
	// the key, the outcome is OutcomeReplayed, and no refusal is logged.
	MatchKeyOnly bool
	// rekey returns the keyring that signs the commit of the event and all later commits, given the
	// event's seq. If it is nil, the keyring does not change.
	rekey func(seq uint64) (*keyring, error)
}

// Outcome says what happened to a submission. It is durable by the time it is reported.
type Outcome uint8

// The outcomes of a submission.
const (
	OutcomeAppended   Outcome = iota // the event is in the log
	OutcomeReplayed                  // the same record already holds the idempotency key, so nothing was appended
	OutcomeConflicted                // another record holds the idempotency key, so a refusal was appended
)

// Ack acknowledges a submission after its commit.
type Ack struct {
	Outcome Outcome
	// KeyHolderSeq is the seq of the event that holds the idempotency key. It is set only for
	// OutcomeReplayed and OutcomeConflicted.
	KeyHolderSeq uint64
	// Entry is the log entry of the appended event: prev_event_hash followed by the event body. For
	// OutcomeReplayed, it is the entry of the event at KeyHolderSeq.
	Entry []byte
	// Seq, EventHash, LeafHash, Time, and TimeText describe the appended event. For
	// OutcomeConflicted, this event is the refusal. For OutcomeReplayed, the fields are zero.
	Seq       uint64
	EventHash proofs.Hash
	LeafHash  proofs.Hash
	Time      time.Time
	TimeText  string // Time as formatted in the event body
	// Head is a head of the log that includes the event.
	Head *Head
}

// IdempotencyKeyDigest returns the digest of a client's idempotency key (spec: Idempotency).
func IdempotencyKeyDigest(key string) proofs.Hash {
	return sha256.Sum256([]byte("key\x00" + key))
}

// Ticket identifies an accepted submission that may not be durable yet.
type Ticket struct {
	ledger *Ledger
	item   *item
	batch  *batch
}

// Wait waits until the event is durable or its batch has failed. It cannot be canceled, because the
// sequencer uses the submission's memory until then. The error is ErrKeyClaimMismatch if the
// database assigns the idempotency key to an event that does not claim it; in this case, nothing
// was recorded.
func (t Ticket) Wait() (Ack, error) {
	<-t.batch.Done
	if err := cmp.Or(t.batch.Err, t.item.err); err != nil {
		return Ack{}, err
	}
	ack := t.item.ack
	if ack.Outcome != OutcomeReplayed {
		return ack, nil
	}
	// Check the claim here, where callers run in parallel, rather than in the sequencer.
	var err error
	if ack.Entry, err = t.ledger.reader.checkClaim(storage.Claim{KeyDigest: *t.item.KeyDigest, RecordDigest: t.item.RecordDigest, Seq: ack.KeyHolderSeq}); err != nil {
		return Ack{}, err
	}
	return ack, nil
}

// Submit appends one event and waits until it is durable. If the queue is full, it returns ErrQueueFull
// at once.
func (l *Ledger) Submit(s Submission) (Ack, error) {
	ticket, _, err := l.enqueue(s)
	if err != nil {
		return Ack{}, err
	}
	return ticket.Wait()
}

// Enqueue queues one event. If the queue is full, it waits until there is room. Events that are
// queued by the same goroutine get their seqs in the order of the calls.
func (l *Ledger) Enqueue(ctx context.Context, s Submission) (Ticket, error) {
	for {
		ticket, full, err := l.enqueue(s)
		if err != ErrQueueFull {
			return ticket, err
		}
		select {
		case <-full:
		case <-l.queue.Ended:
			return Ticket{}, ErrClosed
		case <-ctx.Done():
			return Ticket{}, ctx.Err()
		}
	}
}

// enqueue adds a submission to the queue. If the error is ErrQueueFull, it returns a channel that is
// closed when the queue has room again.
func (l *Ledger) enqueue(s Submission) (Ticket, <-chan struct{}, error) {
	refusal := l.signing.check()
	if s.rekey != nil {
		refusal = l.signing.refusal // ignores ErrPreviousKeyMissing, because the event that retires the missing key must get through
	}
	it, b, err := l.queue.Add(item{Submission: s}, s.size(), refusal)
	switch {
	case err == ErrQueueFull:
		return Ticket{}, b.Taken, err
	case err != nil:
		return Ticket{}, nil, err
	}
	return Ticket{l, it, b}, nil, nil
}

// size returns the number of bytes that the submission adds to a commit.
func (s *Submission) size() int {
	size := len(s.Body)
	for _, c := range s.Contents {
		size += len(c.Bytes)
	}
	for _, r := range s.Redactions {
		size += redactedPieceBytes * (1 + len(r.Digests))
	}
	return size
}

// actionsAhead limits the number of actions that AppendActions has queued but not yet reported.
const actionsAhead = 1 << 10

// AppendActions appends each action as a separate event, in order, and calls done with each
// acknowledgement. It queues several actions before it waits, so that one commit can contain many
// of them. If it returns an error, including when ctx is canceled, the log contains exactly the
// actions that were reported to done. There are two exceptions: done itself returned the error, or
// the outcome of a commit is unknown.
func (l *Ledger) AppendActions(ctx context.Context, actions iter.Seq[*record.Action], actor string, done func(Ack) error) error {
	var waiting []Ticket
	var failed, doneFailed error
	report := func() {
		ack, err := waiting[0].Wait()
		waiting = waiting[1:]
		if err == nil && doneFailed == nil {
			doneFailed = done(ack)
			err = doneFailed
		}
		if failed == nil {
			failed = err
		}
	}
	for action := range actions {
		if failed == nil {
			failed = ctx.Err()
		}
		if failed != nil {
			break
		}
		ticket, err := l.enqueueAction(ctx, action, actor)
		if err != nil {
			failed = err
			break
		}
		if waiting = append(waiting, ticket); len(waiting) == actionsAhead {
			report()
		}
	}
	for len(waiting) > 0 { // queued actions can reach the log even after an error
		report()
	}
	return failed
}

func (l *Ledger) enqueueAction(ctx context.Context, action *record.Action, actor string) (Ticket, error) {
	s, err := l.PrepareAction(action, actor, "")
	if err != nil {
		return Ticket{}, err
	}
	return l.Enqueue(ctx, s)
}
