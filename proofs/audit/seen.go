package audit

import (
	"errors"
	"fmt"

	"colophon/proofs"
)

// earlierWalk is who has seen what was walked before.
const earlierWalk = "an earlier walk"

// checkSeen checks, before the walk, that the signed tree is what it was when it was
// seen and walked before, as far as both go, and not smaller.
func (w *walk) checkSeen() error {
	now := w.report.Checkpoint
	for _, s := range w.extension.Seen {
		if s.Origin != now.Origin {
			return damaged(KindCheckpoint, now.Size, "its origin is %.100q, %s saw %.100q", now.Origin, s.By, s.Origin)
		}
		if s.Size == now.Size && s.Root != now.Root {
			return w.forked(now.Size, s.By, s.Root, now.Root)
		}
	}
	if err := w.checkWalked(); err != nil {
		return err
	}
	for _, s := range w.extension.Seen {
		if s.Size > now.Size {
			return damaged(KindRollback, now.Size, "the log has %d entries, %s saw %d", now.Size, s.By, s.Size)
		}
	}
	if walked := w.tree.Size(); walked > now.Size {
		return damaged(KindRollback, now.Size, "the log has %d entries, %s came to %d", now.Size, earlierWalk, walked)
	}
	return nil
}

// checkWalked compares what was walked before with the signed tree and with what was
// seen. Where the tiles that are served now do not lead to the signed root the walk
// will say so.
func (w *walk) checkWalked() error {
	walked, now := w.tree.Size(), w.report.Checkpoint
	if walked == 0 {
		return nil
	}
	roots := proofs.NewProver(w.tree.Snapshot(), nil, w.past.Tile)
	for _, s := range w.extension.Seen {
		if s.Size > walked || s.Size == 0 {
			continue
		}
		root, err := roots.Root(s.Size)
		if err != nil {
			return fmt.Errorf("what is remembered of %d entries: %w", walked, err)
		}
		if root != s.Root {
			return damaged(KindFork, s.Size, "at size %d %s saw the root %x, %s %x: these are two logs", s.Size, s.By, s.Root, earlierWalk, root)
		}
	}
	if now.Size < walked {
		root, err := roots.Root(now.Size)
		if err != nil {
			return fmt.Errorf("what is remembered of %d entries: %w", walked, err)
		}
		if root != now.Root {
			return w.forked(now.Size, earlierWalk, root, now.Root)
		}
		return nil
	}
	root, known, err := w.servedRoot(walked)
	if err != nil || !known || root == w.tree.Root() {
		return err
	}
	return w.forked(walked, earlierWalk, w.tree.Root(), root)
}

// servedRoot is the root that the signed tree had at a size, as the tiles which are
// served show; it is not known where those do not lead to the signed root. The error
// is that of a source which is unavailable.
func (w *walk) servedRoot(size uint64) (root proofs.Hash, known bool, unavailable error) {
	read := w.served(&unavailable)
	tree, err := proofs.OpenTree(w.report.Checkpoint.Size, read, nil)
	if err != nil || tree.Root() != w.report.Checkpoint.Root {
		return proofs.Hash{}, false, unavailable
	}
	root, err = proofs.NewProver(tree.Snapshot(), nil, read).Root(size)
	return root, err == nil, unavailable
}

// served reads the tiles that the log has now, and notes why where it cannot be
// asked.
func (w *walk) served(unavailable *error) proofs.TileReader {
	return func(level uint8, index uint64) ([]byte, error) {
		tile, err := w.source.Tile(w.ctx, level, index)
		if errors.Is(err, ErrUnavailable) {
			*unavailable = err
		}
		return tile, err
	}
}

// forked is the damage of a log that at a size has another root than it had.
func (w *walk) forked(size uint64, by string, before, now proofs.Hash) error {
	first, err := w.parting(size)
	if err != nil {
		return err
	}
	return damaged(KindFork, first, "at size %d %s saw the root %x, now it is %x: these are two logs", size, by, before, now)
}

// parting is the first entry that is another one than it was when it was walked: where
// the tiles that are served part from those that were kept. It is size where that
// cannot be told.
func (w *walk) parting(size uint64) (first uint64, unavailable error) {
	read, common := w.served(&unavailable), min(size, w.tree.Size())
	level := uint8(0)
	for common>>(uint(level+1)*proofs.TileHeight) > 0 {
		level++
	}
	for ; ; level-- {
		slot := uint64(0)
		index := first
		if width := proofs.TileWidth(level, index, common); width > 0 {
			before, err := w.past.Tile(level, index)
			if err != nil {
				return 0, err
			}
			now, err := read(level, index)
			if err != nil || min(len(before), len(now)) < width*proofs.HashSize {
				return size, unavailable
			}
			for slot < uint64(width) && hashAt(before, slot) == hashAt(now, slot) {
				slot++
			}
		}
		if first = index*proofs.FullTile + slot; level == 0 {
			break
		}
	}
	if first >= common {
		first = size
	}
	return first, unavailable
}

// hashAt is a hash of a tile.
func hashAt(tile []byte, slot uint64) proofs.Hash {
	return proofs.Hash(tile[slot*proofs.HashSize:])
}

// checkGrown compares the tree, which has just grown, with those that were seen.
func (w *walk) checkGrown() error {
	for _, s := range w.extension.Seen {
		if s.Size != w.tree.Size() {
			continue
		}
		if root := w.tree.Root(); s.Root != root {
			return damaged(KindFork, s.Size, "at size %d %s saw the root %x, the entries lead to %x: these are two logs", s.Size, s.By, s.Root, root)
		}
	}
	return nil
}
