package effects

import (
	"context"

	"colophon/ledger/index"
)

// Seqs are the seqs of the two runs of a pair.
type Seqs struct{ A, B uint64 }

// Each calls visit for every pair, in the order of List. It reads the same rows as Count.
func Each(ctx context.Context, v *index.View, q Query, visit func(Seqs)) error {
	e, err := newWalk(v, q)
	if err != nil {
		return err
	}
	for at := (position{condition: e.last}); at.condition != 0; {
		pair, err := e.pair(ctx, at.condition)
		if err != nil {
			return err
		}
		for one, err := range pair.walk(&at) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			switch {
			case !one.found:
			case e.reversed:
				visit(Seqs{one.other.seq, one.leading.seq})
			default:
				visit(Seqs{one.leading.seq, one.other.seq})
			}
		}
		if at, err = e.before(at.condition); err != nil {
			return err
		}
	}
	return nil
}
