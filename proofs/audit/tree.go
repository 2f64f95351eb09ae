package audit

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"colophon/proofs"
)

// leafPrefix is the byte that distinguishes leaves from inner nodes when they are hashed (RFC 6962,
// section 2.1).
const leafPrefix = 0x00

// treeCheck checks that every entry links to the previous one and has its leaf in the served
// tiles. It builds the tree from the entries, and compares it with the tiles and the signed
// root.
type treeCheck struct {
	*target
	past History

	tree   *proofs.Tree  // the tree of the entries so far
	tip    proofs.Hash   // event_hash of the last entry
	grown  []proofs.Tile // tiles that have not been compared with the served tiles yet
	leaves []byte        // the served tile that contains the current leaf
	leaf   []byte        // scratch space for leafHash
}

func (t *treeCheck) size() uint64 { return t.tree.Size() }

// check checks an entry against the tree and the chain. It also compares tiles built from earlier
// entries with the served tiles. It returns the leaf hash and the body of the entry.
func (t *treeCheck) check(seq uint64, entry []byte) (leaf proofs.Hash, body []byte, err error) {
	served, err := t.servedLeaf(seq)
	if err != nil {
		return leaf, nil, err
	}
	leaf = t.leafHash(entry)
	if leaf != served {
		return leaf, nil, t.wrongLeaf(seq, entry, leaf, served)
	}
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return leaf, nil, damaged(DamageKindEntry, seq, "%v", err)
	}
	if prev != t.tip {
		return leaf, nil, damaged(DamageKindChain, seq, "the event's prev_event_hash is %x, but the hash of the previous event is %x", prev, t.tip)
	}
	return leaf, body, t.compareGrown()
}

// append adds an entry to the tree and the chain.
func (t *treeCheck) append(leaf proofs.Hash, entry []byte) {
	t.tree.Append(leaf)
	t.tip = sha256.Sum256(entry) // an entry is prev_event_hash ‖ body
	if t.size()%proofs.FullTileWidth == 0 {
		t.grown = t.tree.TakeDirtyTiles()
	}
}

// leafHash returns the same hash as proofs.LeafHash but is faster because it reuses a buffer
// (BenchmarkExtend).
func (t *treeCheck) leafHash(entry []byte) proofs.Hash {
	t.leaf = append(append(t.leaf[:0], leafPrefix), entry...)
	return sha256.Sum256(t.leaf)
}

// servedLeaf returns the leaf hash of an entry according to the served tiles.
func (t *treeCheck) servedLeaf(seq uint64) (proofs.Hash, error) {
	slot := seq % proofs.FullTileWidth
	if slot == 0 || t.leaves == nil {
		tile, err := t.servedTile(t.path(0, seq/proofs.FullTileWidth), 1)
		if err != nil {
			return proofs.Hash{}, err
		}
		t.leaves = tile
	}
	at := slot * proofs.HashSize
	if at >= uint64(len(t.leaves)) {
		return proofs.Hash{}, tileDamaged(t.path(0, seq/proofs.FullTileWidth), slot, "the tile has only %d hashes", slot)
	}
	return proofs.Hash(t.leaves[at : at+proofs.HashSize]), nil
}

// wrongLeaf is called when an entry and its served leaf hash disagree, and decides which of the two
// is damaged. If the served hash belongs to the signed tree, the entry is damaged. Otherwise, the
// hash is damaged if the entry fits between its neighbours in the chain; if not, the entry is
// damaged.
func (t *treeCheck) wrongLeaf(seq uint64, entry []byte, leaf, served proofs.Hash) error {
	path := t.path(0, seq/proofs.FullTileWidth)
	signed, err := t.isSigned(path)
	if err != nil {
		return err
	}
	if signed {
		return damaged(DamageKindEntry, seq, "the entry's leaf hash is %x, but the signed tree has %x", leaf, served)
	}
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return damaged(DamageKindEntry, seq, "%v", err)
	}
	fits, err := t.fitsNext(seq, leaf, proofs.EventHash(prev, body))
	if err != nil {
		return err
	}
	if prev != t.tip || !fits {
		return damaged(DamageKindEntry, seq, "the entry's leaf hash is %x, but the tree has %x, and the entry does not link to its neighbours", leaf, served)
	}
	return tileDamaged(path, seq%proofs.FullTileWidth, "the tile's hash is %x, but the entry, which links to its neighbours, has the hash %x", served, leaf)
}

