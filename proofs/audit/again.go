package audit

import (
	"bytes"
	"context"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// EventAt reads an event once more whose entry has, as a walk has found, that leaf hash.
// It is valid until document is used again. The error is a *Damage where the entry is
// another one by now or is not there, or why the log cannot be asked.
func EventAt(ctx context.Context, log Published, seq uint64, leaf proofs.Hash, document *pyjson.Document) (pyjson.Value, error) {
	entry, err := entryAgain(ctx, log, seq, leaf)
	if err != nil {
		return pyjson.Value{}, err
	}
	_, body, err := proofs.SplitEntry(entry)
	if err == nil {
		err = document.Parse(body)
	}
	if err != nil {
		return pyjson.Value{}, fmt.Errorf("entry %d, which was good: %w", seq, err)
	}
	return document.Root(), nil
}

func entryAgain(ctx context.Context, log Published, seq uint64, leaf proofs.Hash) ([]byte, error) {
	for entry, err := range log.Entries(ctx, seq) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, unread(err, damaged(KindTruncated, seq, "it was there, and cannot be read again: %v", err))
		}
		if got := proofs.LeafHash(entry); got != leaf {
			return nil, damaged(KindEntry, seq, "its leaf hash is %x, it was %x when it was read first", got, leaf)
		}
		return bytes.Clone(entry), nil
	}
	return nil, damaged(KindTruncated, seq, "it was there, and is not when it is read again")
}

// walkedEvent reads the event of an entry before once more, and holds it to the tree
// that the entries have grown to. It is valid until an event is read out of turn again.
func (w *walk) walkedEvent(seq uint64) (event.Event, error) {
	leaf, err := w.walkedLeaf(seq)
	if err != nil {
		return event.Event{}, err
	}
	body, err := EventAt(w.ctx, w.source, seq, leaf, &w.ahead)
	return event.Read(body), err
}

// walkedLeaf is the leaf hash of an entry before, shown to be in the tree so far.
func (w *walk) walkedLeaf(seq uint64) (proofs.Hash, error) {
	read, index, slot := w.past.Tile, seq/proofs.FullTile, seq%proofs.FullTile
	if w.stored != nil { // which keeps no tiles in its past
		read = func(level uint8, index uint64) ([]byte, error) { return w.source.Tile(w.ctx, level, index) }
	}
	tile, err := proofs.NewProver(w.tree.Snapshot(), nil, read).Tile(0, index)
	switch {
	case err == nil:
		return hashAt(tile, slot), nil
	case w.stored != nil:
		return proofs.Hash{}, unread(err, tileDamaged(w.path(0, index), slot, "it was there, and cannot be read again: %v", err))
	}
	return proofs.Hash{}, fmt.Errorf("what is remembered of entry %d: %w", seq, err)
}

// eventAt reads an event out of turn from what is stored. It is not known where the event
// is damaged: the walk comes to it. It is valid until an event is read out of turn again.
func (w *walk) eventAt(seq uint64) (e event.Event, known bool, err error) {
	entry, err := w.entryAt(seq)
	if err != nil {
		return event.Event{}, false, unavailable(err)
	}
	served, err := w.source.Tile(w.ctx, 0, seq/proofs.FullTile)
	if err != nil {
		return event.Event{}, false, unavailable(err)
	}
	leaf, slot := proofs.LeafHash(entry), seq%proofs.FullTile
	if uint64(len(served)) < (slot+1)*proofs.HashSize || hashAt(served, slot) != leaf {
		return event.Event{}, false, nil
	}
	_, body, err := proofs.SplitEntry(entry)
	if err != nil || w.ahead.Parse(body) != nil {
		return event.Event{}, false, nil
	}
	return event.Read(w.ahead.Root()), true, nil
}

func (w *walk) entryAt(seq uint64) ([]byte, error) {
	for entry, err := range w.source.Entries(w.ctx, seq) {
		return bytes.Clone(entry), err
	}
	return nil, fmt.Errorf("entry %d: %w", seq, ErrAbsent)
}
