package index

// Page is the part of an answer that is wanted.
type Page struct {
	Limit int // rows at most, from 1
	// After is the position that the page before gave; nil for the first page.
	After []byte
}

// budget is the number of keys that a page may touch, filters that reject rows
// included: who comes to it stops with the rows he has and gives a position.
func (p Page) budget() int { return 20 * p.Limit }
