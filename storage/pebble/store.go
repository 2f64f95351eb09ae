package pebble

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// ledger is the one handle on a ledger; it implements storage.Store.
type ledger struct {
	db     *Database
	number keys.Ledger

	// mu makes writers of head, info and recent wait for each other.
	mu      sync.Mutex
	info    atomic.Pointer[storage.Info] // written under mu, read by all
	head    atomic.Pointer[storage.Head] // written under mu once durable, read by all
	recent  *recent                      // under mu
	digests *digestFilter
	// redacted: some record is, or a commit that says so has begun. Most ledgers have none,
	// and looking for what is not there costs as much as reading an entry.
	redacted atomic.Bool
}

var _ storage.Store = (*ledger)(nil)

// name never changes.
func (l *ledger) name() string { return l.info.Load().Name }

// Info implements storage.Store.
func (l *ledger) Info(ctx context.Context) (storage.Info, error) {
	if err := l.db.usable(ctx); err != nil {
		return storage.Info{}, fmt.Errorf("describing ledger %q: %w", l.name(), err)
	}
	return *l.info.Load(), nil
}

// Freeze implements storage.Store. A commit that is under way is done first.
func (l *ledger) Freeze(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.freeze(ctx); err != nil {
		return fmt.Errorf("freezing ledger %q: %w", l.name(), err)
	}
	return nil
}

// freeze does the work of Freeze. The caller holds l.mu.
func (l *ledger) freeze(ctx context.Context) error {
	if err := l.db.writable(ctx); err != nil {
		return err
	}
	info := *l.info.Load()
	info.Frozen = true
	description, err := keys.EncodeInfo(info)
	if err != nil {
		return err
	}
	if err := l.db.engine.Set(keys.Info(l.number), description, l.db.durability); err != nil {
		return err
	}
	l.info.Store(&info)
	return nil
}

// SetSetting implements storage.Store.
func (l *ledger) SetSetting(ctx context.Context, name string, value []byte) error {
	err := l.db.writable(ctx)
	if err == nil {
		err = l.db.engine.Set(keys.Setting(l.number, name), value, l.db.durability)
	}
	if err != nil {
		return fmt.Errorf("storing setting %q of ledger %q: %w", name, l.name(), err)
	}
	return nil
}

// Writable implements storage.Store.
func (l *ledger) Writable(ctx context.Context) error {
	if err := l.db.writable(ctx); err != nil {
		return fmt.Errorf("checking free space: %w", err)
	}
	return l.db.space.check()
}
