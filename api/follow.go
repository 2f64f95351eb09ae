package api

import (
	"context"
	"fmt"
	"sync"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/storage"
)

// followers is the index of each ledger, fed as the ledger commits.
type followers struct {
	store   *index.Store
	metrics *Metrics

	mu     sync.RWMutex // guards ledger
	ledger map[string]*index.Follower
}

// add begins to follow a ledger.
func (f *followers) add(l *ledger.Ledger) error {
	follower, err := f.store.Follow(l.Name(), l.Store())
	if err != nil {
		return err
	}
	l.OnCommit(func(c ledger.Commit) {
		f.metrics.observeCommit(l.Name(), c)
		follower.Wake()
	})
	// What was committed between the two would be noticed with the next commit
	// only.
	follower.Wake()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ledger[l.Name()] = follower
	return nil
}

// of is the index of a ledger.
func (f *followers) of(l *ledger.Ledger) (*index.Follower, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	follower, ok := f.ledger[l.Name()]
	if !ok {
		return nil, fmt.Errorf("index of ledger %q: %w", l.Name(), storage.ErrNotFound)
	}
	return follower, nil
}

// at is the index of a ledger when it has covered the head.
func (f *followers) at(ctx context.Context, l *ledger.Ledger, head *ledger.Head) (*index.Follower, error) {
	follower, err := f.of(l)
	if err != nil {
		return nil, err
	}
	if err := follower.Wait(ctx, head.Size); err != nil {
		return nil, fmt.Errorf("waiting for the index of ledger %q: %w", l.Name(), err)
	}
	return follower, nil
}
