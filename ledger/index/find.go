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

// Find is the seq of the event with that event_hash; storage.ErrNotFound if
// none of the first Size events has it, which are so many at least: ErrAhead if that is
// not so, or no longer, because the index was replaced.
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
	now := f.published.Load() // the engine shows a batch before it is published
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

// hashBytes of an event_hash tell nearly all events apart.
const hashBytes = 6

// eventHashKey is what the keys of the events with the beginning of a hash begin with.
func eventHashKey(k rowstore.Keyspace, dst []byte, hash storage.Hash) []byte {
	return append(k.Key(dst, hashDimension), hash[:hashBytes]...)
}
