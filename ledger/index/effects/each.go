package effects

import (
	"cmp"
	"context"

	"colophon/ledger/index"
)

// PairPage holds the pairs on the first page of ListPairs.
type PairPage struct {
	Totals              // totals of the pairs on this page only
	Seqs    [][2]uint64 // seqs of the two runs of each pair
	HasMore bool        // whether there are further pages
}

// FirstPage returns the pairs on the first page of ListPairs, without reading their events.
func FirstPage(ctx context.Context, v *index.View, q Query, limit int) (b PairPage, err error) {
	b.TreeSize = v.Size()
	next, err := page(ctx, v, q, index.PageRequest{Limit: limit}, func(_ *walk, one *runPair) error {
		b.add(one)
		b.Seqs = append(b.Seqs, [2]uint64{one.cursors[0].seq, one.cursors[1].seq})
		return nil
	})
	b.HasMore = next != nil
	return b, err
}

// each calls visit for every pair at or after the given position.
func (e *walk) each(ctx context.Context, at position, visit func(*runPair)) error {
	for at.more() {
		match, err := e.match(ctx, at)
		if err == nil {
			err = match.each(ctx, visit)
		}
		if err != nil {
			return err
		}
		if at, err = e.after(at); err != nil {
			return err
		}
	}
	return nil
}

// each calls visit for every pair of runs in the two combinations.
func (p *matchedCombinations) each(ctx context.Context, visit func(*runPair)) error {
	var from [2]uint64
	for one, err := range p.walk(&from) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if one.found {
			visit(&one)
		}
	}
	return nil
}
