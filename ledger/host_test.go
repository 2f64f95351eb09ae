package ledger_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

func host(t *testing.T, database storage.Database, keys ledger.KeyStore) *ledger.Host {
	t.Helper()
	h, err := ledger.OpenHost(t.Context(), database, keys, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func TestHostKeepsLedgersAndKeys(t *testing.T) {
	database, keys := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}
	h := host(t, database, keys)
	a, err := h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	b, err := h.Create(t.Context(), ledger.CreateOptions{Name: "b", Origin: "log.example/b", MismatchPolicy: ledger.MismatchPolicyReject})
	require.NoError(t, err)
	require.NotEqual(t, a.VerifierKey(), b.VerifierKey())
	_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.ErrorIs(t, err, ledger.ErrExists)
	require.NoError(t, h.Close())

	again := host(t, database, keys)
	require.Len(t, again.Ledgers(), 2)
	reopened, err := again.Ledger("b")
	require.NoError(t, err)
	require.Equal(t, b.VerifierKey(), reopened.VerifierKey())
	require.Equal(t, "log.example/b", reopened.Info().Origin)
	require.Equal(t, ledger.MismatchPolicyReject, reopened.MismatchPolicy())
	_, err = again.Ledger("c")
	require.ErrorIs(t, err, ledger.ErrUnknownLedger)
}

func TestNamesAndOrigins(t *testing.T) {
	h := host(t, memory.New(), keystore.KeyFiles{Dir: t.TempDir()})
	for _, name := range []string{"", "A", "-a", "a b", "../a", "ä", string(make([]byte, 65))} {
		_, err := h.Create(t.Context(), ledger.CreateOptions{Name: name})
		require.ErrorIs(t, err, ledger.ErrInvalidName, name)
	}
	for _, origin := range []string{"http://x.example/y", "a b", "a+b", "a//b", "/a", "a\n", "é"} {
		_, err := h.Create(t.Context(), ledger.CreateOptions{Name: "n", Origin: origin})
		require.ErrorIs(t, err, ledger.ErrInvalidOrigin, origin)
	}
}

// If the database is lost but the key is not, Create does not start a second log with that key.
func TestKeyWithoutLedgerIsNotUsedAgain(t *testing.T) {
	keys := keystore.KeyFiles{Dir: t.TempDir()}
	_, err := host(t, memory.New(), keys).Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.NoError(t, err)
	_, err = host(t, memory.New(), keys).Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.ErrorIs(t, err, ledger.ErrKeyWithoutLedger)
}

// If the creation of a ledger is interrupted, OpenHost or the next call to Create completes it with
// the key that was staged. If that key is lost, OpenHost skips the ledger.
func TestInterruptedCreation(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	t.Run("before the database", func(t *testing.T) {
		keys := keystore.KeyFiles{Dir: t.TempDir()}
		require.NoError(t, keys.Stage("a", signer))
		h := host(t, memory.New(), keys)
		_, err := h.Create(t.Context(), ledger.CreateOptions{Name: "a", Origin: "log.example/other"})
		require.ErrorIs(t, err, ledger.ErrKeyOriginMismatch)
		l, err := h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
		require.NoError(t, err)
		require.Equal(t, signer.Verifier().String(), l.VerifierKey())
	})
	t.Run("before the key is confirmed", func(t *testing.T) {
		database, keys := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}
		require.NoError(t, keys.Stage("a", signer))
		_, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: "a", Origin: "log.example/a"})
		require.NoError(t, err)
		l, err := host(t, database, keys).Ledger("a")
		require.NoError(t, err)
		require.Equal(t, signer.Verifier().String(), l.VerifierKey())
		require.EqualValues(t, 1, l.Head().Size)
	})
	t.Run("after the database", func(t *testing.T) {
		database, keys := memory.New(), keystore.KeyFiles{Dir: t.TempDir()}
		h := host(t, database, keys)
		require.NoError(t, keys.Stage("a", signer))
		_, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: "a", Origin: "log.example/a"})
		require.NoError(t, err)
		_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
		require.ErrorIs(t, err, ledger.ErrExists)
		l, err := h.Ledger("a")
		require.NoError(t, err, "the ledger stays open")
		require.EqualValues(t, 1, l.Head().Size)
	})
	t.Run("by a client that disconnects", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := host(t, memory.New(), keystore.KeyFiles{Dir: t.TempDir()}).Create(ctx, ledger.CreateOptions{Name: "a"})
		require.NoError(t, err)
	})
	t.Run("key lost", func(t *testing.T) {
		database := memory.New()
		_, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: "a", Origin: "log.example/a"})
		require.NoError(t, err)
		h := host(t, database, keystore.KeyFiles{Dir: t.TempDir()})
		require.Empty(t, h.Ledgers(), "a ledger without an event is left out")
		_, err = h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
		require.ErrorIs(t, err, storage.ErrNotFound)
	})
}

// raced is a database in which another server creates a ledger between the calls to Ledger and Create.
type raced struct {
	storage.Database
	created bool
}

func (d *raced) Ledger(ctx context.Context, name string) (storage.Store, error) {
	if !d.created {
		return nil, storage.ErrNotFound
	}
	return d.Database.Ledger(ctx, name)
}

func (d *raced) CreateLedger(ctx context.Context, info storage.LedgerInfo) (storage.Store, error) {
	d.created = true
	if _, err := d.Database.CreateLedger(ctx, info); err != nil {
		return nil, err
	}
	return d.Database.CreateLedger(ctx, info)
}

// If another server creates the same ledger concurrently, Create opens the ledger and returns ErrExists.
func TestTwoServersCreateALedger(t *testing.T) {
	h := host(t, &raced{Database: memory.New()}, keystore.KeyFiles{Dir: t.TempDir()})
	_, err := h.Create(t.Context(), ledger.CreateOptions{Name: "a"})
	require.ErrorIs(t, err, ledger.ErrExists)
	_, err = h.Ledger("a")
	require.NoError(t, err)
}

func TestOnlyTheOwnerCanReadKeyFiles(t *testing.T) {
	keys := keystore.KeyFiles{Dir: t.TempDir()}
	signer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	require.NoError(t, keys.Stage("a", signer))
	require.NoError(t, keys.ConfirmStaged("a"))
	info, err := os.Stat(keys.Path("a"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	left, err := os.ReadDir(keys.Dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, keys.Stage("a", signer))
	require.Error(t, keys.ConfirmStaged("a"), "a key is never replaced")
	require.NoError(t, os.Chmod(keys.Path("a"), 0o644))
	_, err = keys.Load("a")
	require.ErrorContains(t, err, "chmod 600")
}
