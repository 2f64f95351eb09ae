package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"time"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/storage"
)

// sequence is the only writer of the log. It needs no timer: submissions collect in the next
// batch while the current one commits.
func (l *Ledger) sequence() {
	defer close(l.done)
	for range l.wake {
		// Yield first, so that goroutines that are about to submit join this batch. On a busy
		// machine this makes larger batches; on an idle one it costs nothing.
		runtime.Gosched()
		b, closed := l.takePending()
		if len(b.items) > 0 {
			b.err = l.commit(context.Background(), b)
		}
		close(b.done)
		if errors.Is(b.err, ErrOutcomeUnknown) {
			l.fail(b.err)
			return
		}
		if closed {
			return
		}
	}
}

// takePending hands the pending batch to the sequencer. If closed is true, no later batch has
// items.
func (l *Ledger) takePending() (b *batch, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b = l.pending
	l.pending = newBatch()
	close(b.taken)
	return b, l.closed
}

// fail stops the ledger after a commit with an unknown outcome. It acknowledges nothing,
// refuses new submissions, and calls Fatal.
func (l *Ledger) fail(err error) {
	l.mu.Lock()
	l.failed = true
	b := l.pending
	l.pending = newBatch()
	l.mu.Unlock()
	b.err = ErrOutcomeUnknown
	close(b.taken)
	close(b.done)
	l.config.Fatal(err)
}

// commit makes a batch durable as a whole. After any error except ErrOutcomeUnknown nothing
// was written, and the ledger continues.
func (l *Ledger) commit(ctx context.Context, b *batch) error {
	if err := l.checkSpace(ctx); err != nil {
		return err
	}
	next, err := l.resolve(ctx, b)
	if err != nil {
		return err
	}
	if len(next.events) == 0 {
		for _, it := range b.items {
			it.ack.Head = l.Head()
		}
		return nil
	}
	at := max(l.config.Clock().UnixMicro(), l.time)
	l.link(next, time.UnixMicro(at).UTC())

	old := l.Head()
	head, err := l.seal(at)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err) // the tree has grown and cannot be rolled back
	}
	next.storage.Head = head.Head
	for _, t := range l.tree.TakeDirty() {
		next.storage.Tiles = append(next.storage.Tiles, storage.Tile(t))
	}
	start := time.Now()
	if err := l.store.Commit(ctx, old.Head, next.storage); err != nil {
		return fmt.Errorf("%w: committing events %d to %d: %w", ErrOutcomeUnknown, old.Size, head.Size-1, err)
	}
	took := time.Since(start)
	l.time = at
	l.keys.Store(l.ring)
	l.head.Store(head)
	select {
	case l.headMoved <- struct{}{}:
	default:
	}
	for _, it := range b.items {
		it.ack.Head = head
	}
	l.notify(Commit{Events: len(next.events), Duration: took, At: time.UnixMicro(at)})
	return nil
}

// checkSpace returns an error while disk space is short. It logs only when that begins and
// ends.
func (l *Ledger) checkSpace(ctx context.Context) error {
	err := l.store.Writable(ctx)
	switch short := err != nil; {
	case short && !l.short:
		l.config.Log.Error("refusing writes", "error", err)
	case !short && l.short:
		l.config.Log.Info("accepting writes again")
	}
	l.short = err != nil
	return err
}

func (l *Ledger) notify(c Commit) {
	l.mu.Lock()
	watchers := l.watchers
	l.mu.Unlock()
	for _, watch := range watchers {
		watch(c)
	}
}

// assembly collects the events and the storage batch of one commit.
type assembly struct {
	events  []newEvent
	storage storage.Batch
}

// newEvent is one event to append: a submission's own body, or the refusal of it.
type newEvent struct {
	item     *item
	body     []byte
	contents []record.Content
	redacted []storage.Redaction
	ring     *keyring // signs from this event on; nil means no change
}

