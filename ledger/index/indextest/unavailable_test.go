package indextest

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// unavailableLog is a log that returns storage.ErrUnavailable while away is set.
type unavailableLog struct {
	storage.Reader
	away atomic.Bool
	left atomic.Int64 // number of events that can be read before the log becomes unavailable
}

func (l *unavailableLog) err() error {
	if l.away.Load() {
		return fmt.Errorf("the connection is lost: %w", storage.ErrUnavailable)
	}
	return nil
}

func (l *unavailableLog) Head(ctx context.Context) (storage.Head, error) {
	if err := l.err(); err != nil {
		return storage.Head{}, err
	}
	return l.Reader.Head(ctx)
}

func (l *unavailableLog) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Reader.Entry(ctx, seq)
}

func (l *unavailableLog) Entries(ctx context.Context, from uint64) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range l.Reader.Entries(ctx, from) {
			if l.left.Add(-1) == 0 {
				l.away.Store(true)
			}
			if away := l.err(); away != nil {
				yield(storage.Entry{}, away)
				return
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// If the log is unavailable for a while, its follower does not fail. The follower resumes on its
// own once the log can be read again.
func TestUnavailableLog(t *testing.T) {
	log := newJournal(t, "default")
	log.append(plains(t, 0, 200)...)
	s := openTest(t, testConfig(vfs.NewMem()))
	away := &unavailableLog{Reader: log.store}
	away.left.Store(100)
	f, err := s.Follow(log.name, away)
	require.NoError(t, err)
	for range 3 {
		require.Eventually(t, away.away.Load, time.Minute, time.Millisecond)
		require.NoError(t, f.Err())
		require.Less(t, f.Size(), uint64(200))
		away.left.Store(30)
		away.away.Store(false)
	}
	away.left.Store(0)
	away.away.Store(false)
	require.NoError(t, f.WaitForSize(t.Context(), 200))
	log.check(f)
	require.Zero(t, s.RebuildCount())

	away.away.Store(true) // the log is unavailable before the follower starts
	f.Close()
	f, err = s.Follow(log.name, away)
	require.NoError(t, err)
	log.append(plains(t, 200, 210)...)
	f.Wake()
	require.NoError(t, f.Err())
	away.away.Store(false)
	require.NoError(t, f.WaitForSize(t.Context(), 210))
	log.check(f)
	require.NoError(t, s.Close())
}
