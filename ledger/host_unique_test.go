package ledger_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

// Each key that a ledger has, and its origin, belongs to that ledger alone.
func TestLedgersShareNoKeyAndNoOrigin(t *testing.T) {
	ctx := t.Context()
	signer := func(seed byte, origin string) *proofs.Signer {
		s, err := proofs.NewKey([32]byte{seed}).Signer(origin)
		require.NoError(t, err)
		return s
	}
	const origin, other = "log.example/a", "log.example/b"
	database, keys := memory.New(), ledger.KeyFiles{Dir: t.TempDir()}
	h := host(t, database, keys)
	// Seed 1 is retired, 2 the previous key, 3 the current key, 4 the next key.
	require.NoError(t, keys.Stage("a", signer(1, origin)))
	_, err := h.Create(ctx, ledger.New{Name: "a"})
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

	_, err = h.Create(ctx, ledger.New{Name: "clone", Origin: origin})
	require.ErrorIs(t, err, ledger.ErrOriginInUse)
	require.NoFileExists(t, keys.StagedPath("clone"), "no key is made")
	for seed := byte(1); seed <= 4; seed++ {
		for _, name := range []string{origin, other} {
			require.NoError(t, keys.Stage("clone", signer(seed, name)))
			_, err = h.Create(ctx, ledger.New{Name: "clone"})
			if name == origin {
				require.ErrorIs(t, err, ledger.ErrOriginInUse, "seed %d", seed)
			} else {
				require.ErrorIs(t, err, ledger.ErrKeyInUse, "seed %d", seed)
			}
			_, err = database.Ledger(ctx, "clone")
			require.ErrorIs(t, err, storage.ErrNotFound)
			require.NoError(t, os.Remove(keys.StagedPath("clone")))
		}
	}

	b, err := h.Create(ctx, ledger.New{Name: "b", Origin: other})
	require.NoError(t, err)
	size := b.Head().Size
	for seed := byte(1); seed <= 4; seed++ {
		require.NoError(t, keys.StageNext("b", signer(seed, other)))
		_, err = h.RotateKey(ctx, "b", "operator")
		require.ErrorIs(t, err, ledger.ErrKeyInUse, "seed %d", seed)
		require.NoError(t, os.Remove(keys.NextPath("b")))
	}
	require.Equal(t, size, b.Head().Size)
}

// A host does not open ledgers that share a key or an origin, and signs nothing.
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
			database, keys := memory.New(), ledger.KeyFiles{Dir: t.TempDir()}
			h := host(t, database, keys)
			first, err := proofs.NewKey([32]byte{1}).Signer("log.example/a")
			require.NoError(t, err)
			require.NoError(t, keys.Stage("a", first))
			_, err = h.Create(t.Context(), ledger.New{Name: "a"})
			require.NoError(t, err)
			require.NoError(t, h.Close())
			second, err := proofs.NewKey([32]byte{c.seed}).Signer(c.origin)
			require.NoError(t, err)
			require.NoError(t, keys.Stage("clone", second))
			clone, err := database.Create(t.Context(), storage.Info{Name: "clone", Origin: c.origin})
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
