package audit

import (
	"context"
	"errors"
	"fmt"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// progressStep is the number of entries between two calls of Progress.
const progressStep = 4096

// walk is one pass over a log.
type walk struct {
	ctx     context.Context
	source  Source
	options Options
	head    Head
	report  Report

	chain  proofs.Chain      // of the entries so far
	tree   *proofs.Tree      // grown from them
	grown  []proofs.TileData // tiles of it not compared with the stored ones yet
	leaves []byte            // stored tile that holds the current leaf

	ledger string // name that events carry
	time   int64  // of the last event, microseconds
	event  pyjson.Document
	held   map[proofs.Hash]int // content seen to be good, and its size

	ahead  pyjson.Document            // an event that is read out of turn
	lists  map[uint64]*record.SeqList // of events that are read out of turn; nil of one that redacts nothing
	needed map[proofs.Hash]bool       // content of redacted records, seen to be kept for another
}

func newWalk(ctx context.Context, source Source, options Options, head Head) (*walk, error) {
	tree, err := proofs.OpenTree(0, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return &walk{
		ctx: ctx, source: source, options: options, head: head,
		tree: tree, ledger: options.Ledger, held: make(map[proofs.Hash]int),
		lists: make(map[uint64]*record.SeqList), needed: make(map[proofs.Hash]bool),
	}, nil
}

// run checks everything; its error is a *Damage or keeps the walk from going on.
func (w *walk) run() error {
	if w.head.Size > 0 || len(w.head.Checkpoint) > 0 {
		if err := w.openCheckpoint(); err != nil {
			return err
		}
	}
	if err := w.entries(); err != nil {
		return err
	}
	w.progress()
	if err := w.finish(); err != nil || w.options.LogOnly {
		return err
	}
	return w.checkRedactions()
}

func (w *walk) openCheckpoint() error {
	checkpoint, err := proofs.OpenCheckpoint(w.head.Checkpoint, w.options.Verifiers...)
	switch {
	case errors.Is(err, proofs.ErrWrongKey), errors.Is(err, proofs.ErrSignature):
		return damaged(KindSignature, w.head.Size, "%v", err)
	case err != nil:
		return damaged(KindCheckpoint, w.head.Size, "%v", err)
	}
	w.report.Checkpoint = checkpoint
	return nil
}

func (w *walk) entries() error {
	for entry, err := range w.source.Entries(w.ctx, 0) {
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		seq := w.chain.Size
		if seq == w.head.Size {
			return nil // the log has grown since
		}
		if err != nil {
			return unread(err, damaged(KindTruncated, seq, "the head has %d entries, this one cannot be read: %v", w.head.Size, err))
		}
		if err := w.entry(seq, entry); err != nil {
			return err
		}
		w.report.Size++
		if w.report.Size%progressStep == 0 {
			w.progress()
		}
	}
	if w.chain.Size < w.head.Size {
		return damaged(KindTruncated, w.chain.Size, "the head has %d entries, this one and those after it are missing", w.head.Size)
	}
	return nil
}

func (w *walk) progress() {
	if w.options.Progress != nil {
		w.options.Progress(w.report.Size, w.head.Size)
	}
}

// entry checks one entry: first that it is the one that the tree has, then its
// link, then what the tree made of the entries before, then the event in it.
func (w *walk) entry(seq uint64, entry []byte) error {
	stored, err := w.storedLeaf(seq)
	if err != nil {
		return err
	}
	before := w.chain.Tip
	link, broken := w.chain.Next(entry)
	leaf := link.Leaf
	if broken != nil {
		leaf = proofs.LeafHash(entry)
	}
	if leaf != stored {
		return w.dispute(seq, entry, before, leaf, stored)
	}
	switch {
	case errors.Is(broken, proofs.ErrChainLink):
		return damaged(KindChain, seq, "%v", broken)
	case broken != nil:
		return damaged(KindEntry, seq, "%v", broken)
	}
	if err := w.compareGrown(); err != nil {
		return err
	}
	if err := w.checkEvent(seq, link.Body); err != nil {
		return err
	}
	w.tree.Append(leaf)
	if w.tree.Size()%proofs.FullTile == 0 {
		w.grown = w.tree.TakeDirty()
	}
	return nil
}

// dispute decides between an entry and a stored leaf hash that is not its own.
// If the stored hash leads to the signed root, the entry was changed. If not, the
// chain is asked: an entry between the right neighbours is right.
func (w *walk) dispute(seq uint64, entry []byte, before, leaf, stored proofs.Hash) error {
	path := w.path(0, seq/proofs.FullTile)
	signed, err := w.signed(path)
	if err != nil {
		return err
	}
	if signed {
		return damaged(KindEntry, seq, "its leaf hash is %x, the signed tree has %x", leaf, stored)
	}
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return damaged(KindEntry, seq, "%v", err)
	}
	follower, err := w.follower(seq)
	if err != nil {
		return err
	}
	if prev != before || proofs.EventHash(prev, body) != follower {
		return damaged(KindEntry, seq, "its leaf hash is %x, the tree has %x, and the chain does not hold it", leaf, stored)
	}
	return tileDamaged(path, seq%proofs.FullTile, "its hash is %x, the entry's is %x, which the chain holds", stored, leaf)
}

// follower is what comes after an entry says of it: the prev_event_hash of the
// next, the head's tip for the last. It is zero when the next cannot be read.
func (w *walk) follower(seq uint64) (proofs.Hash, error) {
	if seq+1 == w.head.Size {
		return w.head.Tip, nil
	}
	for entry, err := range w.source.Entries(w.ctx, seq+1) {
		if err != nil {
			return proofs.Hash{}, unread(err, nil)
		}
		prev, _, err := proofs.SplitEntry(entry)
		if err != nil {
			return proofs.Hash{}, nil
		}
		return prev, nil
	}
	return proofs.Hash{}, nil
}

// finish compares what the entries lead to with what is stored and signed.
func (w *walk) finish() error {
	if err := w.compareGrown(); err != nil {
		return err
	}
	if err := w.compareEdge(); err != nil {
		return err
	}
	size, checkpoint := w.head.Size, w.report.Checkpoint
	switch root := w.tree.Root(); {
	case checkpoint.Size > size:
		return damaged(KindTruncated, size, "%d entries are signed, the head has %d", checkpoint.Size, size)
	case checkpoint.Size < size:
		return damaged(KindCheckpoint, size, "the checkpoint covers %d entries, the head has %d", checkpoint.Size, size)
	case len(w.head.Checkpoint) > 0 && root != checkpoint.Root:
		return damaged(KindRoot, size, "the entries lead to root %x, signed is %x", root, checkpoint.Root)
	case w.chain.Tip != w.head.Tip:
		return damaged(KindHead, size, "the last event hash is %x, the head has %x", w.chain.Tip, w.head.Tip)
	case w.time != w.head.Time:
		return damaged(KindHead, size, "the last event's time is %d, the head has %d, in microseconds", w.time, w.head.Time)
	}
	return nil
}
