package pebble

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// A copy that is made during commits contains only complete commits. It contains every commit that
// returned before the copy began. The copy can be opened and written to.
func TestCopiesUnderLoad(t *testing.T) {
	files := vfs.NewMem()
	db, l := newLedger(t, files)
	ctx := t.Context()
	const most, each = 400, 2
	ended := make(chan error, 1)
	go func() {
		for {
			head, err := l.Head(ctx)
			if err == nil && head.Size < most {
				err = l.Commit(ctx, head, batch(head, each, 3000))
			}
			if err != nil || head.Size >= most {
				ended <- err
				return
			}
		}
	}()
	for i := range 6 {
		before, err := l.Head(ctx)
		require.NoError(t, err)
		dir := fmt.Sprintf("copy-%d", i)
		require.NoError(t, db.Copy(ctx, dir))
		after, err := l.Head(ctx)
		require.NoError(t, err)
		copied, err := Open(ctx, Config{Dir: dir, FS: files, Logger: silent()})
		require.NoError(t, err)
		store, err := copied.Ledger(ctx, "default")
		require.NoError(t, err)
		head, err := store.Head(ctx)
		require.NoError(t, err)
		require.GreaterOrEqual(t, head.Size, before.Size)
		require.LessOrEqual(t, head.Size, after.Size+each, "one commit may be in progress")
		checkCopied(t, store, head)
		require.NoError(t, store.Commit(ctx, head, batch(head, 1, 10)), "a copy is a database of its own")
		require.NoError(t, copied.Close())
	}
	require.NoError(t, <-ended)
	head, err := l.Head(ctx)
	require.NoError(t, err)
	checkCopied(t, l, head)
	require.Error(t, db.Copy(ctx, "copy-0"), "an existing folder is not overwritten")
}

// An erasure does not remove write-ahead logs while Copy is copying them.
func TestCopiesDuringErasures(t *testing.T) {
	files := vfs.NewMem()
	db, l := newLedger(t, files)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			err = db.walFS.DropLogs(ctx, db.space.Dir, db.engine)
		}
		ended <- err
	}()
	for i := range 60 {
		head, err := l.Head(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Commit(ctx, head, batch(head, 2, 3000)))
		require.NoError(t, db.Copy(ctx, fmt.Sprintf("copy-%d", i)))
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// checkCopied checks that a copy contains the commits up to head and no others.
func checkCopied(t *testing.T, store storage.Store, head storage.Head) {
	t.Helper()
	next := uint64(0)
	for entry, err := range store.Entries(t.Context(), 0) {
		require.NoError(t, err)
		want := make([]byte, 3000)
		fill(want, next)
		require.Equal(t, want, entry.Bytes)
		if next%2 == 0 {
			content, err := store.Content(t.Context(), digestOf(next))
			require.NoError(t, err)
			require.Equal(t, want, content)
			_, err = store.KeyClaim(t.Context(), digestOf(next))
			require.NoError(t, err)
		}
		next++
	}
	require.Equal(t, head.Size, next)
}
