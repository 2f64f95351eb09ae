package ledger_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

// Create rejects an origin or a key of another ledger. RotateKey rejects a key of another ledger.
// Retired keys and keys that are staged for the next rotation are rejected too.
func TestLedgersShareNoKeyAndNoOrigin(t *testing.T) {
	ctx := t.Context()
	signer := func(seed byte, origin string) *proofs.Signer {
		s, err := proofs.NewKey([32]byte{seed}).Signer(origin)
		require.NoError(t, err)
		return s
	}
	const origin, other = "log.example/a", "log.example/b"
	database, keys := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}
	h := host(t, database, keys)
	// Seed 1 is for the retired key, seed 2 for the previous key, seed 3 for the current key, and seed
	// 4 for the staged next key.
	require.NoError(t, keys.Stage("a", signer(1, origin)))
	_, err := h.Create(ctx, ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	for seed := byte(2); seed <= 3; seed++ {
		if seed == 3 {
			_, err = h.RetireKey(ctx, "a", "operator")
			require.NoError(t, err)
		}
		require.NoError(t, keys.StageNext("a", signer(seed, origin)))
		_, err = h.RotateKey(ctx, "a", "operator")
		require.NoError(t, err)
	}
	require.NoError(t, keys.StageNext("a", signer(4, origin)))

	_, err = h.Create(ctx, ledger.CreateOptions{Name: "clone", Origin: origin})
	require.ErrorIs(t, err, ledger.ErrOriginInUse)
	require.NoFileExists(t, keys.StagedKeyPath("clone"), "no key is generated")
	for seed := byte(1); seed <= 4; seed++ {
		for _, name := range []string{origin, other} {
			require.NoError(t, keys.Stage("clone", signer(seed, name)))
			_, err = h.Create(ctx, ledger.CreateOptions{Name: "clone"})
			if name == origin {
				require.ErrorIs(t, err, ledger.ErrOriginInUse, "seed %d", seed)
			} else {
				require.ErrorIs(t, err, ledger.ErrKeyInUse, "seed %d", seed)
			}
			_, err = database.Ledger(ctx, "clone")
			require.ErrorIs(t, err, storage.ErrNotFound)
			require.NoError(t, os.Remove(keys.StagedKeyPath("clone")))
		}
	}

	b, err := h.Create(ctx, ledger.CreateOptions{Name: "b", Origin: other})
	require.NoError(t, err)
	size := b.Head().Size
	for seed := byte(1); seed <= 4; seed++ {
		require.NoError(t, keys.StageNext("b", signer(seed, other)))
		_, err = h.RotateKey(ctx, "b", "operator")
		require.ErrorIs(t, err, ledger.ErrKeyInUse, "seed %d", seed)
		require.NoError(t, os.Remove(keys.NextKeyPath("b")))
	}
	require.Equal(t, size, b.Head().Size)
}

// OpenHost rejects a database in which two ledgers share a key or an origin, and does not sign
// anything.
func TestHostsRefuseSharedKeysAndOrigins(t *testing.T) {
	for name, c := range map[string]struct {
		origin string
		seed   byte
		want   error
	}{
		"key":    {"log.example/b", 1, ledger.ErrKeyInUse},
		"origin": {"log.example/a", 2, ledger.ErrOriginInUse},
	} {
		t.Run(name, func(t *testing.T) {
			database, keys := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}
			h := host(t, database, keys)
			first, err := proofs.NewKey([32]byte{1}).Signer("log.example/a")
			require.NoError(t, err)
			require.NoError(t, keys.Stage("a", first))
			_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
			require.NoError(t, err)
			require.NoError(t, h.Close())
			second, err := proofs.NewKey([32]byte{c.seed}).Signer(c.origin)
			require.NoError(t, err)
			require.NoError(t, keys.Stage("clone", second))
			clone, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: "clone", Origin: c.origin})
			require.NoError(t, err)
			_, err = ledger.OpenHost(t.Context(), database, keys, func(string) ledger.Config { return ledger.Config{} })
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, `ledger "clone"`)
			head, err := clone.Head(t.Context())
			require.NoError(t, err)
			require.Zero(t, head.Size, "nothing was signed")
		})
	}
}

// fullDatabase reports that the disk is full while full is set.
type fullDatabase struct {
	storage.Database
	full *atomic.Bool
}

func (d fullDatabase) Ledger(ctx context.Context, name string) (storage.Store, error) {
	s, err := d.Database.Ledger(ctx, name)
	return fullStore{s, d.full}, err
}

type fullStore struct {
	storage.Store
	full *atomic.Bool
}

func (s fullStore) CheckWritable(ctx context.Context) error {
	if s.full.Load() {
		return storage.ErrNoSpace
	}
	return s.Store.CheckWritable(ctx)
}

// If a full disk interrupts the creation of one ledger, the other ledgers can still be opened. The
// creation is completed once there is space.
func TestLedgersWithoutEventsOnAFullDisk(t *testing.T) {
	var full atomic.Bool
	database, keys := fullDatabase{memory.New(), &full}, keystore.KeyFiles{Dir: t.TempDir()}
	h := host(t, database, keys)
	_, err := h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	require.NoError(t, h.Close())
	signer, err := proofs.GenerateKey().Signer("log.example/b")
	require.NoError(t, err)
	require.NoError(t, keys.Stage("b", signer))
	_, err = database.CreateLedger(t.Context(), storage.LedgerInfo{Name: "b", Origin: "log.example/b"})
	require.NoError(t, err)

	full.Store(true)
	h = host(t, database, keys)
	require.Len(t, h.Ledgers(), 1)
	_, err = h.Ledger("a")
	require.NoError(t, err)
	_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "b"})
	require.ErrorIs(t, err, storage.ErrNoSpace)
	full.Store(false)
	_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "b"})
	require.ErrorIs(t, err, ledger.ErrExists)
	b, err := h.Ledger("b")
	require.NoError(t, err)
	require.EqualValues(t, 1, b.Head().Size)
}
