package effects

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
)

// Variables are the possible values of Query.Variable, in addition to labels and payload
// members.
var Variables = [...]string{records.Input, records.InputHash, records.SystemPromptHash, records.Model, temperatureName, maxTokensName, seedName}

// IsVariable reports whether a name is a valid Query.Variable.
func IsVariable(name string) bool {
	label, is := strings.CutPrefix(name, records.LabelPrefix)
	_, member := members.Name([]byte(name))
	return is && label != "" || member || slices.Contains(Variables[:], name)
}

// Query asks what changed when one variable changed from A to B while all others stayed the same
// (spec: Effects of a variable).
type Query struct {
	Variable string // one of Variables, "label:" and the name of a label, or the JSON pointer of a payload member
	// A and B are the values. Numbers are in the form of events; the values of members are
	// digests.
	A, B   string
	Any    bool // runs of any state, not only live ones
	Seeded bool // only runs with a seed
}

// Pair is two runs that differ in the variable only. Both are the k-th run of their
// combinations, for the same k.
type Pair struct {
	A, B    records.IPCRecord
	Changed bool // whether the outputs differ
}

// List returns pairs. A page can have fewer rows than its limit, or none, if few combinations
// have a partner.
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
		if _, err := e.before(at.condition); err != nil { // fails if the position belongs to another query
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

// walk goes through the combinations with one of the two values. The leading value is the one
// with fewer combinations.
type walk struct {
	view     *index.View
	query    Query
	name     []byte            // of the variable in identities
	id       rowstore.Identity // of the leading value
	otherID  rowstore.Identity // of the other value
	leading  []byte            // the leading value
	partner  []byte            // the other value
	count    uint64            // number of combinations with the leading value
	last     uint64            // the newest first run of these; 0 if there is none
	reversed bool              // the leading side is B
}

func newWalk(v *index.View, q Query) (*walk, error) {
	name := []byte(q.Variable)
	if isMember(q.Variable) {
		name = pyjson.AppendString(nil, name) // as in events
	}
	a, b := rowstore.Identify(name, []byte(q.A)), rowstore.Identify(name, []byte(q.B))
	e := &walk{view: v, query: q, name: name, id: a, otherID: b, leading: []byte(q.A), partner: []byte(q.B)}
	fewer, last, err := conditionsOf(v, q.Variable, a)
	if err != nil {
		return nil, err
	}
	more, lastB, err := conditionsOf(v, q.Variable, b)
	if err != nil {
		return nil, err
	}
	if e.count, e.last = fewer, last; more < fewer {
		e.id, e.otherID, e.leading, e.partner, e.count, e.last, e.reversed = b, a, e.partner, e.leading, more, lastB, true
	}
	return e, nil
}

// conditionsOf returns the number of combinations with a value, and the newest of their first
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

// before returns the position of the previous combination in the list, or ErrPosition if
// condition is not in the list.
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

// appendPair reads the two runs of a pair and appends it.
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

// position is a position of a walk: the first run of a combination, and the seqs at which the
// walk continues in the combination and in its partner. These seqs are 0 at the beginning.
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
