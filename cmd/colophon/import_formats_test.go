package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/internal/testing/ledgertest"
	"colophon/ledger"
	"colophon/ledger/record/cpython"
	"colophon/ledger/record/formats"
)

// nativeRecords returns n records as the original Python programs write them, with hashes computed
// by Python.
func nativeRecords(t *testing.T, oracle *cpython.Oracle, f formats.Format, n int) [][]byte {
	t.Helper()
	seeds := make([]int, n)
	for i := range seeds {
		seeds[i] = i
	}
	return cpython.Ask[int, []byte](t, oracle, strings.ReplaceAll(string(f), "-", "_"), seeds)
}

func writeNative(t *testing.T, text []byte, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, text, 0o600))
	return name
}

// writeSave writes the files of a saved session to a folder, along with one file that is not part
// of the session.
func writeSave(t *testing.T, native []byte, folder string) {
	var files map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(native, &files))
	for name, content := range files {
		var text string
		if json.Unmarshal(content, &text) == nil {
			content = []byte(text)
		}
		writeNative(t, content, folder, name)
	}
	writeNative(t, nil, folder, ".DS_Store")
}

// writeSQLite writes the records to a table with the column types that the original programs
// declare.
func writeSQLite(t *testing.T, natives [][]byte, name string) {
	db, err := sql.Open("sqlite", name)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	columns := make(map[string]bool)
	_, err = db.ExecContext(t.Context(), `CREATE TABLE providence_cache (id INTEGER, created_at DATETIME, n_quotes INTEGER, run_dag_blob BLOB)`)
	require.NoError(t, err)
	for _, known := range []string{"id", "created_at", "n_quotes", "run_dag_blob"} {
		columns[known] = true
	}
	for _, native := range natives {
		var row map[string]any
		decoder := json.NewDecoder(bytes.NewReader(native))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&row))
		var names, places []string
		var values []any
		for name, value := range row {
			if !columns[name] {
				columns[name] = true
				_, err := db.ExecContext(t.Context(), `ALTER TABLE providence_cache ADD COLUMN "`+name+`"`)
				require.NoError(t, err)
			}
			switch v := value.(type) {
			case json.Number:
				n, err := v.Int64()
				require.NoError(t, err)
				value = n
			case string, nil:
			default:
				text, err := json.Marshal(v)
				require.NoError(t, err)
				value = text // a []byte is stored as a BLOB
			}
			names, places, values = append(names, `"`+name+`"`), append(places, "?"), append(values, value)
		}
		_, err := db.ExecContext(t.Context(), `INSERT INTO providence_cache (`+strings.Join(names, ",")+`) VALUES (`+strings.Join(places, ",")+`)`, values...)
		require.NoError(t, err)
	}
}

// importTwice runs the same import twice and returns the output of each run. It requires that the
// second run adds nothing to the ledger.
func importTwice(t *testing.T, url string, args ...string) (first, second string) {
	t.Helper()
	args = append([]string{"import", "--server", strings.TrimSuffix(url, "/v1/ledgers/default")}, args...)
	c, err := client.New(args[2])
	require.NoError(t, err)
	size := func() uint64 {
		l, err := c.Ledger(ledger.DefaultName).Describe(t.Context())
		require.NoError(t, err)
		return l.TreeSize
	}
	once := func() string {
		var out, errs bytes.Buffer
		code := run(context.Background(), args, strings.NewReader(""), &out, &errs, func(string) (string, bool) { return "", false })
		require.Zero(t, code, "%s%s", out.String(), errs.String())
		for line := range strings.Lines(errs.String()) { // the only permitted warnings are about members that were left out
			require.Regexp(t, `^colophon: (.*: /[.\w]+ was left out: (the file is not part of a save|the member describes the file|the member can change while the run stays the same|a run-DAG without inputs can have only one text)|and [0-9]+ more members were left out; use --report to list all of them)`, line)
		}
		return out.String()
	}
	before := size()
	first = once()
	after := size()
	require.Greater(t, after, before)
	second = once()
	require.Equal(t, after, size(), "the second import must add nothing")
	return first, second
}

