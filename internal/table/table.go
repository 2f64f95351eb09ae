// Package table writes the rows of an export to a file in NDJSON, CSV, or Parquet, and reads
// them back.
//
// In CSV and Parquet, each member of a row is a column, and the column RowColumn holds the JSON text
// of the row. A member of a nested object is a column whose name joins the member names with dots.
// Arrays, and objects nested more than three levels deep, are stored as JSON text.
package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// Format is an export file format.
type Format string

const (
	FormatNDJSON  Format = "ndjson"  // one JSON text per line
	FormatCSV     Format = "csv"     // comma-separated values
	FormatParquet Format = "parquet" // Apache Parquet
)

// Formats lists all supported formats.
var Formats = []Format{FormatParquet, FormatCSV, FormatNDJSON}

// RowColumn is the name of the column with the JSON text of the row.
const RowColumn = "_row"

// Members beyond maxColumns appear only in RowColumn. Objects nested deeper than maxDepth are
// stored as JSON text. ReadRows refuses a row with more than maxRowValues JSON values and member
// names, because parsing a value of two bytes needs many more bytes.
const (
	maxColumns   = 1000
	maxDepth     = 3
	maxRowValues = 2_000_000
)

// ErrCellMismatch means that the columns of a row do not match the JSON text of the row.
var ErrCellMismatch = errors.New("the columns of the row do not match its JSON text")

// Rows yields the JSON text of each row. The text is valid until the next iteration. Each call
// starts again at the first row.
type Rows func() iter.Seq2[[]byte, error]

// WriteRows writes rows to a file. For CSV and Parquet, it reads the rows twice, because it must
// first determine the columns.
func WriteRows(w io.Writer, format Format, rows Rows) error {
	switch format {
	case FormatNDJSON:
		for row, err := range rows() {
			if err != nil {
				return err
			}
			if _, err := w.Write(append(bytes.Clone(row), '\n')); err != nil {
				return err
			}
		}
		return nil
	case FormatCSV, FormatParquet:
		columns, err := columnsOf(rows)
		if err != nil {
			return err
		}
		if format == FormatCSV {
			return writeCSV(w, columns, rows)
		}
		return writeParquet(w, columns, rows)
	}
	return fmt.Errorf("table: unknown format %q; use parquet, csv, or ndjson", format)
}

// ReadRows yields the JSON text of each row of a file. size is the length of the file in bytes. If the columns
// of a row do not match its text, ReadRows yields the text together with an error that wraps ErrCellMismatch,
// and continues.
func ReadRows(file io.ReaderAt, size int64, format Format) iter.Seq2[[]byte, error] {
	switch format {
	case FormatNDJSON:
		return readNDJSON(io.NewSectionReader(file, 0, size))
	case FormatCSV:
		return readCSV(io.NewSectionReader(file, 0, size))
	}
	return readParquet(file, size)
}

// CheckForm returns an error that wraps ErrCellMismatch if the file has a form that its rows do not determine, such as
// an additional column, a different name or type of a column, or text that is not in any row. It trusts the rows: the
// caller must have checked all of them with ReadRows.
func CheckForm(file io.ReaderAt, size int64, format Format) error {
	rows := func() iter.Seq2[[]byte, error] { return ReadRows(file, size, format) }
	switch format {
	case FormatCSV:
		return checkCSV(io.NewSectionReader(file, 0, size), rows)
	case FormatParquet:
		return checkParquet(file, size, rows)
	}
	return nil
}

// kind is the type of a column.
type kind uint8

const (
	boolean kind = iota
	integer
	number
	text
)

type column struct {
	name string
	kind kind
}

// cell is one member of a row with the name of its column.
type cell struct {
	name  string
	value pyjson.Value
}

// cells yields the non-null members of a row, including those of nested objects.
func cells(row pyjson.Value) iter.Seq[cell] {
	return func(yield func(cell) bool) { walk("", row, 1, yield) }
}

// walk yields the members of an object. prefix is prepended to their names: it is empty, or the
// name of the object followed by a dot.
func walk(prefix string, object pyjson.Value, depth int, yield func(cell) bool) bool {
	for name, value := range object.Members() {
		full := prefix + string(bytes.ToValidUTF8(name.Text(), []byte("\uFFFD")))
		switch {
		case !value.IsGiven():
		case value.Kind() == pyjson.Object && depth < maxDepth && value.Len() > 0:
			if !walk(full+".", value, depth+1, yield) {
				return false
			}
		default:
			if !yield(cell{full, value}) {
				return false
			}
		}
	}
	return true
}

