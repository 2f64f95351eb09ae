package rowstore

// PageRequest selects a part of a list.
type PageRequest struct {
	Limit int // maximum number of rows, at least 1
	// After is the position that the previous page returned, or nil for the first page.
	After []byte
}

// These limits bound what a page can read, including rows that a filter rejects. A page that
// reaches a limit ends. It returns the rows found so far and the position of the next page.
const (
	MaxKeysReadPerRow = 20      // keys that a page can read for each requested row
	MaxPageBytes      = 4 << 20 // bytes of events that a page can read; its rows as JSON have about this size
)

// Budget limits what a page reads.
type Budget struct {
	from *Reader
	// The page must end when the reader has counted this many keys or bytes of events.
	keys, bytes int
	rows        int
}

// Budget returns the budget for a page that the reader is about to read.
func (r *Reader) Budget(p PageRequest) Budget {
	return Budget{r, r.touched + MaxKeysReadPerRow*p.Limit, r.bytes + MaxPageBytes, p.Limit}
}

// IsSpent reports whether a page must end after the given number of rows.
func (b *Budget) IsSpent(rows int) bool {
	return rows == b.rows || b.from.touched >= b.keys || b.from.bytes >= b.bytes
}
