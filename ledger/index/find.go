package index

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"colophon/ledger/index/rowstore"
	"colophon/storage"
)

// Find returns the seq of the event with that event_hash. It returns ErrAhead if the index
// covers fewer than atLeast events, which can also happen because it was replaced, and
// storage.ErrNotFound if none of the events that it covers has the hash.
func (f *Follower) Find(ctx context.Context, hash storage.Hash, atLeast uint64) (uint64, error) {
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
	now := f.published.Load() // the engine may already have events beyond this size
	if now.size < atLeast {
		return 0, ErrAhead
	}
	prefix := eventHashKey(now.keys, nil, hash)
	it, err := f.store.rows.Iterate(prefix, rowstore.UpperBound(prefix, rowstore.SeqBytes))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		seq := binary.BigEndian.Uint64(it.Key()[len(prefix):])
		if seq >= now.size {
			continue
		}
		entry, err := f.log.Entry(ctx, seq)
		if err != nil {
			return 0, fmt.Errorf("reading event %d: %w", seq, err)
		}
		if sha256.Sum256(entry) == hash {
			return seq, nil
		}
	}
	if err := it.Error(); err != nil {
		return 0, err
	}
	return 0, storage.ErrNotFound
}

// hashBytes is the length of an event_hash in keys. It distinguishes nearly all events.
const hashBytes = 6

// eventHashKey returns the prefix of the keys of events with the beginning of a hash.
func eventHashKey(k rowstore.Keyspace, dst []byte, hash storage.Hash) []byte {
	return append(k.Key(dst, hashDimension), hash[:hashBytes]...)
}