func TestImportOfEachFormat(t *testing.T) {
	oracle := cpython.Start(t)
	dir := t.TempDir()
	const n = 40
	join := func(f formats.Format, n int) []byte {
		return append(bytes.Join(nativeRecords(t, oracle, f, n), []byte("\n")), '\n')
	}

	url, stop := ledgertest.Serve(t, filepath.Join(dir, "data"))
	defer stop()
	log := writeNative(t, join(formats.AxisLabLog, n), dir, "run_log.jsonl")
	for i, save := range nativeRecords(t, oracle, formats.AxisLabSave, n) {
		writeSave(t, save, filepath.Join(dir, "saves", fmt.Sprint(i)))
	}
	for i, set := range nativeRecords(t, oracle, formats.CitationsFile, n) {
		writeNative(t, set, dir, "runs", fmt.Sprint(i), "citations.json")
	}
	cache := writeNative(t, nativeRecords(t, oracle, formats.ValidationCache, 1)[0], dir, "cache.json")
	rows := nativeRecords(t, oracle, formats.ProvidenceCache, n)
	lines := writeNative(t, bytes.Join(rows, []byte("\n")), dir, "rows.ndjson")
	database := filepath.Join(dir, "cache.db")
	writeSQLite(t, rows, database)

	for _, c := range []struct {
		args []string
		kind string
		rows int // expected number of rows; 0 means that it is not checked
	}{
		{[]string{"--format", "axis-log", log}, "ipc_record", n},
		{[]string{"--format", "axis-save", filepath.Join(dir, "saves")}, "ipc_record", n},
		{[]string{"--format", "citations", filepath.Join(dir, "runs")}, "citation_set", n},
		{[]string{"--format", "validation-cache", "--project", "story", "--zone", "America/New_York", cache}, "path_fingerprint", 0},
		{[]string{"--format", "providence", lines}, "run_dag", n},
	} {
		first, second := importTwice(t, url, c.args...)
		if c.rows > 0 {
			require.Regexp(t, fmt.Sprintf(`%s +%d +0 +0 +[0-9]+ +0\n`, c.kind, c.rows), first)
			require.Regexp(t, fmt.Sprintf(`%s +0 +%d +0 +0 +0\n`, c.kind, c.rows), second)
		}
		require.Regexp(t, `total +0 +[0-9]+ +0 +0 +0\n`, second)
		_, members, _ := strings.Cut(first, "member\n")
		_, again, _ := strings.Cut(second, "member\n")
		require.NotEmpty(t, members)
		require.Equal(t, members, again)
	}

	// The rows in the SQLite file are the same as the lines imported above, so the ledger already
	// has them.
	var out, errs bytes.Buffer
	code := run(context.Background(), []string{"import", "--server", strings.TrimSuffix(url, "/v1/ledgers/default"), "--format", "providence", database},
		strings.NewReader(""), &out, &errs, func(string) (string, bool) { return "", false })
	require.Zero(t, code, errs.String())
	require.Regexp(t, fmt.Sprintf(`run_dag +0 +%d +0 +0 +0\n`, n), out.String())
	require.Regexp(t, `total +0 +[0-9]+ +0 +0 +0\n`, out.String())
}

func TestImportOfFormatsNamesWhatIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	lines := writeNative(t, []byte(`{"payload":{"seed":1},"output":"o"}`+"\n"+
		`{"payload":{"seed":1},"model":"m","temperature":0.5,"max_tokens":9,"output":"o","timestamp":"2025-11-12T18:53:35.4","note":"`+strings.Repeat("n", 200)+`"}`+"\n"+
		`[]`+"\n"), dir, "run_log.jsonl")
	report := filepath.Join(dir, "report.ndjson")
	var out, errs bytes.Buffer
	command := func(args ...string) int {
		out.Reset()
		errs.Reset()
		return run(context.Background(), append([]string{"import"}, args...), strings.NewReader(""), &out, &errs, func(string) (string, bool) { return "", false })
	}
	require.Equal(t, 1, command("--format", "axis-log", "--dry-run", "--report", report, lines))
	require.Regexp(t, `ipc_record +1 +0 +0 +1 +1\n`, out.String())
	require.Contains(t, out.String(), "1 record without system_prompt\n", "a dry run must report it too")
	require.Contains(t, out.String(), "1  /note: kept as content usage/imported/note\n")
	require.Contains(t, out.String(), "1  /timestamp: kept as label timestamp: the value has no time zone; specify a zone to use the value as the timestamp\n")
	require.Contains(t, errs.String(), "run_log.jsonl:1: the record was left out: /model: is required")
	require.Contains(t, errs.String(), "run_log.jsonl:3: must be a JSON object")
	require.Contains(t, errs.String(), "dry run: nothing was sent")
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	require.Equal(t, 3, bytes.Count(text, []byte("\n")), "%s", text)
	require.Contains(t, string(text), `"line":3,"left":"must be a JSON object"`)
	require.Contains(t, string(text), `{"pointer":"/note","fate":"kept as content","as":"usage/imported/note"}`)

	require.Equal(t, 2, command("--format", "poem", lines))
	require.Contains(t, errs.String(), "use axis-log, axis-save, citations, validation-cache, providence, langfuse, mlflow or phoenix")
	require.Equal(t, 2, command("--format", "axis-log", "--zone", "Nowhere", lines))
	require.Equal(t, 2, command("--dry-run", lines))
	require.Equal(t, 2, command("--format", "axis-log", dir))
	require.Contains(t, errs.String(), "is a folder")
}
