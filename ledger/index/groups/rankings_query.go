package groups

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// ErrNotRanked means that the view is not at the latest size or that the query also counts runs
// that are not live.
var ErrNotRanked = errors.New("index: rankings exist only for live runs at the latest size")

// ListRanked returns groups in the order of a ranking. Groups outside the ranking follow: first
// those with several runs, by number of runs; then those with one run, by first run in any state,
// newest first. RankingByLastRun instead orders all groups by their last live run. ListRanked returns
// ErrNotRanked unless the view is the latest and the query counts only live runs. If few groups
// match the query, a page can have fewer rows than its limit, or none. Groups can move to another
// page between two requests.
func ListRanked(ctx context.Context, v *index.View, r Ranking, q Query, p index.PageRequest) (rows []Group, next []byte, err error) {
	if !v.IsLatest() || q.AnyState {
		return nil, nil, ErrNotRanked
	}
	c, err := resolve(v, q)
	if err != nil {
		return nil, nil, err
	}
	if r == RankingByLastRun {
		return listRecent(ctx, v, &c, p)
	}
	w := rankedWalk{view: v, query: &c, lists: c.lists(r), budget: v.Budget(p)}
	at := 0
	if p.After != nil {
		if len(p.After) == 0 || int(p.After[0]) >= len(w.lists) {
			return nil, nil, index.ErrInvalidPosition
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

// singles is not a ranking. In rankedWalk.lists, it stands for the list of all groups.
const singles = rankingCount

// lists returns the lists that ListRanked reads, in order. Together, they contain all groups that
// the query can select. A group in several lists is returned only from the first of them.
func (q *Query) lists(r Ranking) []Ranking {
	lists := []Ranking{r}
	if q.MinOutputs < 2 && r != RankingByRuns { // groups with several outputs are in every ranking, because they also have flips
		lists = append(lists, RankingByRuns)
	}
	if !q.several() {
		lists = append(lists, singles)
	}
	return lists
}

// several reports whether a query selects only groups with several live runs.
func (q *Query) several() bool { return q.MinRuns > 1 || q.MinOutputs > 1 }

// rankedWalk collects a page of ranked groups.
type rankedWalk struct {
	view   *index.View
	query  *resolvedQuery
	lists  []Ranking
	budget rowstore.Budget
	rows   []Group
}

// list adds the groups in w.lists[at] to the page, starting after the given position in that list.
// next is the position of the next page, which consists of at and the position of the last group
// read. It is nil if the end of the list has been reached.
func (w *rankedWalk) list(ctx context.Context, at int, after []byte) (next []byte, err error) {
	if w.lists[at] == singles {
		return w.members(ctx, at, after)
	}
	const placeBytes = rowstore.SeqSize + rowstore.VersionSize
	family := rowstore.IdentityOf([]byte(w.query.GroupBy))
	prefix := rankingKey(w.view.Keyspace, nil, family, w.lists[at])
	lower := prefix
	if len(after) > 0 {
		if len(after) != placeBytes {
			return nil, index.ErrInvalidPosition
		}
		lower = append(slices.Concat(prefix, after), 0)
	}
	it, err := w.view.NewIterator(lower, rowstore.UpperBound(prefix, placeBytes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	next = append([]byte{byte(at)}, after...)
	for ok := it.First(); ok; ok = it.Next() {
		if w.budget.IsSpent(len(w.rows)) {
			return next, nil
		}
		w.view.AddReads(1, 0)
		place := it.Key()[len(prefix):]
		next = append(next[:1], place...)
		id, err := memberAt(w.view, family, rowstore.DecodeVersion(place))
		if err != nil {
			return nil, err
		}
		if err := w.take(ctx, at, id); err != nil {
			return nil, err
		}
	}
	return nil, it.Err()
}

// members is like list, for the list of all groups instead of a ranking.
func (w *rankedWalk) members(ctx context.Context, at int, after []byte) (next []byte, err error) {
	family, below := rowstore.IdentityOf([]byte(w.query.GroupBy)), w.view.Size()
	if len(after) > 0 {
		if below, err = rowstore.DecodeSeq(after); err != nil || below > w.view.Size() {
			return nil, index.ErrInvalidPosition
		}
	}
	for member, err := range w.view.VersionsNewestFirst(families, family[:], below) {
		if err != nil {
			return nil, err
		}
		if w.budget.IsSpent(len(w.rows)) {
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

// take appends a group if the query selects it and no earlier list contains it.
func (w *rankedWalk) take(ctx context.Context, at int, id rowstore.Identity) error {
	g, err := NewestVersion(w.view, id)
	if err != nil {
		return err
	}
	scores := g.scores()
	for _, before := range w.lists[:at] {
		if scores[before] != notRanked {
			return nil
		}
	}
	w.rows, err = appendKnown(ctx, w.view, w.rows, &g, w.query)
	return err
}

// listRecent returns groups ordered by their last live runs, latest first. It reads the ranking,
// which contains the groups with several runs. If the query also selects groups with one run, it
// merges the ranking with the list of all groups.
func listRecent(ctx context.Context, v *index.View, q *resolvedQuery, p index.PageRequest) (rows []Group, next []byte, err error) {
	b := v.Budget(p)
	below := q.below
	if p.After != nil {
		after, err := rowstore.DecodeSeq(p.After)
		if err != nil {
			return nil, nil, index.ErrInvalidPosition
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
		if b.IsSpent(len(rows)) {
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

// recent walks the groups of a family ordered by their last live runs, latest first. It is not safe
// for concurrent use, and must be closed.
type recent struct {
	view        *index.View
	family      rowstore.Identity
	ranked      *rowstore.Iterator // groups with several runs
	rankedBytes int                // length of a key up to the score
	// members visits the groups whose first run is below membersBelow, newest first. membersBelow
	// is 0 when no group is left, or if the query selects only groups with several runs.
	members      *rowstore.VersionSeeker
	membersBelow uint64
}

func newRecent(v *index.View, q *resolvedQuery, below uint64) (*recent, error) {
	keys, family := v.Keyspace, rowstore.IdentityOf([]byte(q.GroupBy))
	prefix := rankingKey(keys, nil, family, RankingByLastRun)
	lower := rowstore.AppendVersion(bytes.Clone(prefix), max(below, 1)-1) // the score is the last run, encoded as a version
	ranked, err := v.NewIterator(lower, rowstore.UpperBound(prefix, rowstore.SeqSize+rowstore.VersionSize))
	if err != nil {
		return nil, err
	}
	if q.several() {
		below = 0
	}
	ranked.First()
	return &recent{v, family, ranked, len(prefix), v.NewVersionSeeker(families, family[:]), below}, nil
}

// next returns the next group and its last live run, latest first. The identity is zero if the
// caller must skip the group, because groups with several runs come from the ranking.
func (r *recent) next() (seq uint64, id rowstore.Identity, ok bool, err error) {
	var rankedSeq uint64 // 0 if there is none; event 0 is never a run
	if r.ranked.Valid() {
		rankedSeq = rowstore.DecodeVersion(r.ranked.Key()[:r.rankedBytes+rowstore.VersionSize])
	} else if err := r.ranked.Err(); err != nil {
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
		r.view.AddReads(1, 0)
		id, err = memberAt(r.view, r.family, rowstore.DecodeVersion(r.ranked.Key()))
		r.ranked.Next()
		return rankedSeq, id, true, err
	}
	if id, err = memberOf(member.Value); err != nil {
		return 0, id, false, err
	}
	r.membersBelow = member.Seq
	g, err := NewestVersion(r.view, id)
	if g.AllTally.Runs != 1 {
		id = rowstore.Identity{}
	}
	return member.Seq, id, true, err
}

// member returns the group with the newest first run that members has not visited yet, or the zero
// Version if there is none.
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
