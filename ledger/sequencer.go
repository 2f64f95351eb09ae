package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colophon/ledger/queue"
	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/proofs"
	"colophon/storage"
)

// sequencer is the only writer of a log. It commits one group of submissions at a time.
type sequencer struct {
	config  *Config
	origin  string // origin of checkpoints
	store   storage.Store
	reader  reader
	queue   *queue.Queue[item]
	signing *signing // holds the published keys; run updates them with each commit

	*published               // holds the published head; run updates it with each commit
	headMoved  chan struct{} // receives a token when the head changes, to wake the writer of the high-water mark

	commitCount atomic.Uint64 // number of commits that this sequencer has made
	aheadCount  atomic.Int64  // number of items that lookAhead has taken from the queue and run has not received yet

	// Open initializes the fields below. After that, only run uses them, or only Refresh if the
	// ledger is only read.
	tree       *proofs.Tree
	ring       *keyring // signs the next commit
	tip        proofs.Hash
	time       int64 // time of the last event, in microseconds
	lowOnSpace bool  // the last commit failed for lack of space
	// lastClaims has the stored claims of the keys in the last commit, including those that it made. It is
	// nil unless keys are looked up ahead.
	lastClaims map[proofs.Hash]storage.Claim
}

// published is what readers see of a log. Host.OpenLedger passes it to the reopened ledger, so that those
// who hold the earlier one see changes too.
type published struct {
	head    atomic.Pointer[Head]              // the last durable state that was verified or committed
	history atomic.Pointer[proofs.KeyHistory] // keys of that state

	setting             sync.Mutex // held while a setting is changed
	public              atomic.Bool
	rejectsUnregistered atomic.Bool
	hashesTelemetry     atomic.Bool

	watching sync.Mutex // guards watchers
	watchers []func(Commit)
}

// run commits groups until the queue is closed, the outcome of a commit is unknown, or another server
// takes over the lease. It needs no timer, because submissions collect while a group is being
// committed.
func (s *sequencer) run() {
	defer close(s.queue.Ended)
	for g := range s.groups() {
		var err error
		if len(g.items) > 0 {
			err = s.commit(context.Background(), g)
		}
		g.end(err)
		if errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, storage.ErrLeaseNotHeld) {
			s.queue.Fail(cmp.Or(notHeld(err), ErrOutcomeUnknown))
			s.config.OnFatal(err)
			return
		}
	}
}

// notHeld returns storage.ErrLeaseNotHeld if err wraps it, and nil otherwise. ErrLeaseNotHeld means that
// nothing was written, because this server does not hold the lease.
func notHeld(err error) error {
	if errors.Is(err, storage.ErrLeaseNotHeld) {
		return storage.ErrLeaseNotHeld
	}
	return nil
}

// commit makes all events of a group durable in a single commit. Nothing was written if it returns
// an error other than ErrOutcomeUnknown. The ledger then continues, unless the error is
// storage.ErrLeaseNotHeld.
func (s *sequencer) commit(ctx context.Context, g *commitGroup) error {
	if err := s.checkSpace(ctx); err != nil {
		return err
	}
	next, err := s.resolve(ctx, g)
	if err != nil {
		return err
	}
	if len(next.events) == 0 {
		for _, it := range g.items {
			it.ack.Head = s.head.Load()
		}
		return nil
	}
	at := max(s.config.Clock().UnixMicro(), s.time)
	s.link(next, time.UnixMicro(at).UTC())

	old := s.head.Load()
	head, err := s.seal(at)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err) // the tree has grown and cannot be rolled back
	}
	next.storage.Head = head.Head
	for _, t := range s.tree.TakeDirtyTiles() {
		next.storage.Tiles = append(next.storage.Tiles, storage.Tile(t))
	}
	start := time.Now()
	if err := s.store.Commit(ctx, old.Head, next.storage); err != nil {
		return fmt.Errorf("%w: committing events %d to %d: %w", cmp.Or(notHeld(err), ErrOutcomeUnknown), old.Size, head.Size-1, err)
	}
	took := time.Since(start)
	if s.config.LookUpKeysAhead {
		s.lastClaims = g.claims
	}
	s.commitCount.Add(1)
	s.time = at
	s.signing.use(s.ring)
	s.head.Store(head)
	queue.Signal(s.headMoved)
	for _, it := range g.items {
		it.ack.Head = head
	}
	s.notify(Commit{First: old.Size, Entries: next.storage.Entries, EventCount: len(next.events), Duration: took, Time: time.UnixMicro(at)})
	return nil
}

