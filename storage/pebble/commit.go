package pebble

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// Commit implements storage.Store. Commits to one ledger run one at a time. Readers see the new
// head only once it is durable. If Commit returns an error, it has written nothing. A failed write
// ends the process instead (see Config.Fatal).
func (l *ledger) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.commit(ctx, old, b); err != nil {
		return fmt.Errorf("committing to ledger %q: %w", l.name(), err)
	}
	return nil
}

// commit is like Commit but must be called with l.mu held.
func (l *ledger) commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	if err := l.accepts(ctx, old, b); err != nil {
		return err
	}
	c := &ledgerChange{change: newChange(l.db.engine, batchBytes(b)), ledger: l.number, digests: l.digests}
	erased, err := l.redact(c.change, b)
	if err != nil {
		return err
	}
	p, err := l.pieces(b.Contents, erased)
	if err != nil {
		return err
	}
	// Add the keys in ascending order, because the engine then sorts the batch fastest.
	c.setContents(p)
	c.setEntries(old, b)
	c.setHoldings(p)
	c.setHead(b)
	c.setClaims(b)
	c.setTiles(b)
	if err := c.commit(l.db.durability); err != nil {
		return err
	}
	for digest := range erased {
		l.recent.remove(digest)
	}
	if len(erased) > 0 {
		l.db.eraser.Wake()
	}
	head := b.Head
	head.Checkpoint = bytes.Clone(head.Checkpoint)
	l.head.Store(&head)
	return nil
}

func (l *ledger) accepts(ctx context.Context, old storage.Head, b storage.Batch) error {
	if err := l.db.writable(ctx); err != nil {
		return err
	}
	if l.info.Load().Frozen {
		return storage.ErrFrozen
	}
	stored := l.head.Load()
	if stored.Size != old.Size || stored.Tip != old.Tip {
		return fmt.Errorf("%w: the head has size %d and tip %x, but the commit builds on size %d and tip %x",
			storage.ErrConflict, stored.Size, stored.Tip[:4], old.Size, old.Tip[:4])
	}
	return b.Check(old)
}

// batchBytes returns a generous estimate of the total length of b's keys and values in bytes.
func batchBytes(b storage.Batch) int {
	const perItem = 2*keys.MaxLengthWithoutName + 32
	n := perItem * (len(b.Entries) + len(b.Claims) + len(b.Tiles) + 2*len(b.Contents) + 1)
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

// ledgerChange collects the writes of one commit to a ledger.
type ledgerChange struct {
	*change
	ledger  keys.LedgerNumber
	digests *digestFilter // must receive each new digest before the commit makes its key visible to readers
}

func (c *ledgerChange) setEntries(old storage.Head, b storage.Batch) {
	var key [keys.MaxLengthWithoutName]byte
	for i, e := range b.Entries {
		c.set(keys.AppendEntryKey(key[:0], c.ledger, old.Size+uint64(i)), e)
	}
}

func (c *ledgerChange) setHead(b storage.Batch) {
	c.set(keys.HeadKey(c.ledger), keys.AppendHeadValue(nil, b.Head))
}

func (c *ledgerChange) setClaims(b storage.Batch) {
	sorted := slices.SortedStableFunc(slices.Values(b.Claims), func(a, b storage.Claim) int { return bytes.Compare(a.KeyDigest[:], b.KeyDigest[:]) })
	var key, value []byte
	for _, k := range sorted {
		c.digests.add(k.KeyDigest)
		key = keys.AppendClaimKey(key[:0], c.ledger, k.KeyDigest)
		value = keys.AppendClaimValue(value[:0], k)
		c.set(key, value)
	}
}

func (c *ledgerChange) setTiles(b storage.Batch) {
	var key [keys.MaxLengthWithoutName]byte
	for _, t := range b.Tiles {
		c.set(keys.AppendTileKey(key[:0], c.ledger, t.Level, t.Index), t.Hashes)
	}
}
