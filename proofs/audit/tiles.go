package audit

import (
	"bytes"
	"fmt"

	"colophon/proofs"
)

// path names a tile at its width at the head.
func (w *walk) path(level uint8, index uint64) proofs.TilePath {
	return proofs.TilePath{Level: level, Index: index, Width: proofs.TileWidth(level, index, w.head.Size)}
}

// servedTile reads a tile: whole hashes, at least as many as needed.
func (w *walk) servedTile(path proofs.TilePath, needed int) ([]byte, error) {
	tile, err := w.source.Tile(w.ctx, path.Level, path.Index)
	if err != nil {
		return nil, unread(err, tileDamaged(path, 0, "it cannot be read: %v", err))
	}
	n := len(tile)
	if n%proofs.HashSize != 0 || n > proofs.FullTile*proofs.HashSize {
		return nil, tileDamaged(path, 0, "it has %d bytes, which are not up to %d hashes", n, proofs.FullTile)
	}
	if n < needed*proofs.HashSize {
		return nil, tileDamaged(path, uint64(n/proofs.HashSize), "it has %d hashes, %d are needed", n/proofs.HashSize, needed)
	}
	return tile, nil
}

// servedLeaf is the leaf hash that the served tiles have for an entry.
func (w *walk) servedLeaf(seq uint64) (proofs.Hash, error) {
	slot := seq % proofs.FullTile
	if slot == 0 || w.leaves == nil {
		tile, err := w.servedTile(w.path(0, seq/proofs.FullTile), 1)
		if err != nil {
			return proofs.Hash{}, err
		}
		w.leaves = tile
	}
	at := slot * proofs.HashSize
	if at >= uint64(len(w.leaves)) {
		return proofs.Hash{}, tileDamaged(w.path(0, seq/proofs.FullTile), slot, "it has %d hashes only", slot)
	}
	return proofs.Hash(w.leaves[at : at+proofs.HashSize]), nil
}

// compareGrown compares the tiles that the entries before have made with the
// served ones. It is called when the entry after them is known to link to them.
func (w *walk) compareGrown() error {
	for _, t := range w.grown {
		if _, err := w.compare(t); err != nil {
			return err
		}
		if err := w.keep(t); err != nil {
			return err
		}
	}
	w.grown = nil
	return nil
}

// keep keeps a tile for later walks.
func (w *walk) keep(t proofs.TileData) error {
	if w.stored != nil {
		return nil
	}
	return w.past.Keep(t)
}

// compareEdge compares the right edge, once all entries are in the tree. A
// served tile may be wider only if the log has grown meanwhile.
func (w *walk) compareEdge() error {
	prover := proofs.NewProver(w.tree.Snapshot(), nil, nil)
	for level := uint8(0); w.tree.Size()>>(level*proofs.TileHeight) > 0; level++ {
		index := w.tree.Size() >> ((level + 1) * proofs.TileHeight)
		if proofs.TileWidth(level, index, w.tree.Size()) == 0 {
			continue
		}
		hashes, err := prover.Tile(level, index)
		if err != nil {
			return fmt.Errorf("right edge at level %d: %w", level, err)
		}
		edge := proofs.TileData{Level: level, Index: index, Hashes: hashes}
		served, err := w.compare(edge)
		if err == nil {
			err = w.checkExcess(w.path(level, index), len(served), len(hashes))
		}
		if err == nil {
			err = w.keep(edge)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkExcess checks that a tile of the edge has no more bytes than the head
// needs, unless there is another head by now.
func (w *walk) checkExcess(path proofs.TilePath, has, needed int) error {
	if has == needed {
		return nil
	}
	now, err := w.source.Head(w.ctx)
	if err != nil {
		return fmt.Errorf("read the head again: %w", err)
	}
	if now.Size != w.head.Size {
		return nil
	}
	return tileDamaged(path, uint64(needed/proofs.HashSize), "it has %d hashes, the head's tree has %d",
		has/proofs.HashSize, needed/proofs.HashSize)
}

// compare finds the first hash in which a served tile differs from the one that
// the entries make.
func (w *walk) compare(t proofs.TileData) (served []byte, err error) {
	path := w.path(t.Level, t.Index)
	served, err = w.servedTile(path, len(t.Hashes)/proofs.HashSize)
	if err != nil || bytes.HasPrefix(served, t.Hashes) {
		return served, err
	}
	slot := 0
	for served[slot] == t.Hashes[slot] {
		slot++
	}
	slot /= proofs.HashSize
	at := slot * proofs.HashSize
	has, want := served[at:at+proofs.HashSize], t.Hashes[at:at+proofs.HashSize]
	first := firstBelow(path, uint64(slot))
	signed, err := w.signed(path)
	if err != nil {
		return nil, err
	}
	if signed {
		last := firstBelow(path, uint64(slot)+1) - 1
		return nil, damaged(KindEntry, first, "entries %d to %d were rewritten: they lead to %x, the signed tree has %x", first, last, want, has)
	}
	return nil, tileDamaged(path, uint64(slot), "its hash %d is %x, the entries lead to %x", slot, has, want)
}

// signed reports whether the served value of a tile leads to the signed root.
// The error is that of a source which is unavailable.
func (w *walk) signed(path proofs.TilePath) (leads bool, unavailable error) {
	read, checkpoint := w.served(&unavailable), w.report.Checkpoint
	tree, err := proofs.OpenTree(checkpoint.Size, read, nil)
	if err != nil || tree.Root() != checkpoint.Root {
		return false, unavailable
	}
	_, err = proofs.NewProver(tree.Snapshot(), nil, read).Tile(path.Level, path.Index)
	return err == nil, unavailable
}
