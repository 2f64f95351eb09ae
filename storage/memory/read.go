package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"colophon/storage"
)

// read calls look with l.mu locked for reading. It returns a copy of the result, or
// storage.ErrNotFound if look finds nothing.
func (l *ledger) read(ctx context.Context, look func() ([]byte, bool)) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	value, ok := look()
	if !ok {
		return nil, storage.ErrNotFound
	}
	return clone(value), nil
}

// Head implements storage.Reader.
func (l *ledger) Head(ctx context.Context) (storage.Head, error) {
	if err := ctx.Err(); err != nil {
		return storage.Head{}, fmt.Errorf("reading the head of ledger %q: %w", l.name, err)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return copyHead(l.head), nil
}

// Tile implements storage.Reader.
func (l *ledger) Tile(ctx context.Context, level uint8, index uint64) ([]byte, error) {
	hashes, err := l.read(ctx, func() ([]byte, bool) {
		hashes, ok := l.tiles[tileKey{level, index}]
		return hashes, ok
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = storage.ExplainMissingTile(ctx, l, level, index)
	}
	if err != nil {
		return nil, fmt.Errorf("reading tile %d/%d of ledger %q: %w", level, index, l.name, err)
	}
	return hashes, nil
}

// Entry implements storage.Reader.
func (l *ledger) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	entry, err := l.entry(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("reading entry %d of ledger %q: %w", seq, l.name, err)
	}
	return entry, nil
}

func (l *ledger) entry(ctx context.Context, seq uint64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.RLock()
	size := l.head.Size
	l.mu.RUnlock()
	if seq >= size {
		return nil, storage.ErrNotFound
	}
	return l.appendEntry([]byte{}, seq, size)
}

// Content implements storage.Reader.
func (l *ledger) Content(ctx context.Context, digest storage.Hash) ([]byte, error) {
	bytes, err := l.read(ctx, func() ([]byte, bool) {
		held, ok := l.contents[digest]
		if !ok {
			return nil, false
		}
		return held.bytes, true
	})
	if err != nil {
		return nil, fmt.Errorf("reading content %x of ledger %q: %w", digest, l.name, err)
	}
	return bytes, nil
}

// References implements storage.Reader.
func (l *ledger) References(ctx context.Context, digest storage.Hash) iter.Seq2[uint64, error] {
	l.mu.RLock()
	var references []uint64
	if held, ok := l.contents[digest]; ok {
		references = slices.Clone(held.references)
	}
	l.mu.RUnlock()
	return func(yield func(uint64, error) bool) {
		err := ctx.Err()
		for i := 0; i < len(references) && err == nil; i++ {
			if !yield(references[i], nil) {
				return
			}
			err = ctx.Err()
		}
		if err != nil {
			yield(0, fmt.Errorf("reading the references to content %x of ledger %q: %w", digest, l.name, err))
		}
	}
}

// HasReference implements storage.Reader.
func (l *ledger) HasReference(ctx context.Context, digest storage.Hash, seq uint64) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("checking whether record %d of ledger %q needs content %x: %w", seq, l.name, digest, err)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	held, ok := l.contents[digest]
	return ok && slices.Contains(held.references, seq), nil
}

// RedactingSeq implements storage.Reader.
func (l *ledger) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	err := ctx.Err()
	l.mu.RLock()
	defer l.mu.RUnlock()
	by, redacted := l.redactions[seq]
	if err == nil && (!redacted || by >= l.head.Size) {
		err = storage.ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("reading the redaction of record %d of ledger %q: %w", seq, l.name, err)
	}
	return by, nil
}

// Redactions implements storage.Reader.
func (l *ledger) Redactions(ctx context.Context) iter.Seq2[storage.Redaction, error] {
	l.mu.RLock()
	redactions := maps.Clone(l.redactions)
	l.mu.RUnlock()
	return func(yield func(storage.Redaction, error) bool) {
		err := ctx.Err()
		for _, seq := range slices.Sorted(maps.Keys(redactions)) {
			if err != nil || !yield(storage.Redaction{Seq: seq, RedactingSeq: redactions[seq]}, nil) {
				break
			}
			err = ctx.Err()
		}
		if err != nil {
			yield(storage.Redaction{}, fmt.Errorf("reading redactions of ledger %q: %w", l.name, err))
		}
	}
}

// Setting implements storage.Reader.
func (l *ledger) Setting(ctx context.Context, name string) ([]byte, error) {
	value, err := l.read(ctx, func() ([]byte, bool) {
		value, ok := l.settings[name]
		return value, ok
	})
	if err != nil {
		return nil, fmt.Errorf("reading setting %q of ledger %q: %w", name, l.name, err)
	}
	return value, nil
}

// KeyClaim implements storage.Reader.
func (l *ledger) KeyClaim(ctx context.Context, key storage.Hash) (storage.Claim, error) {
	if err := ctx.Err(); err != nil {
		return storage.Claim{}, fmt.Errorf("reading idempotency key %x of ledger %q: %w", key, l.name, err)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	claim, ok := l.keys[key]
	if !ok || claim.Seq >= l.head.Size {
		return storage.Claim{}, fmt.Errorf("reading idempotency key %x of ledger %q: %w", key, l.name, storage.ErrNotFound)
	}
	return claim, nil
}

// KeyClaims implements storage.Reader.
func (l *ledger) KeyClaims(ctx context.Context, keys []storage.Hash) ([]storage.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading idempotency keys of ledger %q: %w", l.name, err)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	found := make(map[storage.Hash]storage.Claim)
	for _, key := range keys {
		if claim, ok := l.keys[key]; ok && claim.Seq < l.head.Size {
			found[key] = claim
		}
	}
	return slices.Collect(maps.Values(found)), nil
}

// Entries implements storage.Reader. All iterations reuse one buffer, so that tests detect callers
// that keep the bytes of an entry.
func (l *ledger) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	l.mu.RLock()
	end := l.head.Size
	l.mu.RUnlock()
	return func(yield func(storage.Entry, error) bool) {
		var buffer []byte
		err := ctx.Err()
		for seq := from; seq < end && err == nil; seq++ {
			if buffer, err = l.appendEntry(buffer[:0], seq, end); err != nil {
				break
			}
			if !yield(storage.Entry{Seq: seq, Bytes: buffer}, nil) {
				return
			}
			err = ctx.Err()
		}
		if err != nil {
			yield(storage.Entry{}, fmt.Errorf("reading entries of ledger %q: %w", l.name, err))
		}
	}
}

func (l *ledger) appendEntry(dst []byte, seq, size uint64) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	entry, ok := l.entries[seq]
	if !ok {
		if a := l.archived(); a.CoversEntry(seq) {
			return dst, &storage.ArchivedError{ArchivedRange: a}
		}
		return dst, fmt.Errorf("%w: entry %d of %d is missing", storage.ErrDamaged, seq, size)
	}
	return append(dst, entry...), nil
}
