package rowstore

// Page is the part of an answer that is wanted.
type Page struct {
	Limit int // rows at most, from 1
	// After is the position that the page before gave; nil for the first page.
	After []byte
}

// What a page may read, whether that comes to rows or is turned away by a filter: who
// has read so much stops with the rows found so far and returns a position.
const (
	KeysPerRow = 20      // for each row that is wanted
	PageBytes  = 4 << 20 // of events, which is about what the rows are as JSON
)

// Budget is where a page ends.
type Budget struct {
	from *Reader
	// What the view has touched and read by then.
	keys, bytes int
	rows        int
}

func (r *Reader) Budget(p Page) Budget {
	return Budget{r, r.touched + KeysPerRow*p.Limit, r.bytes + PageBytes, p.Limit}
}

// Spent reports whether a page that has so many rows ends.
func (b *Budget) Spent(rows int) bool {
	return rows == b.rows || b.from.touched >= b.keys || b.from.bytes >= b.bytes
}