// fitsNext reports whether an entry fits what follows it in the log. It compares the entry's event
// hash with the prev_event_hash of the next entry. For the last entry, it checks against the head's
// tip, or against the signed root if the tip is not known. It returns false if the next entry
// cannot be read.
func (t *treeCheck) fitsNext(seq uint64, leaf, event proofs.Hash) (bool, error) {
	if seq+1 == t.head.Size {
		if t.isStored {
			return event == t.head.Tip, nil
		}
		t.tree.Append(leaf) // wrongLeaf ends the walk, so the tree is not used again
		return t.tree.Root() == t.checkpoint.Root, nil
	}
	for entry, err := range t.source.Entries(t.ctx, seq+1) {
		if err != nil {
			return false, onlyUnavailable(err)
		}
		prev, _, err := proofs.SplitEntry(entry)
		return err == nil && prev == event, nil
	}
	return false, nil
}

// finish compares the last tiles with the served ones, and the tree with the checkpoint.
func (t *treeCheck) finish() error {
	if err := t.compareGrown(); err != nil {
		return err
	}
	if err := t.compareEdge(); err != nil {
		return err
	}
	size, signed := t.head.Size, t.checkpoint
	switch root := t.tree.Root(); {
	case signed.Size > size:
		return damaged(DamageKindTruncation, size, "the checkpoint covers %d entries, but the head has only %d", signed.Size, size)
	case signed.Size < size:
		return damaged(DamageKindCheckpoint, size, "the checkpoint covers %d entries, but the head has %d", signed.Size, size)
	case len(t.head.Checkpoint) > 0 && root != signed.Root:
		return damaged(DamageKindRoot, size, "the entries have the root %x, but the signed root is %x", root, signed.Root)
	}
	return nil
}

// compareGrown compares the tiles in grown with the served tiles and stores them in past. The
// caller has checked that the next entry, if there is one, links to the last entry in the tree.
func (t *treeCheck) compareGrown() error {
	for _, tile := range t.grown {
		if _, err := t.compare(tile); err != nil {
			return err
		}
		if err := t.past.StoreTile(tile); err != nil {
			return err
		}
	}
	t.grown = nil
	return nil
}

// compareEdge compares the partial tiles at the right edge with the served ones and stores them in
// past. It is called once all entries are in the tree.
func (t *treeCheck) compareEdge() error {
	prover := proofs.NewProver(t.tree.Snapshot(), nil, nil)
	for level := uint8(0); t.size()>>(level*proofs.TileHeight) > 0; level++ {
		index := t.size() >> ((level + 1) * proofs.TileHeight)
		if proofs.TileWidth(level, index, t.size()) == 0 {
			continue
		}
		hashes, err := prover.Tile(level, index)
		if err != nil {
			return fmt.Errorf("reading the right edge of the tree at level %d: %w", level, err)
		}
		edge := proofs.Tile{Level: level, Index: index, Hashes: hashes}
		served, err := t.compare(edge)
		if err == nil {
			err = t.checkExcess(t.path(level, index), len(served), len(hashes))
		}
		if err == nil {
			err = t.past.StoreTile(edge)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkExcess checks that a tile at the edge has no more bytes than the head requires, unless
// the log has grown since the walk began.
func (t *treeCheck) checkExcess(path proofs.TilePath, has, needed int) error {
	if has == needed {
		return nil
	}
	now, err := t.sizeNow()
	if err != nil || now != t.head.Size {
		return err
	}
	return tileDamaged(path, uint64(needed/proofs.HashSize), "the tile has %d hashes, but must have %d at the head's size",
		has/proofs.HashSize, needed/proofs.HashSize)
}

// compare returns the served tile that corresponds to a tile built from the entries. If the two
// differ, the error is a *Damage that names the first hash that differs.
func (t *treeCheck) compare(tile proofs.Tile) (served []byte, err error) {
	path := t.path(tile.Level, tile.Index)
	served, err = t.servedTile(path, len(tile.Hashes)/proofs.HashSize)
	if err != nil || bytes.HasPrefix(served, tile.Hashes) {
		return served, err
	}
	slot := uint64(0)
	for hashAt(served, slot) == hashAt(tile.Hashes, slot) {
		slot++
	}
	has, want := hashAt(served, slot), hashAt(tile.Hashes, slot)
	signed, err := t.isSigned(path)
	if err != nil {
		return nil, err
	}
	if signed {
		first, last := firstBelow(path, slot), firstBelow(path, slot+1)-1
		return nil, damaged(DamageKindEntry, first, "entries %d to %d were rewritten: they hash to %x, but the signed tree has %x", first, last, want, has)
	}
	return nil, tileDamaged(path, slot, "hash %d of the tile is %x, but the entries hash to %x", slot, has, want)
}
