package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"colophon/ledger/record/pyjson"
)

// node returns the Parquet type of a column. Every column is optional.
func (k kind) node() parquet.Node {
	switch k {
	case boolean:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType))
	case integer:
		return parquet.Optional(parquet.Leaf(parquet.Int64Type))
	case number:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	}
	return parquet.Optional(parquet.String())
}

// parquetValue converts a value to a Parquet value for a column of type k.
func parquetValue(v pyjson.Value, k kind) parquet.Value {
	switch {
	case !v.IsGiven():
		return parquet.NullValue()
	case k == boolean:
		return parquet.BooleanValue(string(v.Raw()) == "true")
	case k == integer:
		n, _ := strconv.ParseInt(string(v.Raw()), 10, 64) // cannot fail: kindOf has already parsed it
		return parquet.Int64Value(n)
	case k == number:
		n, _ := v.Float()
		return parquet.DoubleValue(n)
	}
	return parquet.ByteArrayValue(textOf(v))
}

// parquetBatch is the number of rows that are written or read at a time.
const parquetBatch = 256

// schemaOf returns the schema of a file with the given columns and RowColumn. Its columns are sorted
// by name, as the library requires.
func schemaOf(columns []column) *parquet.Schema {
	group := parquet.Group{RowColumn: parquet.Required(parquet.String())}
	for _, c := range columns {
		group[c.name] = c.kind.node()
	}
	return parquet.NewSchema("row", group)
}

// writeParquet writes rows as Parquet.
func writeParquet(w io.Writer, columns []column, rows Rows) error {
	schema := schemaOf(columns)
	// leaf[i] is the position of column i in the schema. The last element is the position of RowColumn.
	leaf := make([]int, len(columns)+1)
	for i, path := range schema.Columns() {
		if path[0] == RowColumn {
			leaf[len(columns)] = i
			continue
		}
		leaf[placesOf(columns)[path[0]]] = i
	}
	out := parquet.NewWriter(w, schema, parquet.Compression(&zstd.Codec{}))
	values, places := make([]pyjson.Value, len(columns)), placesOf(columns)
	var document pyjson.Document
	var batch []parquet.Row
	flush := func() error {
		_, err := out.WriteRows(batch)
		batch = batch[:0]
		return err
	}
	for row, err := range rows() {
		if err != nil {
			return err
		}
		if err := document.Parse(row); err != nil {
			return fmt.Errorf("table: parsing a row: %w", err)
		}
		fill(values, places, document.Root())
		line := make(parquet.Row, len(columns)+1)
		for i, v := range values {
			defined := 1
			if !v.IsGiven() {
				defined = 0
			}
			line[leaf[i]] = parquetValue(v, columns[i].kind).Clone().Level(0, defined, leaf[i])
		}
		line[leaf[len(columns)]] = parquet.ByteArrayValue(bytes.Clone(row)).Level(0, 0, leaf[len(columns)])
		if batch = append(batch, line); len(batch) == parquetBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return out.Close()
}

// readParquet yields the JSON text of each row of a Parquet file after comparing the text with the
// row's other columns.
func readParquet(file io.ReaderAt, size int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		// The library can panic on a malformed file. Recover from such a panic, but not from one in the
		// caller's loop body.
		yielding := false
		defer func() {
			if broken := recover(); broken != nil {
				if yielding {
					panic(broken)
				}
				yield(nil, fmt.Errorf("the Parquet file is malformed: %v", broken))
			}
		}()
		opened, err := parquet.OpenFile(file, size)
		if err != nil {
			yield(nil, fmt.Errorf("reading the Parquet file: %w", err))
			return
		}
		columns, places, rowAt, err := parquetColumns(opened.Schema())
		if err != nil {
			yield(nil, err)
			return
		}
		in := parquet.NewReader(opened)
		defer in.Close()
		var document pyjson.Document
		values := make([]pyjson.Value, len(columns))
		batch := make([]parquet.Row, parquetBatch)
		for {
			n, err := in.ReadRows(batch)
			for _, line := range batch[:n] {
				if len(line) != len(columns) {
					yield(nil, errors.New("the Parquet file has repeated columns, which are not supported"))
					return
				}
				row := bytes.Clone(line[rowAt].ByteArray())
				var wrong error
				if document.ParseLimited(row, maxRowValues) != nil || document.Root().Kind() != pyjson.Object {
					wrong = ErrCellMismatch
				} else {
					fill(values, places, document.Root())
					wrong = compareCells(columns, values, line, rowAt)
				}
				yielding = true
				if !yield(row, wrong) {
					return
				}
				yielding = false
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("reading the Parquet file: %w", err))
				return
			}
		}
	}
}

// parquetColumns returns the columns of a file, a map from column name to position, and the
// position of RowColumn.
func parquetColumns(schema *parquet.Schema) (columns []column, places map[string]int, rowAt int, err error) {
	rowAt = -1
	places = make(map[string]int)
	for i, field := range schema.Fields() {
		if !field.Leaf() {
			return nil, nil, 0, fmt.Errorf("the column %q of the Parquet file is nested, which is not supported", field.Name())
		}
		c := column{name: field.Name(), kind: text}
		switch field.Type().Kind() {
		case parquet.Boolean:
			c.kind = boolean
		case parquet.Int64:
			c.kind = integer
		case parquet.Double:
			c.kind = number
		case parquet.ByteArray:
		default:
			return nil, nil, 0, fmt.Errorf("the column %q of the Parquet file has the unsupported type %v", field.Name(), field.Type())
		}
		if columns = append(columns, c); c.name == RowColumn {
			rowAt = i
			continue
		}
		places[c.name] = i
	}
	if rowAt < 0 || columns[rowAt].kind != text {
		return nil, nil, 0, fmt.Errorf("the Parquet file has no column %s, so the file is not an export", RowColumn)
	}
	return columns, places, rowAt, nil
}

// compareCells compares the columns of a row with the values in its JSON text, and returns an error
// that wraps ErrCellMismatch if they differ.
func compareCells(columns []column, values []pyjson.Value, line parquet.Row, rowAt int) error {
	for i, c := range columns {
		if i == rowAt {
			continue
		}
		if v := values[i]; v.IsGiven() && join(kindOf(v), c.kind) != c.kind {
			return fmt.Errorf("%w: column %q has a different type", ErrCellMismatch, c.name)
		}
		if want := parquetValue(values[i], c.kind); want.IsNull() != line[i].IsNull() || !want.IsNull() && !parquet.Equal(want, line[i]) {
			return fmt.Errorf("%w: column %q", ErrCellMismatch, c.name)
		}
	}
	return nil
}

// checkParquet checks that a file has exactly the columns that writeParquet writes for its rows. It
// compares their complete descriptions, because programs differ in which annotation of a type they
// use. It also refuses metadata, with which some programs replace the types.
func checkParquet(file io.ReaderAt, size int64, rows Rows) error {
	columns, err := columnsOf(rows)
	if err != nil {
		return err
	}
	opened, err := parquet.OpenFile(file, size)
	if err != nil {
		return fmt.Errorf("reading the Parquet file: %w", err)
	}
	var empty bytes.Buffer
	if err := parquet.NewWriter(&empty, schemaOf(columns)).Close(); err != nil {
		return err
	}
	want, err := parquet.OpenFile(bytes.NewReader(empty.Bytes()), int64(empty.Len()))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(opened.Metadata().Schema, want.Metadata().Schema) || len(opened.Metadata().KeyValueMetadata) > 0 {
		return fmt.Errorf("%w: the names, types, or metadata of the columns of the Parquet file are not those of an export", ErrCellMismatch)
	}
	return nil
}
