package index

import (
	"bytes"
	"context"
	"errors"
	"slices"

	engine "github.com/cockroachdb/pebble/v2"
)

// ErrNotRanked: rankings are of the live runs at the latest size only.
var ErrNotRanked = errors.New("index: rankings are of the live runs at the latest size only")

// RankedGroups lists groups in the order of a ranking: those that are in it, then all
// others, those of several runs by the number of these, those of one by their first run
// of any state, the newest first. The view must be the latest, and the filter be of live
// runs: ErrNotRanked otherwise. A page may have fewer rows than there are, even none,
// where few groups pass the filter; from one page to the next groups may have moved.
func (v *View) RankedGroups(ctx context.Context, r Ranking, q GroupQuery, p Page) (rows []Group, next []byte, err error) {
	if v.size != v.latest || q.Any {
		return nil, nil, ErrNotRanked
	}
	c, err := v.choice(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	if r == RankedRecent {
		return v.recentGroups(ctx, &c, p)
	}
	w := rankedWalk{view: v, choice: &c, lists: c.lists(r), budget: v.budget(p)}
	at := 0
	if p.After != nil {
		if len(p.After) == 0 || int(p.After[0]) >= len(w.lists) {
			return nil, nil, ErrPosition
		}
		at = int(p.After[0])
	}
	for after := p.After; at < len(w.lists); at++ {
		next, err := w.list(ctx, at, after[min(1, len(after)):])
		if err != nil || next != nil {
			return w.rows, next, err
		}
		after = nil
	}
	return w.rows, nil, nil
}

// singles stands for the list of all groups in place of a ranking: what is in no other.
const singles = rankingCount

// lists are the lists whose groups, one list after the other, are all that a query
// asks for. A group that is in several belongs to the first.
func (q *GroupQuery) lists(r Ranking) []Ranking {
	lists := []Ranking{r}
	if q.MinOutputs < 2 && r != RankedRuns { // several outputs flip
		lists = append(lists, RankedRuns)
	}
	if !q.several() {
		lists = append(lists, singles)
	}
	return lists
}

// several reports whether a query asks for groups of several live runs only.
func (q *GroupQuery) several() bool { return q.MinRuns > 1 || q.MinOutputs > 1 }

// rankedWalk gathers a page of ranked groups.
type rankedWalk struct {
	view   *View
	choice *choice
	lists  []Ranking
	budget budget
	rows   []Group
}

// list goes on with a list behind a place in it, and says where the next page begins:
// the number of the list and the place of the last group that this one is done with;
// nil at the end of the list.
func (w *rankedWalk) list(ctx context.Context, at int, after []byte) (next []byte, err error) {
	keys, family := w.view.keys, identify([]byte(w.choice.By))
	prefix, placeBytes := keys.ranking(nil, family, w.lists[at]), seqBytes+versionBytes
	if w.lists[at] == singles {
		prefix, placeBytes = append(keys.key(nil, families), family[:]...), versionBytes
	}
	lower := prefix
	if len(after) > 0 {
		if len(after) != placeBytes {
			return nil, ErrPosition
		}
		lower = append(slices.Concat(prefix, after), 0)
	}
	it, err := w.view.iterate(lower, behind(prefix, placeBytes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, wrapRead(it.Close())) }()
	next = append([]byte{byte(at)}, after...)
	for ok := it.First(); ok; ok = it.Next() {
		if w.budget.spent(len(w.rows)) {
			return next, nil
		}
		w.view.touched++
		place := it.Key()[len(prefix):]
		next = append(next[:1], place...)
		var id identity
		if w.lists[at] == singles {
			id, err = memberOf(it.Value())
		} else {
			id, err = w.view.memberAt(family, versionOf(place))
		}
		if err != nil {
			return nil, err
		}
		if err := w.take(ctx, at, id); err != nil {
			return nil, err
		}
	}
	return nil, wrapRead(it.Error())
}

// take appends a group if it is wanted and belongs to the list.
func (w *rankedWalk) take(ctx context.Context, at int, id identity) error {
	g, err := w.view.group(id)
	if err != nil {
		return err
	}
	scores := g.scores()
	for _, before := range w.lists[:at] {
		if scores[before] != notRanked {
			return nil
		}
	}
	w.rows, err = w.view.appendKnown(ctx, w.rows, &g, w.choice)
	return err
}

// recentGroups lists groups by their last live run, the latest first: those of
// several runs out of their ranking, those of one, if they are wanted, out of the list
// of all.
func (v *View) recentGroups(ctx context.Context, q *choice, p Page) (rows []Group, next []byte, err error) {
	b := v.budget(p)
	below := q.below
	if p.After != nil {
		after, err := decodeSeq(p.After)
		if err != nil {
			return nil, nil, ErrPosition
		}
		below = min(below, after)
	}
	merged, err := v.recent(q, below)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, merged.close()) }()
	for {
		seq, id, ok, err := merged.next()
		if err != nil || !ok || seq < q.from {
			return rows, nil, err
		}
		if b.spent(len(rows)) {
			return rows, appendSeq(nil, below), nil
		}
		below = seq
		if id != (identity{}) {
			if rows, err = v.appendGroup(ctx, rows, id, q); err != nil {
				return nil, nil, err
			}
		}
	}
}

// recent walks the groups of a family by their last live run. It belongs to the
// view's goroutine and must be closed.
type recent struct {
	view   *View
	family identity
	ranked *engine.Iterator // groups of several runs
	// members are all groups, by their first run; none of them if only groups of
	// several runs are wanted.
	members     *engine.Iterator
	rankedBytes int // of what stands before a score
}

func (v *View) recent(q *choice, below uint64) (*recent, error) {
	keys, family := v.keys, identify([]byte(q.By))
	prefix := keys.ranking(nil, family, RankedRecent)
	lower := appendVersion(bytes.Clone(prefix), max(below, 1)-1) // the score is the version of the last run
	ranked, err := v.iterate(lower, behind(prefix, seqBytes+versionBytes))
	if err != nil {
		return nil, err
	}
	membersBelow := below
	if q.several() {
		membersBelow = 0
	}
	members, err := v.members(family, membersBelow)
	if err != nil {
		return nil, errors.Join(err, ranked.Close())
	}
	ranked.First()
	members.First()
	return &recent{v, family, ranked, members, len(prefix)}, nil
}

// next is a group and its last live run, in falling order. The identity is zero
// where a group has its place elsewhere.
func (r *recent) next() (seq uint64, id identity, ok bool, err error) {
	var rankedSeq, memberSeq uint64 // event 0 is no run
	if r.ranked.Valid() {
		rankedSeq = versionOf(r.ranked.Key()[:r.rankedBytes+versionBytes])
	}
	if r.members.Valid() {
		memberSeq = versionOf(r.members.Key())
	}
	if rankedSeq == 0 && memberSeq == 0 {
		return 0, id, false, wrapRead(errors.Join(r.ranked.Error(), r.members.Error()))
	}
	r.view.touched++
	if rankedSeq >= memberSeq {
		id, err = r.view.memberAt(r.family, versionOf(r.ranked.Key()))
		r.ranked.Next()
		return rankedSeq, id, true, err
	}
	member, err := memberOf(r.members.Value())
	if err != nil {
		return 0, id, false, err
	}
	r.members.Next()
	g, err := r.view.group(member)
	if err == nil && g.all.runs == 1 {
		id = member
	}
	return memberSeq, id, true, err
}

func (r *recent) close() error {
	return wrapRead(errors.Join(r.ranked.Close(), r.members.Close()))
}
