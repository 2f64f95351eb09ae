package pebble

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// fetch returns a copy of the value of a key, or storage.ErrNotFound. It fails if the database is
// closed or ctx is done.
func (l *ledger) fetch(ctx context.Context, key []byte) ([]byte, error) {
	if err := l.db.usable(ctx); err != nil {
		return nil, err
	}
	return l.db.get(key)
}

// Head implements storage.Reader. It reads only from memory.
func (l *ledger) Head(ctx context.Context) (storage.Head, error) {
	if err := l.db.usable(ctx); err != nil {
		return storage.Head{}, fmt.Errorf("reading the head of ledger %q: %w", l.name(), err)
	}
	head := *l.head.Load()
	head.Checkpoint = bytes.Clone(head.Checkpoint)
	return head, nil
}

// Tile implements storage.Reader.
func (l *ledger) Tile(ctx context.Context, level uint8, index uint64) ([]byte, error) {
	hashes, err := l.fetch(ctx, keys.AppendTileKey(nil, l.number, level, index))
	if errors.Is(err, storage.ErrNotFound) {
		err = storage.ExplainMissingTile(ctx, l, level, index)
	}
	if err != nil {
		return nil, fmt.Errorf("reading tile %d/%d of ledger %q: %w", level, index, l.name(), err)
	}
	return hashes, nil
}

// Setting implements storage.Reader.
func (l *ledger) Setting(ctx context.Context, name string) ([]byte, error) {
	value, err := l.fetch(ctx, keys.SettingKey(l.number, name))
	if err != nil {
		return nil, fmt.Errorf("reading setting %q of ledger %q: %w", name, l.name(), err)
	}
	return value, nil
}

// Entry implements storage.Reader.
func (l *ledger) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	size := l.head.Load().Size
	entry, err := l.fetch(ctx, keys.AppendEntryKey(nil, l.number, seq))
	switch {
	case seq >= size && err == nil:
		// The engine makes a commit visible before the commit is durable. The head is updated only
		// once the commit is durable, so hide entries beyond the head.
		err = storage.ErrNotFound
	case seq < size && errors.Is(err, storage.ErrNotFound):
		err = storage.ExplainMissingEntry(ctx, l, seq, size)
	}
	if err != nil {
		return nil, fmt.Errorf("reading entry %d of ledger %q: %w", seq, l.name(), err)
	}
	return entry, nil
}

// KeyClaim implements storage.Reader.
func (l *ledger) KeyClaim(ctx context.Context, key storage.Hash) (storage.Claim, error) {
	claim, err := l.claim(ctx, key)
	if err != nil {
		return storage.Claim{}, fmt.Errorf("reading idempotency key %x of ledger %q: %w", key, l.name(), err)
	}
	return claim, nil
}

func (l *ledger) claim(ctx context.Context, key storage.Hash) (storage.Claim, error) {
	stored, err := l.fetch(ctx, keys.AppendClaimKey(nil, l.number, key))
	if err != nil {
		return storage.Claim{}, err
	}
	claim, err := keys.DecodeClaim(key, stored)
	if err != nil {
		return storage.Claim{}, err
	}
	if claim.Seq >= l.head.Load().Size {
		return storage.Claim{}, storage.ErrNotFound // a claim is hidden until its commit is durable
	}
	return claim, nil
}

