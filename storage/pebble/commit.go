package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	engine "github.com/cockroachdb/pebble/v2"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// Commit implements storage.Store. Commits of one ledger wait for each other;
// readers see the new head only once it is durable. An error other than
// ErrConflict and ErrFrozen comes before anything is written; a write that
// fails ends the process (Config.Fatal).
func (l *ledger) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.commit(ctx, old, b); err != nil {
		return fmt.Errorf("committing to ledger %q: %w", l.name(), err)
	}
	return nil
}

// commit does the work of Commit. The caller holds l.mu.
func (l *ledger) commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	if err := l.accepts(ctx, old, b); err != nil {
		return err
	}
	c := newChange(l.db.engine, batchBytes(b))
	l.setLog(c, old, b)
	erased, err := l.erase(c, b.Erase)
	if err != nil {
		return err
	}
	if err := l.setContents(c, b.Contents, erased); err != nil {
		return err
	}
	if err := c.commit(l.db.durability); err != nil {
		return err
	}
	for digest := range erased {
		l.recent.remove(digest)
	}
	for i := range b.Contents {
		l.recent.add(b.Contents[i].Digest)
	}
	head := b.Head
	head.Checkpoint = bytes.Clone(head.Checkpoint)
	l.head.Store(&head)
	return nil
}

func (l *ledger) accepts(ctx context.Context, old storage.Head, b storage.Batch) error {
	if err := l.db.usable(ctx); err != nil {
		return err
	}
	if l.info.Load().Frozen {
		return storage.ErrFrozen
	}
	stored := l.head.Load()
	if stored.Size != old.Size || stored.Tip != old.Tip {
		return fmt.Errorf("%w: the head has size %d and tip %x, the commit builds on size %d and tip %x",
			storage.ErrConflict, stored.Size, stored.Tip[:4], old.Size, old.Tip[:4])
	}
	return b.Check(old)
}

// batchBytes is about the length of b's keys and values.
func batchBytes(b storage.Batch) int {
	const perItem = 2*keys.MaxLength + 32
	n := perItem * (len(b.Entries) + len(b.Keys) + len(b.Tiles) + 2*len(b.Contents) + 1)
	for _, e := range b.Entries {
		n += len(e)
	}
	for i := range b.Contents {
		n += len(b.Contents[i].Bytes)
	}
	for i := range b.Tiles {
		n += len(b.Tiles[i].Hashes)
	}
	return n
}

// setLog writes head, entries, tiles and claims.
func (l *ledger) setLog(c *change, old storage.Head, b storage.Batch) {
	var key, value []byte
	for i, e := range b.Entries {
		key = keys.AppendEntry(key[:0], l.number, old.Size+uint64(i))
		c.set(key, e)
	}
	for _, t := range b.Tiles {
		key = keys.AppendTile(key[:0], l.number, t.Level, t.Index)
		c.set(key, t.Hashes)
	}
	for _, k := range b.Keys {
		key = keys.AppendClaim(key[:0], l.number, k.Key)
		value = keys.AppendClaimValue(value[:0], k)
		c.set(key, value)
	}
	c.set(keys.Head(l.number), keys.AppendHead(value[:0], b.Head))
}

// erase deletes content and where it was found, and says which digests.
func (l *ledger) erase(c *change, digests []storage.Hash) (map[storage.Hash]bool, error) {
	erased := make(map[storage.Hash]bool, len(digests))
	for _, digest := range digests {
		place, err := l.place(digest)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("erasing content %x: %w", digest, err)
		}
		c.delete(keys.AppendContent(nil, l.number, place))
		c.delete(keys.AppendPlace(nil, l.number, digest))
		erased[digest] = true
	}
	return erased, nil
}

// setContents writes the pieces of content that the ledger will not hold
// otherwise, each once.
func (l *ledger) setContents(c *change, contents []storage.Content, erased map[storage.Hash]bool) error {
	var unknown []int // indices of the first of each digest that must be looked up
	seen := make(map[storage.Hash]bool, len(contents))
	for i := range contents {
		digest := contents[i].Digest
		if seen[digest] {
			continue
		}
		seen[digest] = true
		switch {
		case erased[digest]:
			l.setContent(c, &contents[i])
		case !l.recent.has(digest):
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	// In the order of the keys, neighbours are found in the same blocks.
	slices.SortFunc(unknown, func(a, b int) int {
		return bytes.Compare(contents[a].Digest[:], contents[b].Digest[:])
	})
	return l.setAbsent(c, contents, unknown)
}

// setAbsent writes those of the pieces, given by index in the order of their
// digests, that the ledger does not hold.
func (l *ledger) setAbsent(c *change, contents []storage.Content, pieces []int) error {
	start, end := keys.Places(l.number)
	places, err := l.db.engine.NewIter(&engine.IterOptions{
		LowerBound: start,
		UpperBound: end,
		// Most digests are new, and a filter says so without reading a block.
		UseL6Filters: true,
	})
	if err != nil {
		return fmt.Errorf("looking for content: %w", err)
	}
	var key []byte
	var absent []int
	for _, i := range pieces {
		key = keys.AppendPlace(key[:0], l.number, contents[i].Digest)
		if !places.SeekPrefixGE(key) {
			absent = append(absent, i)
		}
	}
	if err := errors.Join(places.Error(), places.Close()); err != nil {
		return fmt.Errorf("looking for content: %w", err)
	}
	slices.Sort(absent)
	for _, i := range absent {
		l.setContent(c, &contents[i])
	}
	return nil
}

func (l *ledger) setContent(c *change, content *storage.Content) {
	place := keys.Place{Seq: content.Seq, Slot: content.Slot}
	c.set(keys.AppendContent(nil, l.number, place), content.Bytes)
	c.set(keys.AppendPlace(nil, l.number, content.Digest), keys.AppendPlaceValue(nil, place))
}
