package main

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	name   string
	number bool // aligned to the right
}

// table prints rows in aligned columns as they come: a column is as wide as its
// widest cell so far. It has a head once it has a row.
type table struct {
	out     io.Writer
	columns []column
	widths  []int
	rows    int // printed so far
}

func newTable(out io.Writer, columns ...column) *table {
	return &table{out: out, columns: columns}
}

// write prints some rows, each of as many cells as the table has columns.
func (t *table) write(rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	t.rows += len(rows)
	if t.widths == nil {
		t.widths = make([]int, len(t.columns))
		names := make([]string, len(t.columns))
		for i, c := range t.columns {
			names[i] = strings.ToUpper(c.name)
		}
		rows = append([][]string{names}, rows...)
	}
	for _, row := range rows {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell))
			if t.columns[i].number {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(t.out, text.String())
	return err
}

// plain is a text as a cell. What clients chose may hold what a terminal obeys, or
// be nothing that one sees: such a text is quoted.
func plain(text string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if text == "" || strings.ContainsFunc(text, odd) || strings.TrimSpace(text) != text {
		return strconv.Quote(text)
	}
	return text
}

// none stands for null.
const none = "-"

func plainOr(text *string) string {
	if text == nil {
		return none
	}
	return plain(*text)
}

// hash is a hash as a cell: without --full by its first digits, enough to tell it
// from others by eye.
func (d *driftCommand) hash(hash string) string {
	const digits = 12
	if d.full || len(hash) <= digits {
		return plain(hash)
	}
	return plain(hash[:digits]) + "…"
}

func (d *driftCommand) hashOr(hash *string) string {
	if hash == nil {
		return none
	}
	return d.hash(*hash)
}

// counted is a number of things, whose plural ends in s.
func counted(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return decimal(n) + " " + thing + "s"
}