// KeyClaims implements storage.Reader.
func (l *ledger) KeyClaims(ctx context.Context, requested []storage.Hash) ([]storage.Claim, error) {
	if err := l.db.usable(ctx); err != nil {
		return nil, fmt.Errorf("reading idempotency keys of ledger %q: %w", l.name(), err)
	}
	// Sort the keys, so that successive lookups often read the same block.
	sorted := slices.DeleteFunc(slices.Clone(requested), func(key storage.Hash) bool { return !l.digests.mayContain(key) })
	slices.SortFunc(sorted, func(a, b storage.Hash) int { return bytes.Compare(a[:], b[:]) })
	sorted = slices.Compact(sorted)
	var claims []storage.Claim
	err := l.find(keys.ClaimRange, len(sorted), func(key []byte, i int) []byte {
		return keys.AppendClaimKey(key, l.number, sorted[i])
	}, func(i int, value []byte) error {
		claim, err := keys.DecodeClaim(sorted[i], value)
		if err == nil && claim.Seq < l.head.Load().Size {
			claims = append(claims, claim)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading idempotency keys of ledger %q: %w", l.name(), err)
	}
	return claims, nil
}

// Content implements storage.Reader.
func (l *ledger) Content(ctx context.Context, digest storage.Hash) ([]byte, error) {
	content, err := l.content(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("reading content %x of ledger %q: %w", digest, l.name(), err)
	}
	return content, nil
}

// content returns the content with the given digest, or storage.ErrNotFound if the ledger does not
// have it. The engine makes the erasures of a commit visible before the commit is durable, but
// RedactingSeq reports redactions only once they are durable. Therefore, if the bytes are missing,
// content waits for the running commit and then looks again. After that, RedactingSeq reports the
// redaction.
func (l *ledger) content(ctx context.Context, digest storage.Hash) ([]byte, error) {
	content, err := l.stored(ctx, digest)
	if !errors.Is(err, storage.ErrNotFound) {
		return content, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stored(ctx, digest)
}

// stored looks up the location of the content and then reads the bytes stored there. Between these
// two reads, a commit can erase the content, and can even store it again at another location. A
// location is never reused, so missing bytes mean damage only if the content still has the same
// location.
func (l *ledger) stored(ctx context.Context, digest storage.Hash) ([]byte, error) {
	if err := l.db.usable(ctx); err != nil {
		return nil, err
	}
	location, err := l.location(digest)
	for err == nil {
		var content []byte
		content, err = l.db.get(keys.AppendContentKey(nil, l.number, location))
		if !errors.Is(err, storage.ErrNotFound) {
			return content, err
		}
		missing := location
		if location, err = l.location(digest); err == nil && location == missing {
			return nil, fmt.Errorf("%w: the content in slot %d of event %d is missing", storage.ErrDamaged, location.Slot, location.Seq)
		}
	}
	return nil, err
}

// location returns the location of a piece of content, or storage.ErrNotFound if there is none.
func (l *ledger) location(digest storage.Hash) (keys.Location, error) {
	stored, err := l.db.get(keys.AppendLocationKey(nil, l.number, digest))
	if err != nil {
		return keys.Location{}, err
	}
	holding, err := keys.DecodeLocationValue(stored)
	return holding.Location, err
}

// HasReference implements storage.Reader.
func (l *ledger) HasReference(ctx context.Context, digest storage.Hash, seq uint64) (bool, error) {
	referenced, err := l.referenced(ctx, digest, seq)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return false, fmt.Errorf("checking whether record %d of ledger %q needs content %x: %w", seq, l.name(), digest, err)
	}
	return referenced, nil
}

// referenced reports whether the record at seq needs the content with the given digest. It first
// reads the content's location, which names the event that first posted the content. If that is
// another event, it looks for a reference from the record.
func (l *ledger) referenced(ctx context.Context, digest storage.Hash, seq uint64) (bool, error) {
	stored, err := l.fetch(ctx, keys.AppendLocationKey(nil, l.number, digest))
	if err != nil || seq >= l.head.Load().Size {
		return false, err
	}
	holding, err := keys.DecodeLocationValue(stored)
	if err != nil {
		return false, err
	}
	if holding.Seq == seq {
		return !holding.Redacted, nil
	}
	_, err = l.db.get(keys.AppendReferenceKey(nil, l.number, digest, seq))
	return err == nil, err
}

// RedactingSeq implements storage.Reader.
func (l *ledger) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	by, err := l.redaction(ctx, seq)
	if err != nil {
		return 0, fmt.Errorf("reading the redaction of record %d of ledger %q: %w", seq, l.name(), err)
	}
	return by, nil
}

func (l *ledger) redaction(ctx context.Context, seq uint64) (uint64, error) {
	if !l.redacted.Load() {
		return 0, cmp.Or(l.db.usable(ctx), storage.ErrNotFound)
	}
	stored, err := l.fetch(ctx, keys.AppendRedactionKey(nil, l.number, seq))
	if err != nil {
		return 0, err
	}
	by, err := keys.DecodeSeq(stored)
	if err != nil {
		return 0, err
	}
	if by >= l.head.Load().Size {
		return 0, storage.ErrNotFound // a redaction is hidden until its commit is durable
	}
	return by, nil
}
