package effects

import (
	"cmp"
	"context"
	"errors"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/storage"
)

// Totals counts the pairs of a query as of a tree size.
type Totals struct {
	// Pairs is the number of all pairs. ChangedPairs is the number of pairs whose outputs differ, and
	// UnchangedPairs is the number of pairs whose outputs are equal.
	Pairs, ChangedPairs, UnchangedPairs uint64
	TreeSize                            uint64 // number of events that the counts cover
}

// CountPairs counts all pairs of a query. It reads about as many keys as ListPairs reads for all
// pages together, but no events. known holds the query's totals at another size, or is nil. If
// there are fewer events between the two sizes than combinations, CountPairs counts only the
// combinations that these events affect. It counts them at both sizes and adds the difference to
// known.
func CountPairs(ctx context.Context, v *index.View, q Query, known *Totals) (Totals, error) {
	e, at, err := newWalk(v, q)
	if err != nil {
		return Totals{}, err
	}
	if known != nil {
		more, err := e.hasMore(ctx, at, max(v.Size(), known.TreeSize)-min(v.Size(), known.TreeSize))
		if err != nil {
			return Totals{}, err
		}
		if more {
			return e.countFrom(ctx, *known)
		}
	}
	t := Totals{TreeSize: v.Size()}
	return t, e.each(ctx, at, t.add)
}

// hasMore reports whether each of the two lists has more than the given number of combinations.
func (e *walk) hasMore(ctx context.Context, at position, combinations uint64) (more bool, err error) {
	for range 2 * combinations {
		if err = cmp.Or(err, ctx.Err()); err != nil || !at.more() {
			return false, err
		}
		at, err = e.after(at)
	}
	return at.more(), err
}

// CountPairsFrom is like CountPairs, but always starts from known, however many events lie between
// the two sizes.
func CountPairsFrom(ctx context.Context, v *index.View, q Query, known Totals) (Totals, error) {
	e, _, err := newWalk(v, q)
	if err != nil {
		return Totals{}, err
	}
	return e.countFrom(ctx, known)
}

// add counts a pair.
func (t *Totals) add(pair *runPair) {
	t.Pairs++
	if pair.changed() {
		t.ChangedPairs++
	} else {
		t.UnchangedPairs++
	}
}

// countFrom returns the totals at the view's size, derived from the totals at another size.
func (e *walk) countFrom(ctx context.Context, known Totals) (Totals, error) {
	touched, err := e.touched(ctx, min(known.TreeSize, e.view.Size()), max(known.TreeSize, e.view.Size()))
	if err != nil {
		return Totals{}, err
	}
	now, then := Totals{TreeSize: e.view.Size()}, Totals{TreeSize: known.TreeSize}
	for _, t := range [...]*Totals{&now, &then} {
		if err := e.countThese(ctx, touched, t); err != nil {
			return Totals{}, err
		}
	}
	now.Pairs += known.Pairs - then.Pairs
	now.ChangedPairs += known.ChangedPairs - then.ChangedPairs
	now.UnchangedPairs += known.UnchangedPairs - then.UnchangedPairs
	return now, nil
}

// touched returns the combinations with value A or B that the events between two sizes affect. An
// event affects a combination if it adds a run to it or changes the state of one of its runs.
func (e *walk) touched(ctx context.Context, from, to uint64) (map[combinations]bool, error) {
	touched := make(map[combinations]bool)
	var decoder event.Decoder
	for entry, err := range e.view.Entries(ctx, from) {
		if err != nil {
			return nil, err
		}
		if entry.Seq >= to {
			break
		}
		e.view.AddReads(1, 0)
		decoded, err := decoder.Decode(entry.Bytes)
		if err != nil {
			return nil, err
		}
		switch decoded.Kind {
		case record.KindIPCRecord:
			ipc := decoded.IPC()
			e.touch(touched, &ipc, e.hasValue(&decoded, &ipc))
		case record.KindRecordStateChanged:
			// A record that is not found can be ignored. If it is not an IPC record, no pair
			// contains it. If it does not exist, the fold ignores the change too. If its seq is not
			// below the view's size, its own event is between the two sizes.
			run, err := records.ReadIPCRecord(ctx, e.view, decoded.StateChange().RecordSeq)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return nil, err
			}
			if err == nil {
				// The labels of the run are not available here. It does no harm to add
				// combinations that do not have the label.
				e.touch(touched, &run.IPC, e.isLabel() || e.isValue(e.valueOf(&run.IPC)))
			}
		}
	}
	return touched, nil
}

// touch adds the combinations of a run to touched if the query counts the run. has says whether the
// run has one of the two values.
func (e *walk) touch(touched map[combinations]bool, ipc *event.IPC, has bool) {
	if has && !(e.query.SeededOnly && ipc.Seed == nil) {
		touched[e.combinationsOf(*ipc)] = true
	}
}

// hasValue reports whether a run has value A or value B.
func (e *walk) hasValue(decoded *event.Event, ipc *event.IPC) bool {
	if !e.isLabel() {
		return e.isValue(e.valueOf(ipc))
	}
	for name, value := range decoded.Labels() {
		if records.LabelPrefix+string(name) == e.query.Variable {
			return e.isValue(value)
		}
	}
	return false
}

func (e *walk) isValue(value []byte) bool {
	return string(value) == e.query.A || string(value) == e.query.B
}

// countThese counts the pairs of the given combinations at the size t.TreeSize.
func (e *walk) countThese(ctx context.Context, these map[combinations]bool, t *Totals) error {
	view := e.view
	defer view.SetSize(view.Size())
	view.SetSize(t.TreeSize)
	for ids := range these {
		match := e.matchOf(ids)
		if err := match.each(ctx, t.add); err != nil {
			return err
		}
	}
	return nil
}
