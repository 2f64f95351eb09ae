package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// convertAsLaterBuild changes the tables as a later build might: it adds columns to each table and creates a
// new table.
func convertAsLaterBuild(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relname LIKE 'colophon\_%' AND pg_table_is_visible(oid)`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(tables), 10)
	for _, table := range tables {
		for _, column := range []string{"later bigint", "latest text NOT NULL DEFAULT 'x'"} {
			_, err := conn.Exec(t.Context(), fmt.Sprintf(`ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s`, table, column))
			require.NoError(t, err)
		}
	}
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS colophon_later (id bigint NOT NULL PRIMARY KEY)`,
		`UPDATE colophon_schema SET version = 99 WHERE id = 1`,
	} {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
}

// If a later build converts the tables while this build is running, this build continues to write.
// It can also be restarted, and it leaves the version of the tables unchanged.
func TestTablesOfLaterBuild(t *testing.T) {
	url := emptyURL(t)
	a := member(t, url, "a")
	store, err := a.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	var head storage.Head
	write := func(s storage.Store) {
		t.Helper()
		next := batch(head, 2)
		require.NoError(t, s.Commit(t.Context(), head, next))
		head = next.Head
	}
	write(store)
	conn := connect(t, url)
	convertAsLaterBuild(t, conn)

	write(store)
	require.NoError(t, store.SetSetting(t.Context(), "log", []byte("public")))
	require.NoError(t, a.Leases().Renew(t.Context()))
	require.NoError(t, a.Leases().Heartbeat(t.Context(), []string{"default"}))
	require.Equal(t, uint64(4), stateOf(t, a).Size)
	requireLog(t, store, head)

	b := member(t, url, "b")
	require.NoError(t, probe(t, url))
	expire(t, url)
	require.NoError(t, b.Leases().Take(t.Context(), "default", false, time.Time{}))
	write(storeOf(t, b, "default"))
	requireLog(t, storeOf(t, b, "default"), head)
	var version int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT version FROM colophon_schema WHERE id = 1`).Scan(&version))
	require.Equal(t, 99, version)
}

// Open and Probe refuse tables that this build cannot use, and do not change them.
func TestTablesThatNeedALaterBuild(t *testing.T) {
	url := emptyURL(t)
	require.NoError(t, probe(t, url), "no tables")
	require.NoError(t, openAt(t, url).Close())
	require.NoError(t, probe(t, url))
	for _, statement := range []string{`UPDATE colophon_schema SET version = 99 WHERE id = 1`, `INSERT INTO colophon_schema (id, version) VALUES (2, 98)`} {
		_, err := connect(t, url).Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	for _, readOnly := range []bool{false, true} {
		_, err := Open(t.Context(), Config{URL: url, ReadOnly: readOnly})
		require.ErrorIs(t, err, storage.ErrUnknownFormat)
		require.ErrorContains(t, err, "the tables have version 99, which requires a build that supports version 98, but this build supports only version ")
	}
	require.ErrorIs(t, probe(t, url), storage.ErrUnknownFormat)
}
