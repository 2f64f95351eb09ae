package index

import (
	"fmt"

	"colophon/storage"
)

// Find is the seq of the event with that event_hash; storage.ErrNotFound if
// none of the first Size events has it.
func (f *Follower) Find(hash storage.Hash) (uint64, error) {
	seq, err := f.find(hash)
	if err != nil {
		return 0, fmt.Errorf("looking up event %x of ledger %q: %w", hash, f.name, err)
	}
	return seq, nil
}

func (f *Follower) find(hash storage.Hash) (uint64, error) {
	if f.store.closed.Load() {
		return 0, ErrClosed
	}
	value, err := get(f.store.engine, f.fold.rows.keys.eventHash(nil, hash))
	if err != nil {
		return 0, err
	}
	seq, err := decodeSeq(value)
	if err != nil {
		return 0, err
	}
	if seq >= f.Size() {
		// The engine shows a batch before it is published.
		return 0, storage.ErrNotFound
	}
	return seq, nil
}