// checkSpace returns an error while disk space is low. It logs only when the shortage begins and
// when it ends.
func (s *sequencer) checkSpace(ctx context.Context) error {
	err := s.store.CheckWritable(ctx)
	switch lowOnSpace := err != nil; {
	case lowOnSpace && !s.lowOnSpace:
		s.config.Logger.Error("refusing writes", "error", err)
	case !lowOnSpace && s.lowOnSpace:
		s.config.Logger.Info("accepting writes again")
	}
	s.lowOnSpace = err != nil
	return err
}

// watch registers f, which is called after every later commit.
func (p *published) watch(f func(Commit)) {
	p.watching.Lock()
	defer p.watching.Unlock()
	p.watchers = append(slices.Clip(p.watchers), f)
}

func (p *published) notify(c Commit) {
	p.watching.Lock()
	watchers := p.watchers
	p.watching.Unlock()
	for _, watch := range watchers {
		watch(c)
	}
}

// assembly collects the events and the storage batch of one commit.
type assembly struct {
	events  []newEvent
	storage storage.Batch
}

// newEvent is one event to append: a submission's own body, or its refusal.
type newEvent struct {
	item     *item
	body     []byte
	contents []record.Content
	redacted []storage.Redaction
	ring     *keyring // signs the commit of this event and all later commits; nil means no change
}

// resolve determines which event holds each idempotency key, in the store and among the earlier items of
// the group, and decides which events to append. It adds the claims of these events to g.claims, but does
// not change the sequencer.
func (s *sequencer) resolve(ctx context.Context, g *commitGroup) (*assembly, error) {
	next := &assembly{events: make([]newEvent, 0, len(g.items))}
	next.storage.Claims = make([]storage.Claim, 0, len(g.items))
	size := s.head.Load().Size
	if err := s.updateClaims(ctx, g); err != nil {
		return nil, err
	}
	for _, it := range g.items {
		seq := size + uint64(len(next.events))
		own := newEvent{item: it, body: it.Body, contents: it.Contents, redacted: it.Redactions}
		if it.rekey != nil {
			var err error
			if own.ring, err = it.rekey(seq); err != nil {
				return nil, err
			}
		}
		if it.KeyDigest == nil {
			next.events = append(next.events, own)
			continue
		}
		switch holder, held := g.claims[*it.KeyDigest]; {
		case !held && it.IsRefusal:
			next.events = append(next.events, own)
		case !held:
			claim := storage.Claim{KeyDigest: *it.KeyDigest, RecordDigest: it.RecordDigest, Seq: seq}
			g.claims[*it.KeyDigest] = claim
			next.storage.Claims = append(next.storage.Claims, claim)
			next.events = append(next.events, own)
		case holder.RecordDigest == it.RecordDigest || it.MatchKeyOnly:
			it.ack.Outcome, it.ack.KeyHolderSeq, it.RecordDigest = OutcomeReplayed, holder.Seq, holder.RecordDigest
		default:
			if holder.Seq < size {
				// Check the claim first. A refusal is permanent, so it must not name an event that
				// does not hold the key.
				if _, it.err = s.reader.checkClaim(holder); it.err != nil {
					continue
				}
			}
			it.ack.Outcome, it.ack.KeyHolderSeq = OutcomeConflicted, holder.Seq
			next.events = append(next.events, newEvent{item: it, body: it.RefusalBody(holder.Seq)})
		}
	}
	return next, nil
}

