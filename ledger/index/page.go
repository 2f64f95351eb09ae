package index

// Page is the part of an answer that is wanted.
type Page struct {
	Limit int // rows at most, from 1
	// After is the position that the page before gave; nil for the first page.
	After []byte
}

// What a page may read, whether that comes to rows or is turned away by a filter: who
// has read so much stops with the rows he has and gives a position.
const (
	keysPerRow = 20      // for each row that is wanted
	pageBytes  = 4 << 20 // of events, which is about what the rows are as JSON
)

// budget is where a page ends.
type budget struct {
	view *View
	// What the view has touched and read by then.
	keys, bytes int
	rows        int
}

func (v *View) budget(p Page) budget {
	return budget{v, v.touched + keysPerRow*p.Limit, v.bytes + pageBytes, p.Limit}
}

// spent reports whether a page that has so many rows ends.
func (b *budget) spent(rows int) bool {
	return rows == b.rows || b.view.touched >= b.keys || b.view.bytes >= b.bytes
}
