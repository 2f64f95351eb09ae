package importer

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"

	_ "modernc.org/sqlite" // registers the driver

	"colophon/ledger/record/pyjson"
)

const (
	sqliteMagic = "SQLite format 3\x00"
	cacheTable  = "providence_cache"
)

// rows yields each row of the table providence_cache as a JSON object, and reports the other
// tables as left out. It opens the database read-only, because the database may be in use.
func (o Options) rows(name string, yield func(native, error) bool) {
	number, more := 1, true
	err := o.eachRow(name, func(n native) bool {
		n.file, n.number = name, number
		if more = yield(n, nil); n.text != nil {
			number++
		}
		return more
	})
	if err != nil && more {
		yield(native{line: line{file: name, number: number}}, fmt.Errorf("the database cannot be read beyond this row: %w", err))
	}
}

func (o Options) eachRow(name string, visit func(native) bool) (err error) {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	path := filepath.ToSlash(absolute)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // in a URL, C:/… needs a leading slash
	}
	file := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx := context.Background()
	columns, err := names(ctx, db, "SELECT name FROM pragma_table_info('"+cacheTable+"')")
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		return errors.New("the database has no table " + cacheTable)
	}
	tables, err := names(ctx, db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('"+cacheTable+"', 'sqlite_sequence', 'sqlite_stat1')")
	if err != nil {
		return err
	}
	var others native
	for _, table := range tables {
		others.leaveOut(table, "the only table that is imported is "+cacheTable)
	}
	if others.others != nil && !visit(others) {
		return nil
	}
	quoted := make([]string, len(columns))
	for i, c := range columns {
		// The unary plus hides the declared type of the column. Otherwise the driver would
		// convert some texts to times.
		quoted[i] = `+"` + strings.ReplaceAll(c, `"`, `""`) + `"`
	}
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(quoted, ", ")+" FROM "+cacheTable) // #nosec G202 -- names of columns, quoted
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values, places := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		places[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		if !visit(native{line: line{text: rowJSON(columns, values)}}) {
			return nil
		}
	}
	return rows.Err()
}

// names returns the values in the first column of a query's result.
func names(ctx context.Context, db *sql.DB, query string) (names []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// rowJSON returns a row as a JSON object. Bytes that are not UTF-8 are encoded in base64.
func rowJSON(columns []string, values []any) []byte {
	w := new(pyjson.Builder)
	w.BeginObject()
	for i, name := range columns {
		w.BeginMember(name)
		switch v := values[i].(type) {
		case nil:
			w.Buf = append(w.Buf, "null"...)
		case int64:
			w.Buf = fmt.Append(w.Buf, v)
		case float64:
			if math.IsInf(v, 0) || math.IsNaN(v) {
				w.Buf = pyjson.AppendString(w.Buf, fmt.Append(nil, v))
				continue
			}
			w.Buf = pyjson.AppendFloat(w.Buf, v)
		case string:
			w.Buf = appendBytes(w.Buf, []byte(v))
		case []byte:
			w.Buf = appendBytes(w.Buf, v)
		default:
			w.Buf = pyjson.AppendString(w.Buf, fmt.Append(nil, v))
		}
	}
	w.EndObject()
	return w.Buf
}

func appendBytes(dst, b []byte) []byte {
	if utf8.Valid(b) {
		return pyjson.AppendString(dst, b)
	}
	dst = append(dst, `{"base64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, b), `"}`...)
}