// updateClaims brings g.claims up to date with the last commit. If one commit has succeeded since the
// look-up, it adds that commit's claims. If several have, or the keys have not been looked up, it looks
// them up in the store.
func (s *sequencer) updateClaims(ctx context.Context, g *commitGroup) (err error) {
	if g.claims == nil || g.commitCount+1 < s.commitCount.Load() {
		g.claims, err = s.storedClaims(ctx, g.items)
		return err
	}
	if g.commitCount == s.commitCount.Load() {
		return nil
	}
	for _, it := range g.items {
		if it.KeyDigest == nil {
			continue
		}
		if claim, held := s.lastClaims[*it.KeyDigest]; held {
			g.claims[*it.KeyDigest] = claim
		}
	}
	return nil
}

// storedClaims returns the stored claims for the keys of items, indexed by key.
func (s *sequencer) storedClaims(ctx context.Context, items []*item) (map[proofs.Hash]storage.Claim, error) {
	keys := make([]proofs.Hash, 0, len(items))
	for _, it := range items {
		if it.KeyDigest != nil {
			keys = append(keys, *it.KeyDigest)
		}
	}
	stored := make(map[proofs.Hash]storage.Claim, len(keys))
	if len(keys) == 0 {
		return stored, nil
	}
	claims, err := s.store.KeyClaims(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("looking up idempotency keys: %w", err)
	}
	for _, claim := range claims {
		stored[claim.KeyDigest] = claim
	}
	return stored, nil
}

// link assigns every event its seq, time, and place in the chain, and adds its leaf to the tree
// (spec: Entry and chain; Merkle tree).
func (s *sequencer) link(next *assembly, at time.Time) {
	text := at.Format(moment.Layout)
	suffix := len(record.AppendBodySuffixWithTime(nil, ^uint64(0), text))
	room, contents := 0, 0
	for i := range next.events {
		room += 1 + len(s.tip) + len(next.events[i].body) + suffix
		contents += len(next.events[i].contents)
	}
	next.storage.Entries = make([][]byte, 0, len(next.events))
	next.storage.Contents = make([]storage.Content, 0, contents)
	// In the arena, each entry is preceded by the prefix byte of its leaf hash, so that its event
	// hash and its leaf hash can both be computed in place.
	arena := make([]byte, 0, room)
	seq := s.head.Load().Size
	for i := range next.events {
		e := &next.events[i]
		start := len(arena)
		arena = append(arena, 0x00)
		arena = append(arena, s.tip[:]...)
		arena = append(arena, e.body...)
		arena = record.AppendBodySuffixWithTime(arena, seq, text)
		leaf := arena[start:len(arena):len(arena)]
		entry := leaf[1:]
		s.tip = sha256.Sum256(entry)
		ack := &e.item.ack
		ack.Seq, ack.Entry, ack.Time, ack.TimeText = seq, entry, at, text
		ack.EventHash, ack.LeafHash = s.tip, sha256.Sum256(leaf)
		s.tree.Append(ack.LeafHash)
		next.storage.Entries = append(next.storage.Entries, entry)
		for slot, c := range e.contents {
			next.storage.Contents = append(next.storage.Contents,
				storage.Content{Digest: c.Digest, Seq: seq, Slot: uint16(slot), Bytes: c.Bytes})
		}
		if e.ring != nil {
			s.ring = e.ring
		}
		for _, r := range e.redacted {
			r.RedactingSeq = seq
			next.storage.Redactions = append(next.storage.Redactions, r)
		}
		seq++
	}
}

// seal signs a checkpoint of the current tree and returns the new head. at is the time of the last
// event, in microseconds.
func (s *sequencer) seal(at int64) (*Head, error) {
	view := s.tree.Snapshot()
	checkpoint, err := proofs.SignCheckpoint(proofs.Checkpoint{Origin: s.origin, Size: view.Size(), Root: view.Root()}, s.ring.signers...)
	if err != nil {
		return nil, fmt.Errorf("signing the checkpoint: %w", err)
	}
	return &Head{
		Head: storage.Head{Size: view.Size(), Tip: s.tip, TimeMicros: at, Checkpoint: checkpoint},
		Root: view.Root(),
		view: view,
	}, nil
}
