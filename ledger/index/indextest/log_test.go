package indextest

import (
	"context"
	"iter"
	"testing"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/storage"
)

// damagedLog is a log whose database reports corruption for every event whose seq is at least from.
type damagedLog struct {
	storage.Reader
	from uint64
}

func (d damagedLog) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range d.Reader.Entries(ctx, from) {
			if entry.Seq >= d.from {
				yield(storage.Entry{}, engine.ErrCorruption)
				return
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// Damage to the log does not count as damage to its index: the index still answers queries and is
// not discarded.
func TestLogDamageIsNotIndexDamage(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 50)...)
	s := openTest(t, testConfig(vfs.NewMem()))
	f, err := s.Follow(log.name, damagedLog{log.store, 30})
	require.NoError(t, err)
	require.ErrorIs(t, f.WaitForSize(t.Context(), 50), engine.ErrCorruption)
	require.ErrorContains(t, f.Err(), "reading the log")
	require.Zero(t, s.RebuildCount())
	require.NoError(t, s.RowStore().CheckAvailable())
	require.Equal(t, uint64(30), f.Size())
	log.check(f)
	_, err = f.FindByHash(t.Context(), log.hashes[40], 30)
	require.ErrorIs(t, err, storage.ErrNotFound)
	_, err = f.FindByHash(t.Context(), log.hashes[40], 41)
	require.ErrorIs(t, err, index.ErrBehind)
	f.Close()
	f = follow(t, s, log)
	log.catchUp(f)
	log.check(f)
	require.NoError(t, s.Close())
}
