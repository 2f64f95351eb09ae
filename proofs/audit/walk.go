package audit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// leafPrefix tells leaves from nodes (RFC 6962, section 2.1).
const leafPrefix = 0x00

// progressStep is the number of entries between two calls of Progress.
const progressStep = 4096

// walk is one pass over a log.
type walk struct {
	ctx     context.Context
	source  Published
	stored  Source // all that is stored beside the log; nil where that is not to be had
	options Options
	head    Head
	report  Report

	past      Past
	extension Extension // zero where all is stored

	tree   *proofs.Tree      // grown from the entries so far
	tip    proofs.Hash       // event_hash of the last
	grown  []proofs.TileData // tiles of it not compared with the served ones yet
	leaves []byte            // served tile that holds the current leaf

	history *proofs.KeyHistory // nil before the first event
	tally   Tally

	ledger   string // name that events carry
	time     []byte // of the last event
	latest   []byte // the latest that an event can have; empty where that is not checked
	actor    []byte // of the last event
	document pyjson.Document
	event    decoded       // that is in document
	joined   []byte        // scratch
	parts    [][]byte      // scratch
	id       []byte        // scratch
	key      proofs.Hash   // idempotency key that was used last
	leaf     []byte        // scratch
	pieces   pieces        // content that was read
	digests  []proofs.Hash // of the content of one event
	deriver  *Deriver

	ahead   pyjson.Document            // an event that is read out of turn
	lists   map[uint64]*record.SeqList // of events that are read out of turn; nil of one that redacts nothing
	sources map[proofs.Hash]bool       // that were registered, by the SHA-256 of their id; of a stored log
	needed  map[proofs.Hash]bool       // content of redacted records, seen to be kept for another
}

func newWalk(ctx context.Context, source Published, options Options) (*walk, error) {
	head, err := source.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit: read the head: %w", err)
	}
	tree, err := proofs.OpenTree(0, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	var latest []byte
	if !options.Now.IsZero() {
		latest = options.Now.Add(maxAhead).UTC().AppendFormat(nil, record.TimeLayout)
	}
	return &walk{
		ctx: ctx, source: source, options: options, head: head, latest: latest,
		tree: tree, ledger: options.Ledger, pieces: newPieces(), deriver: NewDeriver(),
		sources: make(map[proofs.Hash]bool), lists: make(map[uint64]*record.SeqList), needed: make(map[proofs.Hash]bool),
	}, nil
}

// run checks everything; its error is a *Damage or keeps the walk from going on.
func (w *walk) run() error {
	if w.head.Size > 0 || len(w.head.Checkpoint) > 0 || w.stored == nil {
		if err := w.openCheckpoint(); err != nil {
			return err
		}
	}
	if err := w.checkSeen(); err != nil {
		return err
	}
	if err := w.entries(); err != nil {
		return err
	}
	w.progress()
	if err := w.finish(); err != nil {
		return err
	}
	if err := w.checkKeys(); err != nil {
		return err
	}
	if err := w.checkUses(); err != nil || w.stored == nil {
		return err
	}
	return w.checkRedactions()
}

func (w *walk) openCheckpoint() error {
	checkpoint, err := proofs.OpenCheckpoint(w.head.Checkpoint, slices.Concat(w.options.Verifiers, w.options.Successors)...)
	if err == nil && w.history != nil { // an earlier walk knows which keys sign
		checkpoint, err = w.history.OpenGrown(w.head.Checkpoint, w.tree.Size(), w.options.Verifiers, w.options.Successors)
	}
	switch {
	case isSignature(err):
		return damaged(KindSignature, w.head.Size, "%v", err)
	case err != nil:
		return damaged(KindCheckpoint, w.head.Size, "%v", err)
	}
	w.report.Checkpoint = checkpoint
	if checkpoint.Size == 0 && w.stored == nil {
		return damaged(KindCheckpoint, 0, "it is of an empty log, and no log is empty: its first event creates it")
	}
	return nil
}

