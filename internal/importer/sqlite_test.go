package importer

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/formats"
)

// database creates an SQLite file and keeps it open until the test ends.
func database(t *testing.T, statements ...string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "cache #1?.db")
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Dir(name))+"/cache%20%231%3f.db")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
	return name
}

func rowsOf(name string) (rows []string, err error) {
	for n, failed := range (Options{Native: &NativeOptions{Format: "providence"}}).natives(name) {
		if failed != nil {
			err = failed
			continue
		}
		rows = append(rows, string(n.text))
	}
	return rows, err
}

// The import also reads rows that are only in the write-ahead log. It reads values as they are
// stored, whatever type their column declares.
func TestRowsOfADatabaseInUse(t *testing.T) {
	name := database(t, `PRAGMA journal_mode=WAL`,
		`CREATE TABLE providence_cache (id INTEGER PRIMARY KEY, "created ""at""" DATETIME, score REAL, flag BOOLEAN, blob BLOB, none TEXT)`,
		`INSERT INTO providence_cache VALUES (1, '2025-11-12 18:53:35', 0.1, 1, '{"a":1}', NULL)`,
		`INSERT INTO providence_cache VALUES (9007199254740993, 1763000000, 1e308, 'x', x'ff00', 'ü→')`,
		`INSERT INTO providence_cache VALUES (3, 1763000000.5, 9e999, x'7b7d', 2, '')`)
	rows, err := rowsOf(name)
	require.NoError(t, err)
	require.Equal(t, []string{
		`{"blob":"{\"a\":1}","created \"at\"":"2025-11-12 18:53:35","flag":1,"id":1,"none":null,"score":0.1}`,
		`{"blob":2,"created \"at\"":1763000000.5,"flag":"{}","id":3,"none":"","score":"+Inf"}`,
		`{"blob":{"base64":"/wA="},"created \"at\"":1763000000,"flag":"x","id":9007199254740993,"none":"ü→","score":1e+308}`,
	}, rows)
}

// The tally lists each table that is not imported as left out.
func TestOtherTablesOfADatabase(t *testing.T) {
	name := database(t, `CREATE TABLE providence_cache (id INTEGER PRIMARY KEY AUTOINCREMENT)`, `CREATE TABLE notes (id)`,
		`INSERT INTO providence_cache VALUES (7)`)
	counted := newCounter()
	var lines []*line
	for l := range (Options{Native: &NativeOptions{Format: "providence"}}).nativeLines([]string{name}, counted) {
		lines = append(lines, l.Tag.(*line))
	}
	require.Empty(t, lines, "the row has no run-DAG")
	tally := counted.tally()
	require.Contains(t, tally.MemberCounts, MemberCount{Pattern: "/notes", Outcome: formats.OutcomeLeftOut, Detail: "the only table that is imported is providence_cache", Count: 1})
	require.Equal(t, 1, tally.Total().Refused)
	require.Contains(t, tally.Failures[0], ":1: the record was left out: the row has neither a run-DAG in JSON nor")
}

func TestDatabasesWithoutTheTable(t *testing.T) {
	rows, err := rowsOf(database(t, `CREATE TABLE other (id)`))
	require.Empty(t, rows)
	require.ErrorContains(t, err, "the database has no table providence_cache")
}
