package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"colophon/storage"
)

// If several SetValue calls start from the same version of a value, exactly one succeeds.
func TestValues(t *testing.T) {
	url := emptyURL(t)
	one, two := openAt(t, url), openAt(t, url)
	ctx := t.Context()
	value, version, err := one.Value(ctx, "tokens")
	require.NoError(t, err)
	require.Zero(t, version)
	require.Nil(t, value)
	require.ErrorIs(t, one.SetValue(ctx, "tokens", 1, nil), storage.ErrConflict)
	require.NoError(t, one.SetValue(ctx, "tokens", 0, []byte("a")))
	require.ErrorIs(t, two.SetValue(ctx, "tokens", 0, []byte("b")), storage.ErrConflict)
	require.NoError(t, two.SetValue(ctx, "tokens", 1, []byte("b")))
	value, version, err = one.Value(ctx, "tokens")
	require.NoError(t, err)
	require.EqualValues(t, 2, version)
	require.Equal(t, "b", string(value))
	var group errgroup.Group
	made := make([]bool, 8)
	for i := range made {
		group.Go(func() error {
			err := []*Database{one, two}[i%2].SetValue(ctx, "tokens", 2, []byte{byte(i)})
			made[i] = err == nil
			if err != nil {
				require.ErrorIs(t, err, storage.ErrConflict)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	count := 0
	for _, is := range made {
		if is {
			count++
		}
	}
	require.Equal(t, 1, count)
	version, err = two.ValueVersion(ctx, "tokens")
	require.NoError(t, err)
	require.EqualValues(t, 3, version)
	version, err = two.ValueVersion(ctx, "another")
	require.NoError(t, err)
	require.Zero(t, version)
}

// After a migration has locked a database, others can open it only for reading, and only while its
// ledgers are complete. Only the migration can take over the ledgers or create new ones.
func TestMovedDatabase(t *testing.T) {
	url := emptyURL(t)
	ctx := t.Context()
	before := openAt(t, url)
	_, err := before.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	unopened := openAt(t, url)
	migrating, err := Open(ctx, Config{URL: url, IgnoreMigrationLock: true, Logger: silent()})
	require.NoError(t, err)
	defer func() { require.NoError(t, migrating.Close()) }()
	for _, state := range []MigrationState{MigrationArriving, MigrationLeaving, MigrationMoved} {
		require.NoError(t, migrating.SetMigrationLock(ctx, MigrationLock{State: state, Peer: "the folder data", Since: time.Now()}))
		_, err = Open(ctx, Config{URL: url, Logger: silent()})
		var refused *MigrationLockError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, state, refused.State)
		require.ErrorContains(t, err, "the folder data")
		reader, err := Open(ctx, Config{URL: url, Logger: silent(), ReadOnly: true})
		if state == MigrationArriving {
			require.ErrorAs(t, err, &refused)
		} else {
			require.NoError(t, err)
			require.NoError(t, reader.Close())
		}
		_, err = unopened.Ledger(ctx, "default")
		require.ErrorIs(t, err, errTakenOver)
		_, err = unopened.CreateLedger(ctx, storage.LedgerInfo{Name: "late"})
		require.ErrorAs(t, err, &refused)
	}
	store, err := before.Ledger(ctx, "default")
	require.NoError(t, err)
	require.NoError(t, store.SetSetting(ctx, "x", []byte("1")), "an already open ledger can still be written")
	_, err = migrating.Ledger(ctx, "default")
	require.NoError(t, err)
	require.ErrorIs(t, store.SetSetting(ctx, "x", []byte("2")), storage.ErrConflict)
	require.NoError(t, migrating.CheckOwnership(ctx))
	require.NoError(t, migrating.SetMigrationLock(ctx, MigrationLock{}))
	_, err = openAt(t, url).Ledger(ctx, "default")
	require.NoError(t, err)
	require.ErrorIs(t, migrating.CheckOwnership(ctx), errTakenOver)
}

// DiskBytes returns a positive size. On an idle database, Metrics reports no unanswered writes and
// no write connections in use.
func TestDatabaseMetrics(t *testing.T) {
	url := emptyURL(t)
	one, two := openAt(t, url), openAt(t, url)
	_, err := one.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	bytes, err := two.DiskBytes(t.Context())
	require.NoError(t, err)
	require.Positive(t, bytes)
	require.Zero(t, one.Metrics().UnansweredWrites)
	require.Zero(t, one.Metrics().WritePool.ConnsInUse)
	require.EqualValues(t, writeConnections, one.Metrics().WritePool.MaxConns)
}
