package index

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colophon/ledger/index/rowstore"
	"colophon/storage"
)

// FindByHash returns the seq of the event with the given event_hash. It returns storage.ErrNotFound if no
// event covered by the index has that hash. It returns ErrBehind if the index covers fewer than
// atLeast events, which can also happen after the index is replaced.
func (f *Follower) FindByHash(ctx context.Context, hash storage.Hash, atLeast uint64) (uint64, error) {
	seq, err := f.find(ctx, hash, atLeast)
	if err != nil {
		return 0, fmt.Errorf("looking up event %x of ledger %q: %w", hash, f.name, err)
	}
	return seq, nil
}

func (f *Follower) find(ctx context.Context, hash storage.Hash, atLeast uint64) (_ uint64, err error) {
	if _, err := f.store.acquire(); err != nil {
		return 0, err
	}
	defer f.store.rows.Release()
	now := f.published.Load() // the engine can already contain events beyond this size
	if now.size < atLeast {
		return 0, ErrBehind
	}
	found, err := f.eventsWith(ctx, now, hash[:hashBytes], func(other storage.Hash) bool { return other == hash })
	if err == nil && len(found) == 0 {
		err = storage.ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	return found[0].Seq, nil
}

// HashedEvent identifies an event by its seq and its event_hash.
type HashedEvent struct {
	Seq  uint64
	Hash storage.Hash // event_hash
}

// maxFound is the largest number of events that FindByHashPrefix returns.
const maxFound = 8

// FindByHashPrefix returns at most 8 events whose event_hash begins with the given hexadecimal
// digits. There must be at least 8 digits, because FindByHashPrefix reads all events whose hashes
// begin with the first 8. It returns ErrBehind if the index covers fewer than atLeast events.
func FindByHashPrefix(ctx context.Context, f *Follower, digits string, atLeast uint64) ([]HashedEvent, error) {
	if _, err := f.store.acquire(); err != nil {
		return nil, err
	}
	defer f.store.rows.Release()
	now := f.published.Load()
	if now.size < atLeast {
		return nil, ErrBehind
	}
	begins, err := hex.DecodeString(digits[:min(len(digits)/2, hashBytes)*2])
	if err != nil {
		return nil, err
	}
	found, err := f.eventsWith(ctx, now, begins, func(hash storage.Hash) bool { return strings.HasPrefix(hex.EncodeToString(hash[:]), digits) })
	if err != nil {
		return nil, fmt.Errorf("looking up events whose hash begins with %s in ledger %q: %w", digits, f.name, err)
	}
	return found, nil
}

// EventsByHashPrefix is like FindByHashPrefix, but returns only events below the view's size.
func (v *View) EventsByHashPrefix(ctx context.Context, digits string) ([]HashedEvent, error) {
	found, err := FindByHashPrefix(ctx, v.follower, digits, 0)
	return slices.DeleteFunc(found, func(e HashedEvent) bool { return e.Seq >= v.Size() }), err
}

// eventsWith returns at most maxFound events whose event_hash starts with begins and satisfies
// matches. The caller must have acquired the store.
func (f *Follower) eventsWith(ctx context.Context, now *snapshot, begins []byte, matches func(storage.Hash) bool) (found []HashedEvent, err error) {
	prefix := append(now.keys.AppendPrefix(nil, hashDimension), begins...)
	it, err := f.store.rows.NewIterator(prefix, rowstore.UpperBound(prefix, hashBytes-len(begins)+rowstore.SeqSize))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok && len(found) < maxFound; ok = it.Next() {
		key := it.Key()
		seq := binary.BigEndian.Uint64(key[len(key)-rowstore.SeqSize:])
		if seq >= now.size {
			continue
		}
		entry, err := f.log.Entry(ctx, seq)
		if err != nil {
			return nil, fmt.Errorf("reading event %d: %w", seq, err)
		}
		if hash := sha256.Sum256(entry); matches(hash) {
			found = append(found, HashedEvent{seq, hash})
		}
	}
	return found, errors.Join(it.Err(), now.sameRows(f))
}

// hashBytes is the number of bytes of an event_hash that are stored in keys. It is enough to
// distinguish nearly all events.
const hashBytes = 6

// eventHashKey returns the key prefix shared by all events whose event_hash begins with the same
// hashBytes bytes as hash.
func eventHashKey(k rowstore.Keyspace, dst []byte, hash storage.Hash) []byte {
	return append(k.AppendPrefix(dst, hashDimension), hash[:hashBytes]...)
}
