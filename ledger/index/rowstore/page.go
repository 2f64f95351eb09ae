package rowstore

// Page selects a part of a list.
type Page struct {
	Limit int // maximum number of rows, at least 1
	// After is the position that the page before returned; nil for the first page.
	After []byte
}

// A page may read this much, whether or not a filter rejects the rows. Then it ends with the
// rows found so far and a position.
const (
	KeysPerRow = 20      // for each row of the limit
	PageBytes  = 4 << 20 // of events, which is about what the rows are as JSON
)

// Budget bounds what a page reads.
type Budget struct {
	from *Reader
	// The reader's counts at which the page ends.
	keys, bytes int
	rows        int
}

func (r *Reader) Budget(p Page) Budget {
	return Budget{r, r.touched + KeysPerRow*p.Limit, r.bytes + PageBytes, p.Limit}
}

// Spent reports whether a page with that many rows must end.
func (b *Budget) Spent(rows int) bool {
	return rows == b.rows || b.from.touched >= b.keys || b.from.bytes >= b.bytes
}
