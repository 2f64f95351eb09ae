package cli

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type Column struct {
	name   string
	number bool // right-aligned
}

// Table prints rows in aligned columns as they arrive. A column is as wide as its widest cell
// so far. The header is printed with the first row.
type Table struct {
	out      io.Writer
	columns  []Column
	widths   []int
	RowCount int // rows printed so far
}

func NewTable(out io.Writer, columns ...Column) *Table {
	return &Table{out: out, columns: columns}
}

// WriteRows prints rows. Each row must have one cell per column.
func (t *Table) WriteRows(rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	t.RowCount += len(rows)
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

// QuoteCell returns text in a form that can be printed as a table cell. It quotes the text if it is
// empty, begins or ends with white space, or contains unprintable characters.
func QuoteCell(text string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if text == "" || strings.ContainsFunc(text, odd) || strings.TrimSpace(text) != text {
		return strconv.Quote(text)
	}
	return text
}

// NoValueCell is the cell for a missing value.
const NoValueCell = "-"

// QuoteOptionalCell is like QuoteCell, but returns NoValueCell if text is nil.
func QuoteOptionalCell(text *string) string {
	if text == nil {
		return NoValueCell
	}
	return QuoteCell(*text)
}

// TextColumn returns a left-aligned column.
func TextColumn(name string) Column { return Column{name: name} }

// NumberColumn returns a right-aligned column.
func NumberColumn(name string) Column { return Column{name: name, number: true} }
