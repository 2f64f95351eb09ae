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
var Variables = [...]string{records.NameInput, records.NameInputHash, records.NameSystemPromptHash, records.NameModel, temperatureName, maxTokensName, seedName, records.NameOllamaBuildHash}

// IsVariable reports whether name is a valid Query.Variable.
func IsVariable(name string) bool {
	label, is := strings.CutPrefix(name, records.LabelPrefix)
	_, member := members.NameFromPointer([]byte(name))
	return is && label != "" || member || slices.Contains(Variables[:], name)
}

// Query asks what changed when one variable changed from A to B while all others stayed the same
// (spec: Effects of a variable).
type Query struct {
	Variable string // one of Variables, "label:" followed by the name of a label, or the JSON pointer of a payload member
	// A and B are the two values of the variable. Numbers are written as in events. The values of a
	// payload member are given as digests.
	A, B       string
	AnyState   bool // include runs in any state, not only live ones
	SeededOnly bool // include only runs with a seed
}

// Pair holds two runs that differ only in the query's variable. The k-th run of one combination is
// paired with the k-th run of the other.
type Pair struct {
	A, B          records.IPCRecord // the run with value A, and the run with value B
	OutputChanged bool              // whether the outputs differ
}

// ListPairs returns a page of pairs and the position of the next page, or nil if there is none. If
// few combinations have a partner, a page can have fewer rows than its limit, or none.
func ListPairs(ctx context.Context, v *index.View, q Query, p index.PageRequest) (rows []Pair, next []byte, err error) {
	next, err = page(ctx, v, q, p, func(e *walk, one *runPair) error {
		rows, err = e.appendPair(ctx, rows, one)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return rows, next, nil
}

// page calls add for each pair on a page and returns the position of the next page, or nil if there
// is none.
func page(ctx context.Context, v *index.View, q Query, p index.PageRequest, add func(*walk, *runPair) error) (next []byte, err error) {
	e, at, err := newWalk(v, q)
	if err != nil {
		return nil, err
	}
	if p.After != nil {
		if at, err = e.decodePosition(p.After); err != nil {
			return nil, err
		}
	}
	pairs := 0
	for b := v.Budget(p); at.more(); {
		if b.IsSpent(pairs) {
			return at.append(nil), nil
		}
		match, err := e.match(ctx, at)
		if err != nil {
			return nil, err
		}
		for one, err := range match.walk(&at.runs) {
			if err != nil {
				return nil, err
			}
			if b.IsSpent(pairs) {
				return at.append(nil), nil
			}
			if one.found {
				if err := add(e, &one); err != nil {
					return nil, err
				}
				pairs++
			}
		}
		if at, err = e.after(at); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// walk finds the pairs of a query. It visits the combinations with value A and those with value B
// alternately, each list from newest to oldest by first run. For each combination, it yields the
// pairs with the only possible partner combination, unless it has already visited that partner.
// When either list ends, the walk has yielded all pairs, so it need not know which list is shorter.
type walk struct {
	view  *index.View
	query Query
	name  []byte // name of the variable in events
	lists [2]list
}

// list identifies one of the two lists of combinations: those with value A, or those with value B.
type list struct {
	value []byte
	id    rowstore.Identity // identity of the list
}

// newWalk returns a walk and the position at which it begins.
func newWalk(v *index.View, q Query) (e *walk, at position, err error) {
	e = &walk{view: v, query: q, name: []byte(q.Variable)}
	if isMember(q.Variable) {
		e.name = pyjson.AppendString(nil, e.name)
	}
	for i, value := range [...][]byte{[]byte(q.A), []byte(q.B)} {
		e.lists[i].value = value
		if isMember(q.Variable) {
			e.lists[i].id = memberID(value)
		} else {
			e.lists[i].id = rowstore.IdentityOf(e.name, value)
		}
		if at.next[i], err = e.newest(i); err != nil {
			return nil, at, err
		}
	}
	return e, at, nil
}

// newest returns the seq of the first run of the newest combination in a list, or 0 if the list is
// empty. The parameter of is the index of the list.
func (e *walk) newest(of int) (combination uint64, err error) {
	if records.FormsRunGroups(e.query.Variable) {
		g, err := groups.NewestVersion(e.view, e.lists[of].id)
		return g.LastNewCombinationSeq(), err
	}
	combination, _, _, err = e.view.NewestVersion(e.rows(), e.lists[of].id[:])
	return combination, err
}

// rows returns the dimension that stores the lists of a variable that does not form groups.
func (e *walk) rows() rowstore.Dimension {
	if isMember(e.query.Variable) {
		return memberCombinations
	}
	return valueCombinations
}

// before returns the next older combination in a list, or 0 if the given combination is the oldest.
// It returns ErrInvalidPosition if the list does not contain the given combination.
func (e *walk) before(of int, combination uint64) (uint64, error) {
	id := e.lists[of].id
	if records.FormsRunGroups(e.query.Variable) {
		g, err := groups.VersionAt(e.view, id, combination, groups.FlagNewCombination)
		return g.PrevCombinationSeq, err
	}
	at, _, found, err := e.view.NewestVersionBelow(e.rows(), id[:], combination+1)
	if err == nil && (!found || at != combination) {
		err = index.ErrInvalidPosition
	}
	if err != nil {
		return 0, err
	}
	before, _, _, err := e.view.NewestVersionBelow(e.rows(), id[:], combination)
	return before, err
}

// appendPair reads the two runs of a pair and appends the pair.
func (e *walk) appendPair(ctx context.Context, rows []Pair, one *runPair) ([]Pair, error) {
	a, err := records.ReadIPCRecord(ctx, e.view, one.cursors[0].seq)
	if err != nil {
		return nil, err
	}
	b, err := records.ReadIPCRecord(ctx, e.view, one.cursors[1].seq)
	if err != nil {
		return nil, err
	}
	return append(rows, Pair{a, b, one.changed()}), nil
}

type position struct {
	next [2]uint64 // the next combination of each list; 0 at the end of the list
	turn int       // index of the list to visit next
	// runs holds the seqs at which the walk continues within the current two combinations; both are
	// 0 at the beginning.
	runs [2]uint64
}

// more reports whether there can be more pairs.
func (p *position) more() bool { return p.next[0] != 0 && p.next[1] != 0 }

// after returns the position that comes after the current combination and all of its pairs.
func (e *walk) after(at position) (next position, err error) {
	next = position{next: at.next, turn: 1 - at.turn}
	next.next[at.turn], err = e.before(at.turn, at.next[at.turn])
	return next, err
}

const positionBytes = 4*rowstore.SeqSize + 1

func (p *position) append(dst []byte) []byte {
	for _, seq := range [...]uint64{p.next[0], p.next[1], p.runs[0], p.runs[1]} {
		dst = rowstore.AppendSeq(dst, seq)
	}
	return append(dst, byte(p.turn))
}

// decodePosition decodes the position of a page. It returns ErrInvalidPosition if the position belongs
// to another query.
func (e *walk) decodePosition(after []byte) (position, error) {
	if len(after) != positionBytes || after[positionBytes-1] > 1 {
		return position{}, index.ErrInvalidPosition
	}
	var seqs [4]uint64
	for i := range seqs {
		seqs[i] = binary.BigEndian.Uint64(after[i*rowstore.SeqSize:])
	}
	p := position{next: [2]uint64(seqs[:2]), turn: int(after[positionBytes-1]), runs: [2]uint64(seqs[2:])}
	for of, combination := range p.next {
		if combination == 0 || combination >= e.view.Size() || p.runs[of] > e.view.Size() {
			return position{}, index.ErrInvalidPosition
		}
		if _, err := e.before(of, combination); err != nil {
			return position{}, err
		}
	}
	return p, nil
}
