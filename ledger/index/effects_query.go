package index

import (
	"context"
	"encoding/binary"

	"colophon/ledger/index/rowstore"
)

// EffectVariables are the variables of an ipc_id, whose effects can be asked for.
var EffectVariables = [...]string{InputHash, SystemPromptHash, Model, temperatureName, maxTokensName, seedName}

// EffectQuery asks what came of changing a variable from one value to another while
// all others of an ipc_id stayed as they were.
type EffectQuery struct {
	Variable string // one of EffectVariables
	// A and B are the values, numbers as events have them.
	A, B string
	Any  bool // runs of any state, not only live ones
}

// EffectPair is two runs that differ in the variable alone: each is the k-th run of
// its ipc_id.
type EffectPair struct {
	A, B    IPCRecord
	Changed bool // the output
}

// EffectsList lists pairs. Runs take part whose ipc_id is the hash of what they say
// they were made of: that is how its partner is found. A page may have fewer
// pairs than there are, even none, where few ipc_ids have a partner.
func EffectsList(ctx context.Context, v *View, q EffectQuery, p Page) (rows []EffectPair, next []byte, err error) {
	e, err := newWalk(v, q)
	if err != nil {
		return nil, nil, err
	}
	at := effectPosition{condition: e.last}
	if p.After != nil {
		if at, err = decodeEffectPosition(p.After, v.Size()); err != nil {
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
type effects struct {
	view     *View
	query    EffectQuery
	id       rowstore.Identity // of the leading value
	leading  []byte            // that value
	partner  []byte            // the other one
	count    uint64            // of ipc_ids with the leading value
	last     uint64            // newest of their first runs; 0 if there is none
	reversed bool              // the leading side is B
}

func newWalk(v *View, q EffectQuery) (*effects, error) {
	a, b := rowstore.Identify([]byte(q.Variable), []byte(q.A)), rowstore.Identify([]byte(q.Variable), []byte(q.B))
	e := &effects{view: v, query: q, id: a, leading: []byte(q.A), partner: []byte(q.B)}
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
func conditionsOf(v *View, variable string, id rowstore.Identity) (count, last uint64, err error) {
	if IsGrouped(variable) {
		g, err := Newest(v, id)
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
func (e *effects) before(condition uint64) (effectPosition, error) {
	if IsGrouped(e.query.Variable) {
		g, err := VersionAt(e.view, e.id, condition, BringsCondition)
		return effectPosition{condition: g.ConditionBefore}, err
	}
	at, _, found, err := e.view.NewestBelow(conditions, e.id[:], condition+1)
	if err == nil && (!found || at != condition) {
		err = ErrPosition
	}
	if err != nil {
		return effectPosition{}, err
	}
	before, _, _, err := e.view.NewestBelow(conditions, e.id[:], condition)
	return effectPosition{condition: before}, err
}

// appendPair reads the two runs.
func (e *effects) appendPair(ctx context.Context, rows []EffectPair, one paired) ([]EffectPair, error) {
	leading, err := ReadIPCRecord(ctx, e.view, one.leading.seq)
	if err != nil {
		return nil, err
	}
	other, err := ReadIPCRecord(ctx, e.view, one.other.seq)
	if err != nil {
		return nil, err
	}
	pair := EffectPair{leading, other, one.changed()}
	if e.reversed {
		pair.A, pair.B = other, leading
	}
	return append(rows, pair), nil
}

// effectPosition is the ipc_id that a walk is at, by the first run that shows it,
// and where it goes on in the two groups: 0 at their beginning.
type effectPosition struct{ condition, leading, other uint64 }

func (p *effectPosition) append(dst []byte) []byte {
	return rowstore.AppendSeq(rowstore.AppendSeq(rowstore.AppendSeq(dst, p.condition), p.leading), p.other)
}

func decodeEffectPosition(position []byte, size uint64) (effectPosition, error) {
	if len(position) != 3*rowstore.SeqBytes {
		return effectPosition{}, ErrPosition
	}
	p := effectPosition{
		binary.BigEndian.Uint64(position), binary.BigEndian.Uint64(position[rowstore.SeqBytes:]), binary.BigEndian.Uint64(position[2*rowstore.SeqBytes:]),
	}
	if p.condition == 0 || p.condition >= size || max(p.leading, p.other) > size {
		return effectPosition{}, ErrPosition
	}
	return p, nil
}
