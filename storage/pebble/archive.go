package pebble

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"colophon/storage"
	"colophon/storage/pebble/internal/keys"
)

// archived returns what is archived.
func (l *ledger) archived() (storage.Archived, error) {
	value, err := l.db.get(keys.Setting(l.number, storage.ArchiveSetting))
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Archived{}, nil
	}
	if err != nil {
		return storage.Archived{}, err
	}
	return storage.ParseArchived(value)
}

// unlessArchived returns err, or an ArchivedError if what is missing is archived.
func (l *ledger) unlessArchived(err error, has func(storage.Archived) bool) error {
	a, failed := l.archived()
	switch {
	case failed != nil:
		return failed
	case has(a):
		return &storage.ArchivedError{Archived: a}
	}
	return err
}

// missing returns the error of an entry that is not stored.
func (l *ledger) missing(seq, size uint64) error {
	return l.unlessArchived(fmt.Errorf("%w: entry %d of %d is missing", storage.ErrDamaged, seq, size),
		func(a storage.Archived) bool { return a.Has(seq) })
}

// Archive implements storage.Archiver.
func (l *ledger) Archive(ctx context.Context, a storage.Archived, keep []uint64) error {
	l.archiving.Lock()
	defer l.archiving.Unlock()
	if err := l.archive(ctx, a, keep); err != nil {
		return fmt.Errorf("archiving ledger %q: %w", l.name(), err)
	}
	return nil
}

// archive is Archive for a caller that holds l.archiving.
func (l *ledger) archive(ctx context.Context, a storage.Archived, keep []uint64) error {
	if err := l.db.writable(ctx); err != nil {
		return err
	}
	before, err := l.archived()
	if err != nil {
		return err
	}
	if err := a.Follows(before, l.head.Load().Size); err != nil {
		return err
	}
	c := newChange(l.db.engine, 0)
	from := before.Below
	for _, kept := range append(slices.Sorted(slices.Values(keep)), a.Below) {
		if kept < from || kept > a.Below {
			continue
		}
		if kept > from {
			c.deleteRange(keys.AppendEntry(nil, l.number, from), keys.AppendEntry(nil, l.number, kept))
		}
		from = kept + 1
	}
	if a.Below > before.Below {
		c.deleteRange(keys.AppendTile(nil, l.number, 0, before.Below/storage.TileHashes), keys.AppendTile(nil, l.number, 0, a.Below/storage.TileHashes))
	}
	c.set(keys.Setting(l.number, storage.ArchiveSetting), a.Text())
	return c.commit(l.db.durability)
}
