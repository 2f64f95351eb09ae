package pebble

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// ledger implements storage.Store. A Database has at most one ledger for each name.
type ledger struct {
	db     *Database
	number keys.LedgerNumber

	// mu serialises changes to head, info, and recent.
	mu     sync.Mutex
	info   atomic.Pointer[storage.LedgerInfo] // written under mu, read without it
	head   atomic.Pointer[storage.Head]       // written under mu once the head is durable, read without mu
	recent *recent                            // guarded by mu
	// archiving serialises calls to Archive. Commits do not wait for it.
	archiving sync.Mutex
	digests   *digestFilter
	// redacted is set once a record has been redacted, or once a commit that redacts a record has
	// begun. It saves lookups: most ledgers have no redactions, and looking for one costs as much
	// as reading an entry.
	redacted atomic.Bool
}

var _ storage.Archiver = (*ledger)(nil)

// name returns the ledger's name, which never changes.
func (l *ledger) name() string { return l.info.Load().Name }

// Info implements storage.Store.
func (l *ledger) Info(ctx context.Context) (storage.LedgerInfo, error) {
	if err := l.db.usable(ctx); err != nil {
		return storage.LedgerInfo{}, fmt.Errorf("reading the description of ledger %q: %w", l.name(), err)
	}
	return *l.info.Load(), nil
}

// Freeze implements storage.Store. It waits for a running commit.
func (l *ledger) Freeze(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.freeze(ctx); err != nil {
		return fmt.Errorf("freezing ledger %q: %w", l.name(), err)
	}
	return nil
}

// freeze is like Freeze but must be called with l.mu held.
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
	if err := l.db.engine.Set(keys.InfoKey(l.number), description, l.db.durability); err != nil {
		return err
	}
	l.info.Store(&info)
	return nil
}

// SetSetting implements storage.Store.
func (l *ledger) SetSetting(ctx context.Context, name string, value []byte) error {
	err := l.db.writable(ctx)
	if err == nil {
		err = l.db.engine.Set(keys.SettingKey(l.number, name), value, l.db.durability)
	}
	if err != nil {
		return fmt.Errorf("storing setting %q of ledger %q: %w", name, l.name(), err)
	}
	return nil
}

// CheckWritable implements storage.Store.
func (l *ledger) CheckWritable(ctx context.Context) error {
	if err := l.db.writable(ctx); err != nil {
		return fmt.Errorf("checking free space: %w", err)
	}
	return l.db.space.Check()
}

// Archive implements storage.Archiver.
func (l *ledger) Archive(ctx context.Context, a storage.ArchivedRange, keep []uint64) error {
	l.archiving.Lock()
	defer l.archiving.Unlock()
	if err := l.archive(ctx, a, keep); err != nil {
		return fmt.Errorf("archiving ledger %q: %w", l.name(), err)
	}
	return nil
}

// archive is like Archive but must be called with l.archiving held.
func (l *ledger) archive(ctx context.Context, a storage.ArchivedRange, keep []uint64) error {
	if err := l.db.writable(ctx); err != nil {
		return err
	}
	before, err := storage.ReadArchivedRange(ctx, l)
	if err != nil {
		return err
	}
	if err := a.CheckCanReplace(before, l.head.Load().Size); err != nil {
		return err
	}
	c := newChange(l.db.engine, 0)
	from := before.EndSeq
	for _, kept := range append(slices.Sorted(slices.Values(keep)), a.EndSeq) {
		if kept < from || kept > a.EndSeq {
			continue
		}
		if kept > from {
			c.deleteRange(keys.AppendEntryKey(nil, l.number, from), keys.AppendEntryKey(nil, l.number, kept))
		}
		from = kept + 1
	}
	if a.EndSeq > before.EndSeq {
		c.deleteRange(keys.AppendTileKey(nil, l.number, 0, before.EndSeq/storage.HashesPerTile), keys.AppendTileKey(nil, l.number, 0, a.EndSeq/storage.HashesPerTile))
	}
	c.set(keys.SettingKey(l.number, storage.ArchiveSetting), a.SettingValue())
	return c.commit(l.db.durability)
}