// resolve looks up every idempotency key, in the store and among the earlier items of the
// batch, and decides which events to append. It does not change the ledger.
func (l *Ledger) resolve(ctx context.Context, b *batch) (*assembly, error) {
	next := &assembly{events: make([]newEvent, 0, len(b.items))}
	next.storage.Keys = make([]storage.Key, 0, len(b.items))
	size := l.Head().Size
	holders, err := l.holders(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, it := range b.items {
		seq := size + uint64(len(next.events))
		own := newEvent{item: it, body: it.Body, contents: it.Contents, redacted: it.Redactions}
		if it.rekey != nil {
			var err error
			if own.ring, err = it.rekey(seq); err != nil {
				return nil, err
			}
		}
		if it.Key == nil {
			next.events = append(next.events, own)
			continue
		}
		switch holder, held := holders[*it.Key]; {
		case !held && it.Refused:
			next.events = append(next.events, own)
		case !held:
			key := storage.Key{Key: *it.Key, Record: it.Record, Seq: seq}
			holders[*it.Key] = key
			next.storage.Keys = append(next.storage.Keys, key)
			next.events = append(next.events, own)
		case holder.Record == it.Record:
			it.ack.Outcome, it.ack.First = Replayed, holder.Seq
		default:
			if holder.Seq < size {
				// Check the claim: a refusal is permanent and must not name an event that does
				// not hold the key.
				if _, it.err = l.checkClaim(holder); it.err != nil {
					continue
				}
			}
			it.ack.Outcome, it.ack.First = Conflicted, holder.Seq
			next.events = append(next.events, newEvent{item: it, body: it.Refusal(holder.Seq)})
		}
	}
	return next, nil
}

// holders returns the stored claims of the batch's keys.
func (l *Ledger) holders(ctx context.Context, b *batch) (map[proofs.Hash]storage.Key, error) {
	keys := make([]proofs.Hash, 0, len(b.items))
	for _, it := range b.items {
		if it.Key != nil {
			keys = append(keys, *it.Key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	claims, err := l.store.Keys(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("looking up idempotency keys: %w", err)
	}
	holders := make(map[proofs.Hash]storage.Key, len(keys))
	for _, claim := range claims {
		holders[claim.Key] = claim
	}
	return holders, nil
}

// link assigns every event its seq, time and place in the chain, and adds its leaf to the tree
// (spec: Entry and chain; Merkle tree).
func (l *Ledger) link(next *assembly, at time.Time) {
	text := at.Format(record.TimeLayout)
	suffix := len(record.AppendSuffixAt(nil, ^uint64(0), text))
	room, contents := 0, 0
	for i := range next.events {
		room += 1 + len(l.tip) + len(next.events[i].body) + suffix
		contents += len(next.events[i].contents)
	}
	next.storage.Entries = make([][]byte, 0, len(next.events))
	next.storage.Contents = make([]storage.Content, 0, contents)
	// Each entry follows the prefix byte of its leaf hash in the arena, so both hashes are
	// computed in place.
	arena := make([]byte, 0, room)
	seq := l.Head().Size
	for i := range next.events {
		e := &next.events[i]
		start := len(arena)
		arena = append(arena, 0x00)
		arena = append(arena, l.tip[:]...)
		arena = append(arena, e.body...)
		arena = record.AppendSuffixAt(arena, seq, text)
		leaf := arena[start:len(arena):len(arena)]
		entry := leaf[1:]
		l.tip = sha256.Sum256(entry)
		ack := &e.item.ack
		ack.Seq, ack.Entry, ack.Time, ack.TimeText = seq, entry, at, text
		ack.EventHash, ack.LeafHash = l.tip, sha256.Sum256(leaf)
		l.tree.Append(ack.LeafHash)
		next.storage.Entries = append(next.storage.Entries, entry)
		for slot, c := range e.contents {
			next.storage.Contents = append(next.storage.Contents,
				storage.Content{Digest: c.Digest, Seq: seq, Slot: uint16(slot), Bytes: c.Bytes})
		}
		if e.ring != nil {
			l.ring = e.ring
		}
		for _, r := range e.redacted {
			r.By = seq
			next.storage.Redactions = append(next.storage.Redactions, r)
		}
		seq++
	}
}

// seal signs the current state of the tree.
func (l *Ledger) seal(at int64) (*Head, error) {
	view := l.tree.Snapshot()
	checkpoint, err := proofs.SignCheckpoint(proofs.Checkpoint{Origin: l.info.Origin, Size: view.Size(), Root: view.Root()}, l.ring.signers...)
	if err != nil {
		return nil, fmt.Errorf("signing the checkpoint: %w", err)
	}
	return &Head{
		Head: storage.Head{Size: view.Size(), Tip: l.tip, Time: at, Checkpoint: checkpoint},
		Root: view.Root(),
		view: view,
	}, nil
}
