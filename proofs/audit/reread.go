package audit

import (
	"bytes"
	"context"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// RereadEvent rereads the event at seq and checks that its entry still has the leaf hash that it
// had during a walk. The event is valid until document is used again. The error is a *Damage if the
// entry is missing or has changed; otherwise it says why the log cannot be read.
func RereadEvent(ctx context.Context, log PublishedLog, seq uint64, leaf proofs.Hash, document *pyjson.Document) (pyjson.Value, error) {
	entry, err := entryAgain(ctx, log, seq, leaf)
	if err != nil {
		return pyjson.Value{}, err
	}
	_, body, err := proofs.SplitEntry(entry)
	if err == nil {
		err = document.Parse(body)
	}
	if err != nil {
		return pyjson.Value{}, fmt.Errorf("rereading entry %d, which was valid before: %w", seq, err)
	}
	return document.Root(), nil
}

func entryAgain(ctx context.Context, log PublishedLog, seq uint64, leaf proofs.Hash) ([]byte, error) {
	for entry, err := range log.Entries(ctx, seq) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, readDamage(err, damaged(DamageKindTruncation, seq, "the entry was read before, but cannot be read again: %v", err))
		}
		if got := proofs.LeafHash(entry); got != leaf {
			return nil, damaged(DamageKindEntry, seq, "the entry's leaf hash is %x, but was %x when it was first read", got, leaf)
		}
		return bytes.Clone(entry), nil
	}
	return nil, damaged(DamageKindTruncation, seq, "the entry was read before, but is now missing")
}

// rereader reads events in any order, independently of the walk. An event is valid until the next
// one is read.
type rereader struct {
	*treeCheck
	document pyjson.Document
}

// walked reads an event that the walk has already checked, and compares it with the tree.
func (r *rereader) walked(seq uint64) (event.Event, error) {
	index, slot := seq/proofs.FullTileWidth, seq%proofs.FullTileWidth
	tile, err := proofs.NewProver(r.tree.Snapshot(), nil, r.past.Tile).Tile(0, index)
	switch {
	case err != nil && r.isStored:
		return event.Event{}, readDamage(err, tileDamaged(r.path(0, index), slot, "the tile was read before, but cannot be read again: %v", err))
	case err != nil:
		return event.Event{}, fmt.Errorf("reading the stored tile of entry %d: %w", seq, err)
	}
	body, err := RereadEvent(r.ctx, r.source, seq, hashAt(tile, slot), &r.document)
	return event.Read(body), err
}

// stored reads an event from a stored log. The walk may not have reached that event yet. known is
// false if the event is damaged; the walk reports the damage when it reaches the event.
func (r *rereader) stored(seq uint64) (e event.Event, known bool, err error) {
	entry, err := r.entry(seq)
	if err != nil {
		return event.Event{}, false, onlyUnavailable(err)
	}
	served, err := r.source.Tile(r.ctx, 0, seq/proofs.FullTileWidth)
	if err != nil {
		return event.Event{}, false, onlyUnavailable(err)
	}
	leaf, slot := proofs.LeafHash(entry), seq%proofs.FullTileWidth
	if uint64(len(served)) < (slot+1)*proofs.HashSize || hashAt(served, slot) != leaf {
		return event.Event{}, false, nil
	}
	_, body, err := proofs.SplitEntry(entry)
	if err != nil || r.document.Parse(body) != nil {
		return event.Event{}, false, nil
	}
	return event.Read(r.document.Root()), true, nil
}

func (r *rereader) entry(seq uint64) ([]byte, error) {
	for entry, err := range r.source.Entries(r.ctx, seq) {
		return bytes.Clone(entry), err
	}
	return nil, fmt.Errorf("reading entry %d: %w", seq, ErrNotFound)
}