// kindOf returns the narrowest type that can represent a value.
func kindOf(v pyjson.Value) kind {
	switch v.Kind() {
	case pyjson.False, pyjson.True:
		return boolean
	case pyjson.Integer:
		if _, err := strconv.ParseInt(string(v.Raw()), 10, 64); err == nil {
			return integer
		}
		return text
	case pyjson.Float:
		return number
	}
	return text
}

// join returns the narrowest type that can represent the values of both types.
func join(a, b kind) kind {
	switch {
	case a == b:
		return a
	case a != boolean && b != boolean && a != text && b != text:
		return number
	}
	return text
}

// columnsOf returns the columns that the rows need, in order of first occurrence.
func columnsOf(rows Rows) ([]column, error) {
	var list []column
	places := make(map[string]int)
	var document pyjson.Document
	for row, err := range rows() {
		if err != nil {
			return nil, err
		}
		if err := document.Parse(row); err != nil {
			return nil, fmt.Errorf("table: parsing a row: %w", err)
		}
		for c := range cells(document.Root()) {
			place, known := places[c.name]
			switch {
			case known:
				list[place].kind = join(list[place].kind, kindOf(c.value))
			case len(list) < maxColumns && c.name != RowColumn:
				places[c.name] = len(list)
				list = append(list, column{c.name, kindOf(c.value)})
			}
		}
	}
	return list, nil
}

// fill sets values[i] to the row's value for column i, or clears values[i] if the row has none. places
// maps column names to indexes. If two members have the same name, fill uses the first.
func fill(values []pyjson.Value, places map[string]int, row pyjson.Value) {
	clear(values)
	for c := range cells(row) {
		if place, known := places[c.name]; known && !values[place].IsGiven() {
			values[place] = c.value
		}
	}
}

// placesOf returns a map from column names to indexes.
func placesOf(columns []column) map[string]int {
	places := make(map[string]int, len(columns))
	for i, c := range columns {
		places[c.name] = i
	}
	return places
}

// textOf returns the content of a text column for a value, which is the text of a string, or the
// JSON of any other value.
func textOf(v pyjson.Value) []byte {
	if v.Kind() == pyjson.String {
		return bytes.ToValidUTF8(v.Text(), []byte("\uFFFD"))
	}
	return v.Raw()
}

// Difference describes a row that differs between a file and its manifest.
type Difference struct {
	Kind        string // changed, added, removed, or moved
	FileRow     int    // row number in the file, starting at 1; 0 if the row was removed
	ManifestRow int    // row number in the manifest, starting at 1; 0 if the row was added or moved
}

// CompareRows returns the first differences between the rows of a file and those in its manifest, in file
// order. most limits the number of differences. Rows are compared by their hashes.
func CompareRows[H comparable](file, manifest []H, most int) (list []Difference) {
	inFile, inManifest := counts(file), counts(manifest) // how often each row occurs in the part not yet compared
	moved := make(map[H]int)                             // rows of the manifest that were found earlier in the file
	for i, j := 0, 0; (i < len(file) || j < len(manifest)) && len(list) < most; {
		switch {
		case j < len(manifest) && moved[manifest[j]] > 0:
			moved[manifest[j]]--
			inManifest[manifest[j]]--
			j++
			continue
		case i < len(file) && j < len(manifest) && file[i] == manifest[j]:
			inFile[file[i]]--
			inManifest[manifest[j]]--
			i, j = i+1, j+1
			continue
		}
		added := i < len(file) && inManifest[file[i]] <= moved[file[i]] // the row does not occur in the rest of the manifest
		removed := j < len(manifest) && inFile[manifest[j]] == 0
		if added || i < len(file) && !removed {
			inFile[file[i]]--
			i++
		}
		if removed {
			inManifest[manifest[j]]--
			j++
		}
		switch {
		case added && removed:
			list = append(list, Difference{"changed", i, j})
		case added:
			list = append(list, Difference{"added", i, 0})
		case removed:
			list = append(list, Difference{"removed", 0, j})
		default:
			moved[file[i-1]]++
			list = append(list, Difference{"moved", i, 0})
		}
	}
	return list
}

// counts returns how often each row occurs.
func counts[H comparable](rows []H) map[H]int {
	n := make(map[H]int, len(rows))
	for _, h := range rows {
		n[h]++
	}
	return n
}
