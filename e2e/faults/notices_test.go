package faults_test

import (
	"context"
	"crypto/sha256"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/memory"
)

// commitHook wraps a database and calls commit instead of the Commit method of its stores.
type commitHook struct {
	storage.Database
	commit func(ctx context.Context, s storage.Store, old storage.Head, b storage.Batch) error
}

// Ledger implements storage.Database.
func (f commitHook) Ledger(ctx context.Context, name string) (storage.Store, error) {
	s, err := f.Database.Ledger(ctx, name)
	return hookedStore{s, f}, err
}

type hookedStore struct {
	storage.Store
	hook commitHook
}

// Commit implements storage.Store.
func (s hookedStore) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	return s.hook.commit(ctx, s.Store, old, b)
}

// usedBy runs clients against a ledger whose store calls commit instead of its own Commit method.
// It returns the database and the clients' history.
func usedBy(t *testing.T, commit func(ctx context.Context, s storage.Store, old storage.Head, b storage.Batch) error) *storeWorld {
	t.Helper()
	w := &storeWorld{history: newHistory(t.Name(), 1), database: memory.New(), indexFiles: vfs.NewMem(), keys: new(oneKey)}
	c := w.config()
	c.database = commitHook{w.database, commit}
	c.fatal = func(error) { runtime.Goexit() }
	n, err := openNode(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, n.use(t.Context(), w.history, 1, 30))
	require.NoError(t, n.close())
	return w
}

// commitCorrectly calls Commit without interfering. It is the control for the faulty commit
// functions.
func commitCorrectly(ctx context.Context, s storage.Store, old storage.Head, b storage.Batch) error {
	return s.Commit(ctx, old, b)
}

// dropCommits returns a commit function that performs the first ten commits and then acknowledges
// the rest without performing them, like a disk that ignores syncs.
func dropCommits() func(ctx context.Context, s storage.Store, old storage.Head, b storage.Batch) error {
	var commits atomic.Int64
	return func(ctx context.Context, s storage.Store, old storage.Head, b storage.Batch) error {
		if commits.Add(1) > 10 {
			return nil
		}
		return s.Commit(ctx, old, b)
	}
}

const stray = "never posted"

// commitWithStray commits correctly, but also stores content that no event refers to.
func commitWithStray(ctx context.Context, s storage.Store, old storage.Head, b storage.Batch) error {
	b.Contents = append(b.Contents, storage.Content{Digest: sha256.Sum256([]byte(stray)), Seq: b.Head.Size - 1, Slot: 99, Bytes: []byte(stray)})
	return s.Commit(ctx, old, b)
}

// TestOracleNotices checks that the oracle finds each kind of damage that it is supposed to detect.
func TestOracleNotices(t *testing.T) {
	t.Run("nothing", func(t *testing.T) {
		w := usedBy(t, commitCorrectly)
		require.Greater(t, len(w.history.acks), 20)
		require.NoError(t, w.inspect(t.Context()))
	})
	t.Run("a commit that was forgotten", func(t *testing.T) {
		require.ErrorContains(t, usedBy(t, dropCommits()).inspect(t.Context()), "LOST")
	})
	t.Run("content that no record needs", func(t *testing.T) {
		w := usedBy(t, commitWithStray)
		w.history.records(1)[0].contents = map[storage.Hash][]byte{sha256.Sum256([]byte(stray)): []byte(stray)}
		require.ErrorContains(t, w.inspect(t.Context()), "no record needs it")
	})
	for name, c := range map[string]struct {
		says   string
		change func(t *testing.T, w *storeWorld, x *memory.Tamperer, a *ack)
	}{
		"a changed entry": {"oracle, log", func(t *testing.T, _ *storeWorld, x *memory.Tamperer, a *ack) {
			require.NoError(t, x.SetEntry(a.seq, []byte("another entry, which is long enough")))
		}},
		"changed content": {"oracle, log", func(t *testing.T, _ *storeWorld, x *memory.Tamperer, a *ack) {
			for digest := range a.attempt.contents {
				require.NoError(t, x.SetContent(digest, []byte("another text")))
			}
		}},
		"a receipt for something else": {"LOST", func(_ *testing.T, w *storeWorld, _ *memory.Tamperer, a *ack) {
			other := w.history.records(1)[0]
			w.history.sent(other)
			w.history.acknowledged(other, a.receipt)
		}},
		"a receipt that does not verify": {"oracle, receipts", func(_ *testing.T, w *storeWorld, _ *memory.Tamperer, _ *ack) {
			for _, a := range w.history.acks {
				if a.receipt.Proof != nil && len(a.receipt.Proof.Inclusion.Hashes) > 0 {
					a.receipt.Proof.Inclusion.Hashes[0][0] ^= 1
				}
			}
		}},
		"an event without a request": {"too often; number of times: 1", func(_ *testing.T, w *storeWorld, _ *memory.Tamperer, a *ack) {
			a.attempt.tries = 0
			w.history.acks = slices.DeleteFunc(w.history.acks, func(b *ack) bool { return b.attempt == a.attempt })
		}},
		"an event without an answer": {"the attempt was never acknowledged", func(_ *testing.T, w *storeWorld, _ *memory.Tamperer, a *ack) {
			w.history.complete = true
			w.history.acks = slices.DeleteFunc(w.history.acks, func(b *ack) bool { return b.attempt == a.attempt })
		}},
		"a claim of another record": {"oracle, log", func(t *testing.T, w *storeWorld, x *memory.Tamperer, a *ack) {
			require.NoError(t, x.SetClaim(storage.Claim{KeyDigest: a.attempt.storedKey(), RecordDigest: storage.Hash{1}, Seq: a.seq}))
		}},
		"a forbidden answer": {"it says so", func(_ *testing.T, w *storeWorld, _ *memory.Tamperer, _ *ack) {
			w.history.broken("it says so")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := usedBy(t, commitCorrectly)
			x, err := w.database.Tamperer("default")
			require.NoError(t, err)
			at := slices.IndexFunc(w.history.acks, func(a *ack) bool { return a.attempt.isRecord() && a.attempt.keyed() })
			c.change(t, w, x, w.history.acks[at])
			require.ErrorContains(t, w.inspect(t.Context()), c.says)
		})
	}
}
