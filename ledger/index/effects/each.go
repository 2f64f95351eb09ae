package effects

import (
	"cmp"
	"context"

	"colophon/ledger/index"
)

// PairSeqs holds the seqs of the two runs of a pair.
type PairSeqs struct{ A, B uint64 }

// EachPair calls visit for every pair, in the order of List. It reads the same rows as Count.
func EachPair(ctx context.Context, v *index.View, q Query, visit func(PairSeqs)) error {
	e, at, err := newWalk(v, q)
	if err != nil {
		return err
	}
	return e.each(ctx, at, func(one *paired) { visit(PairSeqs{one.sides[0].seq, one.sides[1].seq}) })
}

// each calls visit for every pair at or after a position.
func (e *walk) each(ctx context.Context, at position, visit func(*paired)) error {
	for at.more() {
		pair, err := e.pair(ctx, at)
		if err == nil {
			err = pair.each(ctx, visit)
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

// each calls visit for every pair of runs of two combinations.
func (p *matched) each(ctx context.Context, visit func(*paired)) error {
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
