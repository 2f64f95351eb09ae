package rowstore

// Page selects a part of a list.
type Page struct {
	Limit int // maximum number of rows, at least 1
	// After is the position that the previous page returned, or nil for the first page.
	After []byte
}

// Limits on what a page may read, including rows that a filter rejects. A page that reaches a limit
// ends with the rows found so far and a position.
const (
	KeysPerRow = 20      // keys for each requested row
	PageBytes  = 4 << 20 // bytes of events, which is about the size of the rows as JSON
)

// Budget limits what a page reads.
type Budget struct {
	from *Reader
	// The page must end when the counts of the reader reach these values.
	keys, bytes int
	rows        int
}

// Budget returns the budget for a page that the reader is about to read.
func (r *Reader) Budget(p Page) Budget {
	return Budget{r, r.touched + KeysPerRow*p.Limit, r.bytes + PageBytes, p.Limit}
}

// IsSpent reports whether a page with this number of rows must end.
func (b *Budget) IsSpent(rows int) bool {
	return rows == b.rows || b.from.touched >= b.keys || b.from.bytes >= b.bytes
}
