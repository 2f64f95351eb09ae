package audit

import (
	"fmt"

	"colophon/proofs"
)

// seenCheck compares the log with earlier checkpoints and with the tree that earlier walks
// kept.
type seenCheck struct {
	*treeCheck
	checkpoints []SeenCheckpoint
}

// earlierWalk describes an earlier walk in messages that say who saw a different log.
const earlierWalk = "an earlier walk"

// checkBefore checks, before the walk, that the signed tree is not smaller than earlier trees and
// that it agrees with each of them in all entries that both trees contain.
func (c *seenCheck) checkBefore() error {
	now := c.checkpoint
	for _, s := range c.checkpoints {
		if s.Origin != now.Origin {
			return damaged(DamageKindCheckpoint, now.Size, "the checkpoint's origin is %.100q, but %s saw the origin %.100q", now.Origin, s.SeenBy, s.Origin)
		}
		if s.Size == now.Size && s.Root != now.Root {
			return c.forked(now.Size, s.SeenBy, s.Root, now.Root)
		}
	}
	if err := c.checkWalked(); err != nil {
		return err
	}
	for _, s := range c.checkpoints {
		if s.Size > now.Size {
			return damaged(DamageKindRollback, now.Size, "the log has only %d entries, but %s saw %d", now.Size, s.SeenBy, s.Size)
		}
	}
	if walked := c.size(); walked > now.Size {
		return damaged(DamageKindRollback, now.Size, "the log has only %d entries, but %s read %d", now.Size, earlierWalk, walked)
	}
	return nil
}

// checkWalked compares the tree that earlier walks covered with the signed tree and with earlier
// checkpoints. It reports no damage if the served tiles do not have the signed root, because the
// walk itself reports that.
func (c *seenCheck) checkWalked() error {
	walked, now := c.size(), c.checkpoint
	if walked == 0 {
		return nil
	}
	kept := proofs.NewProver(c.tree.Snapshot(), nil, c.past.Tile)
	for _, s := range c.checkpoints {
		if s.Size > walked || s.Size == 0 {
			continue
		}
		root, err := kept.Root(s.Size)
		if err != nil {
			return fmt.Errorf("reading the stored tiles of %d entries: %w", walked, err)
		}
		if root != s.Root {
			return damaged(DamageKindFork, s.Size, "at size %d, %s saw the root %x, but %s computed %x: the log has forked", s.Size, s.SeenBy, s.Root, earlierWalk, root)
		}
	}
	if now.Size < walked {
		root, err := kept.Root(now.Size)
		if err != nil {
			return fmt.Errorf("reading the stored tiles of %d entries: %w", walked, err)
		}
		if root != now.Root {
			return c.forked(now.Size, earlierWalk, root, now.Root)
		}
		return nil
	}
	root, known, err := c.servedRoot(walked)
	if err != nil || !known || root == c.tree.Root() {
		return err
	}
	return c.forked(walked, earlierWalk, c.tree.Root(), root)
}

// forked returns the damage to report for a log whose root at the given size has changed. by says
// who saw the earlier root.
func (c *seenCheck) forked(size uint64, by string, before, now proofs.Hash) error {
	first, err := c.firstChanged(size)
	if err != nil {
		return err
	}
	return damaged(DamageKindFork, first, "at size %d, %s saw the root %x, but the root is now %x: the log has forked", size, by, before, now)
}

// firstChanged returns the first entry whose leaf in the served tiles differs from the one that
// earlier walks kept. It returns size if the tiles show no such entry.
func (c *seenCheck) firstChanged(size uint64) (first uint64, unavailable error) {
	read, common := c.servedTiles(&unavailable), min(size, c.size())
	level := uint8(0)
	for common>>(uint(level+1)*proofs.TileHeight) > 0 {
		level++
	}
	for ; ; level-- {
		slot := uint64(0)
		index := first
		if width := proofs.TileWidth(level, index, common); width > 0 {
			before, err := c.past.Tile(level, index)
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
		if first = index*proofs.FullTileWidth + slot; level == 0 {
			break
		}
	}
	if first >= common {
		first = size
	}
	return first, unavailable
}

// checkGrown is called each time an entry has been added to the tree. It compares the tree with the
// earlier checkpoints of the same size.
func (c *seenCheck) checkGrown() error {
	for _, s := range c.checkpoints {
		if s.Size != c.size() {
			continue
		}
		if root := c.tree.Root(); s.Root != root {
			return damaged(DamageKindFork, s.Size, "at size %d, %s saw the root %x, but the entries have the root %x: the log has forked", s.Size, s.SeenBy, s.Root, root)
		}
	}
	return nil
}
