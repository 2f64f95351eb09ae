package storagetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/memory"
	"colophon/storage/storagetest"
)

func TestFaulty(t *testing.T) {
	ctx := t.Context()
	under, err := memory.New().CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	store := storagetest.NewFaultyStore(under)
	store.FailCommit(2, storagetest.FaultBeforeWrite)
	store.FailCommit(3, storagetest.FaultAfterWrite)
	batch := func(size uint64) storage.Batch {
		return storage.Batch{Head: storage.Head{Size: size}, Entries: [][]byte{{byte(size)}}}
	}
	size := func() uint64 {
		head, err := under.Head(ctx)
		require.NoError(t, err)
		return head.Size
	}

	require.NoError(t, store.Commit(ctx, storage.Head{}, batch(1)))
	require.ErrorIs(t, store.Commit(ctx, storage.Head{Size: 1}, batch(2)), storagetest.ErrInjected)
	require.Equal(t, uint64(1), size(), "failed before")
	require.ErrorIs(t, store.Commit(ctx, storage.Head{Size: 1}, batch(2)), storagetest.ErrInjected)
	require.Equal(t, uint64(2), size(), "failed after")
	require.NoError(t, store.Commit(ctx, storage.Head{Size: 2}, batch(3)))
	require.Equal(t, 4, store.CommitCount())

	store.FailCommit(1, storagetest.FaultAfterWrite)
	require.ErrorIs(t, store.Commit(ctx, storage.Head{}, batch(1)), storage.ErrConflict)

	store.SetWritableError(storage.ErrNoSpace)
	require.ErrorIs(t, store.CheckWritable(ctx), storage.ErrNoSpace)
	store.SetWritableError(nil)
	require.NoError(t, store.CheckWritable(ctx))
}
