package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/memory"
	"colophon/storage/storagetest"
)

func open(*testing.T) storage.Database { return memory.New() }

func TestConformance(t *testing.T) {
	reopen := func(t *testing.T, db storage.Database) storage.Database {
		require.NoError(t, db.Close())
		return db
	}
	storagetest.Run(t, open, storagetest.WithReopen(reopen))
}

func TestTamper(t *testing.T) {
	storagetest.RunTampering(t, open,
		func(t *testing.T, db storage.Database, ledger string, change func(storagetest.Tamperer)) storage.Database {
			tamper, err := db.(*memory.Database).Tamperer(ledger)
			require.NoError(t, err)
			change(tamper)
			return db
		})
	_, err := memory.New().Tamperer("absent")
	require.ErrorIs(t, err, storage.ErrNotFound)
}

// Each step of Entries overwrites the bytes that the previous step yielded, so that tests can detect
// callers that keep these bytes.
func TestEntriesReuseTheirBuffer(t *testing.T) {
	store, err := memory.New().CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	b := storage.Batch{Head: storage.Head{Size: 2}, Entries: [][]byte{[]byte("a"), []byte("b")}}
	require.NoError(t, store.Commit(t.Context(), storage.Head{}, b))
	var kept [][]byte
	for e, err := range store.Entries(t.Context(), 0) {
		require.NoError(t, err)
		kept = append(kept, e.Bytes)
	}
	require.Equal(t, "b", string(kept[0]))
}
