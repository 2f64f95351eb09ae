package storage

import (
	"fmt"
)

// Bounds of a hash tile.
const (
	HashBytes  = 32  // bytes of one hash
	TileHashes = 256 // hashes in a full tile
)

// Check returns an error unless b can follow old: the head counts the entries; content and
// keys belong to events of this batch; content is in the order of its events and no two
// pieces share a slot; redactions are made by events of this batch and concern earlier
// records; tiles are whole hashes. Every implementation calls it before it writes anything.
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
		if !b.has(k.Seq, old) {
			return fmt.Errorf("key %x claimed by event %d, which is not in the batch", k.Key, k.Seq)
		}
	}
	for _, r := range b.Redactions {
		if r.Seq >= old.Size {
			return fmt.Errorf("redaction of event %d, which is not before the batch", r.Seq)
		}
		if !b.has(r.By, old) {
			return fmt.Errorf("event %d redacted by event %d, which is not in the batch", r.Seq, r.By)
		}
	}
	return b.checkContents(old)
}

// has reports whether the event at seq is one of b, which follows old.
func (b Batch) has(seq uint64, old Head) bool { return seq >= old.Size && seq < b.Head.Size }

func (b Batch) checkContents(old Head) error {
	last := old.Size
	highest := -1 // slot so far of the event at last
	for i := range b.Contents {
		c := &b.Contents[i]
		switch {
		case !b.has(c.Seq, old):
			return fmt.Errorf("content %x brought by event %d, which is not in the batch", c.Digest, c.Seq)
		case c.Seq < last:
			return fmt.Errorf("content %x of event %d after that of event %d", c.Digest, c.Seq, last)
		case c.Seq > last:
			last, highest = c.Seq, -1
		}
		if int(c.Slot) > highest { // as it is in batches of the ledger
			highest = int(c.Slot)
			continue
		}
		for before := i - 1; before >= 0 && b.Contents[before].Seq == c.Seq; before-- {
			if other := &b.Contents[before]; other.Slot == c.Slot && other.Digest != c.Digest {
				return fmt.Errorf("content %x and %x both in slot %d of event %d", other.Digest, c.Digest, c.Slot, c.Seq)
			}
		}
	}
	return nil
}
