package storage

import (
	"fmt"
)

// Bounds of a hash tile.
const (
	HashBytes  = 32  // bytes of one hash
	TileHashes = 256 // hashes in a full tile
)

// Check reports whether b can follow old: the head counts the entries, content
// and keys belong to events of this batch, no two pieces of content share a
// place, and tiles are whole hashes. Every implementation refuses a batch that
// fails it, before anything is written.
func (b Batch) Check(old Head) error {
	if b.Head.Size != old.Size+uint64(len(b.Entries)) {
		return fmt.Errorf("head of size %d does not follow size %d and %d entries",
			b.Head.Size, old.Size, len(b.Entries))
	}
	for _, t := range b.Tiles {
		if n := len(t.Hashes); n == 0 || n%HashBytes != 0 || n > TileHashes*HashBytes {
			return fmt.Errorf("tile %d/%d of %d bytes", t.Level, t.Index, n)
		}
	}
	for _, k := range b.Keys {
		if k.Seq < old.Size || k.Seq >= b.Head.Size {
			return fmt.Errorf("key %x claimed by event %d, which is not in the batch", k.Key, k.Seq)
		}
	}
	return b.checkContents(old)
}

func (b Batch) checkContents(old Head) error {
	type place struct {
		seq  uint64
		slot uint16
	}
	digests := make(map[place]Hash, len(b.Contents))
	for _, c := range b.Contents {
		if c.Seq < old.Size || c.Seq >= b.Head.Size {
			return fmt.Errorf("content %x brought by event %d, which is not in the batch", c.Digest, c.Seq)
		}
		at := place{c.Seq, c.Slot}
		if other, taken := digests[at]; taken && other != c.Digest {
			return fmt.Errorf("content %x and %x both in slot %d of event %d", other, c.Digest, c.Slot, c.Seq)
		}
		digests[at] = c.Digest
	}
	return nil
}