func (w *walk) entries() error {
	if w.tree.Size() == w.head.Size {
		return nil
	}
	for entry, err := range w.source.Entries(w.ctx, w.tree.Size()) {
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		seq := w.tree.Size()
		if seq == w.head.Size && (err == nil || w.stored != nil) {
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
	if w.tree.Size() < w.head.Size {
		return damaged(KindTruncated, w.tree.Size(), "the head has %d entries, this one and those after it are missing", w.head.Size)
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
	served, err := w.servedLeaf(seq)
	if err != nil {
		return err
	}
	leaf := w.leafHash(entry)
	if leaf != served {
		return w.dispute(seq, entry, leaf, served)
	}
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return damaged(KindEntry, seq, "%v", err)
	}
	if prev != w.tip {
		return damaged(KindChain, seq, "it follows %x, the event before it is %x", prev, w.tip)
	}
	if err := w.compareGrown(); err != nil {
		return err
	}
	if err := w.reached(); err != nil {
		return err
	}
	if err := w.checkEvent(seq, body); err != nil {
		return err
	}
	if w.extension.Each != nil {
		if err := w.extension.Each(Walked{Seq: seq, Entry: entry, Event: w.document.Root(), Body: &w.event.Body}); err != nil {
			return err
		}
	}
	w.tree.Append(leaf)
	w.tip = sha256.Sum256(entry) // prev ‖ body
	if w.tree.Size()%proofs.FullTile == 0 {
		w.grown = w.tree.TakeDirty()
	}
	return w.checkGrown()
}

// leafHash is proofs.LeafHash, without its room for entries that are used elsewhere.
func (w *walk) leafHash(entry []byte) proofs.Hash {
	w.leaf = append(append(w.leaf[:0], leafPrefix), entry...)
	return sha256.Sum256(w.leaf)
}

// dispute decides between an entry and a served leaf hash that is not its own.
// If the served hash leads to the signed root, the entry was changed. If not, the
// chain is asked: an entry between the right neighbours is right.
func (w *walk) dispute(seq uint64, entry []byte, leaf, served proofs.Hash) error {
	path := w.path(0, seq/proofs.FullTile)
	signed, err := w.signed(path)
	if err != nil {
		return err
	}
	if signed {
		return damaged(KindEntry, seq, "its leaf hash is %x, the signed tree has %x", leaf, served)
	}
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return damaged(KindEntry, seq, "%v", err)
	}
	held, err := w.holds(seq, leaf, proofs.EventHash(prev, body))
	if err != nil {
		return err
	}
	if prev != w.tip || !held {
		return damaged(KindEntry, seq, "its leaf hash is %x, the tree has %x, and the chain does not hold it", leaf, served)
	}
	return tileDamaged(path, seq%proofs.FullTile, "its hash is %x, the entry's is %x, which the chain holds", served, leaf)
}

// holds reports whether what comes after an entry agrees with it: the prev_event_hash
// of the next; for the last, the head's tip, or the signed root where the tip is not
// known. It does not when the next cannot be read.
func (w *walk) holds(seq uint64, leaf, event proofs.Hash) (bool, error) {
	if seq+1 == w.head.Size {
		if w.stored != nil {
			return event == w.head.Tip, nil
		}
		w.tree.Append(leaf) // nothing comes after that
		return w.tree.Root() == w.report.Checkpoint.Root, nil
	}
	for entry, err := range w.source.Entries(w.ctx, seq+1) {
		if err != nil {
			return false, unavailable(err)
		}
		prev, _, err := proofs.SplitEntry(entry)
		return err == nil && prev == event, nil
	}
	return false, nil
}

// finish compares what the entries lead to with what is served and signed.
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
	case w.stored == nil:
		return nil
	case w.tip != w.head.Tip:
		return damaged(KindHead, size, "the last event hash is %x, the head has %x", w.tip, w.head.Tip)
	case size > 0 && w.lastTime() != w.head.Time:
		return damaged(KindHead, size, "the last event's time is %s, the head has %d, in microseconds", w.time, w.head.Time)
	}
	return nil
}

// lastTime is that of the last event, in microseconds since 1970.
func (w *walk) lastTime() int64 {
	at, _ := time.Parse(record.TimeLayout, string(w.time)) // it was read before
	return at.UnixMicro()
}
