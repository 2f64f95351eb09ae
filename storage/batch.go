package storage

import (
	"fmt"
)

// Sizes of hash tiles.
const (
	HashSize      = 32  // length of one hash in bytes
	HashesPerTile = 256 // number of hashes in a full tile
)

// Check returns an error unless b can be committed after old. The head's size must be the old size
// plus the number of entries. Content and keys must belong to events of this batch. Content must be
// in the order of its events, and no two different pieces may share a slot of an event. Redactions
// must be made by events of this batch and concern earlier records. Tiles must consist of whole
// hashes. Every implementation of Store.Commit calls Check before it writes anything.
func (b Batch) Check(old Head) error {
	if b.Head.Size != old.Size+uint64(len(b.Entries)) {
		return fmt.Errorf("the head's size is %d, but must be the old size %d plus %d new entries",
			b.Head.Size, old.Size, len(b.Entries))
	}
	for _, t := range b.Tiles {
		if n := len(t.Hashes); n == 0 || n%HashSize != 0 || n > HashesPerTile*HashSize {
			return fmt.Errorf("tile %d/%d has %d bytes, but must consist of 1 to 256 hashes of 32 bytes", t.Level, t.Index, n)
		}
	}
	for _, k := range b.Claims {
		if !b.has(k.Seq, old) {
			return fmt.Errorf("idempotency key %x is claimed by event %d, which is not in the batch", k.KeyDigest, k.Seq)
		}
	}
	for _, r := range b.Redactions {
		if r.Seq >= old.Size {
			return fmt.Errorf("the batch redacts event %d, which does not precede the batch", r.Seq)
		}
		if !b.has(r.RedactingSeq, old) {
			return fmt.Errorf("event %d is redacted by event %d, which is not in the batch", r.Seq, r.RedactingSeq)
		}
	}
	return b.checkContents(old)
}

// has reports whether b, committed after old, contains the event with the given seq.
func (b Batch) has(seq uint64, old Head) bool { return seq >= old.Size && seq < b.Head.Size }

func (b Batch) checkContents(old Head) error {
	last := old.Size
	highest := -1 // highest slot seen so far for the event whose seq is last
	for i := range b.Contents {
		c := &b.Contents[i]
		switch {
		case !b.has(c.Seq, old):
			return fmt.Errorf("content %x belongs to event %d, which is not in the batch", c.Digest, c.Seq)
		case c.Seq < last:
			return fmt.Errorf("content %x of event %d comes after content of the later event %d", c.Digest, c.Seq, last)
		case c.Seq > last:
			last, highest = c.Seq, -1
		}
		if int(c.Slot) > highest { // always true for batches that package ledger builds
			highest = int(c.Slot)
			continue
		}
		for before := i - 1; before >= 0 && b.Contents[before].Seq == c.Seq; before-- {
			if other := &b.Contents[before]; other.Slot == c.Slot && other.Digest != c.Digest {
				return fmt.Errorf("content %x and content %x are both in slot %d of event %d", other.Digest, c.Digest, c.Slot, c.Seq)
			}
		}
	}
	return nil
}
