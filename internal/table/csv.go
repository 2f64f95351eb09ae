package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"colophon/ledger/record/pyjson"
)

// writeCSV writes rows as CSV (RFC 4180) with a header. A member that is null or absent becomes
// an empty cell.
func writeCSV(w io.Writer, columns []column, rows Rows) error {
	out := csv.NewWriter(w)
	names := make([]string, 0, len(columns)+1)
	for _, c := range columns {
		names = append(names, safeCell(c.name))
	}
	if err := out.Write(append(names, RowColumn)); err != nil {
		return err
	}
	values, places := make([]pyjson.Value, len(columns)), placesOf(columns)
	line := make([]string, len(columns)+1)
	var document pyjson.Document
	for row, err := range rows() {
		if err != nil {
			return err
		}
		if err := document.Parse(row); err != nil {
			return fmt.Errorf("table: parsing a row: %w", err)
		}
		fill(values, places, document.Root())
		for i, v := range values {
			line[i] = csvCell(v)
		}
		line[len(columns)] = string(row)
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// csvCell formats a value as a CSV cell: empty if the value is null or absent, the text itself if
// it is a string, and JSON otherwise.
func csvCell(v pyjson.Value) string {
	switch {
	case !v.IsGiven():
		return ""
	case v.Kind() == pyjson.String:
		return safeCell(string(textOf(v)))
	}
	return string(v.Raw())
}

// safeCell prepends an apostrophe to text that a spreadsheet would evaluate as a formula, and to
// text that already begins with an apostrophe.
func safeCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r'", rune(text[0])) {
		return "'" + text
	}
	return text
}

// readCSV yields the JSON text of each row of a CSV file after comparing the text with the row's
// other columns.
func readCSV(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := csv.NewReader(bufio.NewReaderSize(r, 64<<10))
		in.ReuseRecord = true
		head, err := in.Read()
		if err != nil {
			yield(nil, fmt.Errorf("reading the header of the CSV file: %w", err))
			return
		}
		names := slices.Clone(head)
		if names[len(names)-1] != RowColumn {
			yield(nil, fmt.Errorf("the last column of the CSV file is not %s, so the file is not an export", RowColumn))
			return
		}
		places := make(map[string]int)
		for i, name := range names[:len(names)-1] {
			places[strings.TrimPrefix(name, "'")] = i
		}
		var document pyjson.Document
		values := make([]pyjson.Value, len(names)-1)
		for {
			line, err := in.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("reading the CSV file: %w", err))
				return
			}
			row := []byte(line[len(line)-1])
			if document.ParseLimited(row, maxRowValues) != nil || document.Root().Kind() != pyjson.Object {
				err = ErrCellMismatch
			} else {
				fill(values, places, document.Root())
				for i, v := range values {
					if strings.ReplaceAll(csvCell(v), "\r\n", "\n") != line[i] { // the CSV reader converts line endings in the same way
						err = fmt.Errorf("%w: column %q", ErrCellMismatch, names[i])
						break
					}
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// checkCSV checks that a file is the one that writeCSV writes for its rows.
func checkCSV(file io.Reader, rows Rows) error {
	rest := bufio.NewReaderSize(file, 64<<10)
	if err := WriteRows(sameBytes{rest}, FormatCSV, rows); err != nil {
		return err
	}
	if _, err := rest.Peek(1); !errors.Is(err, io.EOF) {
		return errOtherCSV
	}
	return nil
}

var errOtherCSV = fmt.Errorf("%w: the header or the spelling of the CSV file is not that of an export", ErrCellMismatch)

// sameBytes is a writer that returns errOtherCSV if the bytes differ from those that it reads.
type sameBytes struct{ from io.Reader }

func (s sameBytes) Write(p []byte) (int, error) {
	read := make([]byte, len(p))
	if _, err := io.ReadFull(s.from, read); err != nil || !bytes.Equal(read, p) {
		return 0, errOtherCSV
	}
	return len(p), nil
}

// readNDJSON yields the lines of a file. A line can be as long as an entire response body.
func readNDJSON(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 64<<10), pyjson.MaxSourceBytes)
		for lines.Scan() {
			if !yield(lines.Bytes(), nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}
