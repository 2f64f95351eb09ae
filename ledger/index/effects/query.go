package effects

import (
	"context"
	"encoding/binary"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Variables are the variables of an ipc_id, whose effects can be asked for.
var Variables = [...]string{records.InputHash, records.SystemPromptHash, records.Model, temperatureName, maxTokensName, seedName}

// Query asks what came of changing a variable from one value to another while
// all others of an ipc_id stayed as they were.
type Query struct {
	Variable string // one of EffectVariables
	// A and B are the values, numbers as events have them.
	A, B string
	Any  bool // runs of any state, not only live ones
}

// Pair is two runs that differ in the variable alone: each is the k-th run of
// its ipc_id.
type Pair struct {
	A, B    records.IPCRecord
	Changed bool // the output
}

// List lists pairs. Runs take part whose ipc_id is the hash of what they say
// they were made of: that is how its partner is found. A page may have fewer
// pairs than there are, even none, where few ipc_ids have a partner.
func List(ctx context.Context, v *index.View, q Query, p index.Page) (rows []Pair, next []byte, err error) {
	e, err := newWalk(v, q)
	if err != nil {
		return nil, nil, err
	}
	at := position{condition: e.last}
	if p.After != nil {
		if at, err = decodePosition(p.After, v.Size()); err != nil {
			return nil, nil, err
		}
		if _, err := e.before(at.condition); err != nil { // it may be of another query
			return nil, nil, err
		}
	}
	for b := v.Budget(p); at.condition != 0; {
		if b.Spent(len(rows)) {
			return rows, at.append(nil), nil
		}
		pair, err := e.pair(ctx, at.condition)
		if err != nil {
			return nil, nil, err
		}
		for one, err := range pair.walk(&at) {
			if err != nil {
				return nil, nil, err
			}
			if b.Spent(len(rows)) {
				return rows, at.append(nil), nil
			}
			if one.found {
				if rows, err = e.appendPair(ctx, rows, one); err != nil {
					return nil, nil, err
				}
			}
		}
		if at, err = e.before(at.condition); err != nil {
			return nil, nil, err
		}
	}
	return rows, nil, nil
}

// effects walks the ipc_ids that have one of the two values, whichever fewer have:
// the leading side.
type walk struct {
	view     *index.View
	query    Query
	id       rowstore.Identity // of the leading value
	leading  []byte            // that value
	partner  []byte            // the other one
	count    uint64            // of ipc_ids with the leading value
	last     uint64            // newest of their first runs; 0 if there is none
	reversed bool              // the leading side is B
}

func newWalk(v *index.View, q Query) (*walk, error) {
	a, b := rowstore.Identify([]byte(q.Variable), []byte(q.A)), rowstore.Identify([]byte(q.Variable), []byte(q.B))
	e := &walk{view: v, query: q, id: a, leading: []byte(q.A), partner: []byte(q.B)}
	fewer, last, err := conditionsOf(v, q.Variable, a)
	if err != nil {
		return nil, err
	}
	more, lastB, err := conditionsOf(v, q.Variable, b)
	if err != nil {
		return nil, err
	}
	if e.count, e.last = fewer, last; more < fewer {
		e.id, e.leading, e.partner, e.count, e.last, e.reversed = b, e.partner, e.leading, more, lastB, true
	}
	return e, nil
}

// conditionsOf is the number of ipc_ids with a value, and the newest of their first
// runs.
func conditionsOf(v *index.View, variable string, id rowstore.Identity) (count, last uint64, err error) {
	if records.IsGrouped(variable) {
		g, err := groups.Newest(v, id)
		return g.Conditions, g.LastCondition(), err
	}
	last, value, found, err := v.Newest(conditions, id[:])
	if err != nil || !found {
		return 0, 0, err
	}
	count, _ = binary.Uvarint(value)
	return count, last, nil
}

// before is the beginning of the ipc_id that came before another; ErrPosition if
// there is no such other.
func (e *walk) before(condition uint64) (position, error) {
	if records.IsGrouped(e.query.Variable) {
		g, err := groups.VersionAt(e.view, e.id, condition, groups.AddsCondition)
		return position{condition: g.ConditionBefore}, err
	}
	at, _, found, err := e.view.NewestBelow(conditions, e.id[:], condition+1)
	if err == nil && (!found || at != condition) {
		err = index.ErrPosition
	}
	if err != nil {
		return position{}, err
	}
	before, _, _, err := e.view.NewestBelow(conditions, e.id[:], condition)
	return position{condition: before}, err
}

// appendPair reads the two runs.
func (e *walk) appendPair(ctx context.Context, rows []Pair, one paired) ([]Pair, error) {
	leading, err := records.ReadIPCRecord(ctx, e.view, one.leading.seq)
	if err != nil {
		return nil, err
	}
	other, err := records.ReadIPCRecord(ctx, e.view, one.other.seq)
	if err != nil {
		return nil, err
	}
	pair := Pair{leading, other, one.changed()}
	if e.reversed {
		pair.A, pair.B = other, leading
	}
	return append(rows, pair), nil
}

// position is the ipc_id that a walk is at, by the first run that shows it,
// and where it goes on in the two groups: 0 at their beginning.
type position struct{ condition, leading, other uint64 }

func (p *position) append(dst []byte) []byte {
	return rowstore.AppendSeq(rowstore.AppendSeq(rowstore.AppendSeq(dst, p.condition), p.leading), p.other)
}

func decodePosition(after []byte, size uint64) (position, error) {
	if len(after) != 3*rowstore.SeqBytes {
		return position{}, index.ErrPosition
	}
	p := position{
		binary.BigEndian.Uint64(after), binary.BigEndian.Uint64(after[rowstore.SeqBytes:]), binary.BigEndian.Uint64(after[2*rowstore.SeqBytes:]),
	}
	if p.condition == 0 || p.condition >= size || max(p.leading, p.other) > size {
		return position{}, index.ErrPosition
	}
	return p, nil
}
