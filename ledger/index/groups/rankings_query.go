package groups

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// ErrNotRanked: rankings are of the live runs at the latest size only.
var ErrNotRanked = errors.New("index: rankings are of the live runs at the latest size only")

// ListRanked lists groups in the order of a ranking: those that are in it, then all
// others, those of several runs by the number of these, those of one by their first run
// of any state, the newest first. The view must be the latest, and the filter be of live
// runs: ErrNotRanked otherwise. A page may have fewer rows than there are, even none,
// where few groups pass the filter; from one page to the next groups may have moved.
func ListRanked(ctx context.Context, v *index.View, r Ranking, q Query, p index.Page) (rows []Group, next []byte, err error) {
	if !v.IsLatest() || q.Any {
		return nil, nil, ErrNotRanked
	}
	c, err := choiceOf(v, q)
	if err != nil {
		return nil, nil, err
	}
	if r == RankedRecent {
		return listRecent(ctx, v, &c, p)
	}
	w := rankedWalk{view: v, choice: &c, lists: c.lists(r), budget: v.Budget(p)}
	at := 0
	if p.After != nil {
		if len(p.After) == 0 || int(p.After[0]) >= len(w.lists) {
			return nil, nil, index.ErrPosition
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
func (q *Query) lists(r Ranking) []Ranking {
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
func (q *Query) several() bool { return q.MinRuns > 1 || q.MinOutputs > 1 }

// rankedWalk gathers a page of ranked groups.
type rankedWalk struct {
	view   *index.View
	choice *choice
	lists  []Ranking
	budget rowstore.Budget
	rows   []Group
}

// list goes on with a list behind a place in it, and says where the next page begins:
// the number of the list and the place of the last group that this one is done with;
// nil at the end of the list.
func (w *rankedWalk) list(ctx context.Context, at int, after []byte) (next []byte, err error) {
	if w.lists[at] == singles {
		return w.members(ctx, at, after)
	}
	const placeBytes = rowstore.SeqBytes + rowstore.VersionBytes
	family := rowstore.Identify([]byte(w.choice.By))
	prefix := rankingKey(w.view.Keys, nil, family, w.lists[at])
	lower := prefix
	if len(after) > 0 {
		if len(after) != placeBytes {
			return nil, index.ErrPosition
		}
		lower = append(slices.Concat(prefix, after), 0)
	}
	it, err := w.view.Iterate(lower, rowstore.UpperBound(prefix, placeBytes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	next = append([]byte{byte(at)}, after...)
	for ok := it.First(); ok; ok = it.Next() {
		if w.budget.Spent(len(w.rows)) {
			return next, nil
		}
		w.view.Count(1, 0)
		place := it.Key()[len(prefix):]
		next = append(next[:1], place...)
		id, err := memberAt(w.view, family, rowstore.VersionOf(place))
		if err != nil {
			return nil, err
		}
		if err := w.take(ctx, at, id); err != nil {
			return nil, err
		}
	}
	return nil, it.Error()
}

// members is list for the list of all groups.
func (w *rankedWalk) members(ctx context.Context, at int, after []byte) (next []byte, err error) {
	family, below := rowstore.Identify([]byte(w.choice.By)), w.view.Size()
	if len(after) > 0 {
		if below, err = rowstore.DecodeSeq(after); err != nil || below > w.view.Size() {
			return nil, index.ErrPosition
		}
	}
	for member, err := range w.view.Descend(families, family[:], below) {
		if err != nil {
			return nil, err
		}
		if w.budget.Spent(len(w.rows)) {
			return rowstore.AppendSeq([]byte{byte(at)}, below), nil
		}
		below = member.Seq
		id, err := memberOf(member.Value)
		if err != nil {
			return nil, err
		}
		if err := w.take(ctx, at, id); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// take appends a group if it is wanted and belongs to the list.
func (w *rankedWalk) take(ctx context.Context, at int, id rowstore.Identity) error {
	g, err := Newest(w.view, id)
	if err != nil {
		return err
	}
	scores := g.scores()
	for _, before := range w.lists[:at] {
		if scores[before] != notRanked {
			return nil
		}
	}
	w.rows, err = appendKnown(ctx, w.view, w.rows, &g, w.choice)
	return err
}

// listRecent lists groups by their last live run, the latest first: those of
// several runs out of their ranking, those of one, if they are wanted, out of the list
// of all.
func listRecent(ctx context.Context, v *index.View, q *choice, p index.Page) (rows []Group, next []byte, err error) {
	b := v.Budget(p)
	below := q.below
	if p.After != nil {
		after, err := rowstore.DecodeSeq(p.After)
		if err != nil {
			return nil, nil, index.ErrPosition
		}
		below = min(below, after)
	}
	merged, err := newRecent(v, q, below)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, merged.close()) }()
	for {
		seq, id, ok, err := merged.next()
		if err != nil || !ok || seq < q.from {
			return rows, nil, err
		}
		if b.Spent(len(rows)) {
			return rows, rowstore.AppendSeq(nil, below), nil
		}
		below = seq
		if id != (rowstore.Identity{}) {
			if rows, err = appendGroup(ctx, v, rows, id, q); err != nil {
				return nil, nil, err
			}
		}
	}
}

// recent walks the groups of a family by their last live run. It belongs to the
// view's goroutine and must be closed.
type recent struct {
	view        *index.View
	family      rowstore.Identity
	ranked      *rowstore.Iterator // groups of several runs
	rankedBytes int                // of what stands before a score
	// members are all groups, by their first run, of which those below a seq are left;
	// 0 if only groups of several runs are wanted.
	members      *rowstore.Descent
	membersBelow uint64
}

func newRecent(v *index.View, q *choice, below uint64) (*recent, error) {
	keys, family := v.Keys, rowstore.Identify([]byte(q.By))
	prefix := rankingKey(keys, nil, family, RankedRecent)
	lower := rowstore.AppendVersion(bytes.Clone(prefix), max(below, 1)-1) // the score is the version of the last run
	ranked, err := v.Iterate(lower, rowstore.UpperBound(prefix, rowstore.SeqBytes+rowstore.VersionBytes))
	if err != nil {
		return nil, err
	}
	if q.several() {
		below = 0
	}
	ranked.First()
	return &recent{v, family, ranked, len(prefix), v.Descent(families, family[:]), below}, nil
}

// next is a group and its last live run, in falling order. The identity is zero
// where a group has its place elsewhere.
func (r *recent) next() (seq uint64, id rowstore.Identity, ok bool, err error) {
	var rankedSeq uint64 // event 0 is no run
	if r.ranked.Valid() {
		rankedSeq = rowstore.VersionOf(r.ranked.Key()[:r.rankedBytes+rowstore.VersionBytes])
	} else if err := r.ranked.Error(); err != nil {
		return 0, id, false, err
	}
	member, err := r.member()
	if err != nil {
		return 0, id, false, err
	}
	if rankedSeq == 0 && member.Seq == 0 {
		return 0, id, false, nil
	}
	if rankedSeq >= member.Seq {
		r.view.Count(1, 0)
		id, err = memberAt(r.view, r.family, rowstore.VersionOf(r.ranked.Key()))
		r.ranked.Next()
		return rankedSeq, id, true, err
	}
	if id, err = memberOf(member.Value); err != nil {
		return 0, id, false, err
	}
	r.membersBelow = member.Seq
	g, err := Newest(r.view, id)
	if g.All.Runs != 1 {
		id = rowstore.Identity{}
	}
	return member.Seq, id, true, err
}

// member is the newest of the members that are left; nothing if none is.
func (r *recent) member() (member rowstore.Version, err error) {
	if r.membersBelow > 0 {
		member, _, err = r.members.Seek(r.membersBelow - 1)
	}
	if member.Seq == 0 {
		r.membersBelow = 0
	}
	return member, err
}

func (r *recent) close() error {
	return errors.Join(r.ranked.Close(), r.members.Close())
}
