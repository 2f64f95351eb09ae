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

// RankedGroups lists the groups that are in a ranking, in its order. The view must
// be the latest, and the filter be of live runs: ErrNotRanked otherwise. In a
// ranking by last run the groups of a single run have their place too. A page may
// have fewer rows than there are, even none, where few groups pass the filter; from
// one page to the next groups may have moved.
func (v *View) RankedGroups(ctx context.Context, r Ranking, q GroupQuery, p Page) (rows []Group, next []byte, err error) {
	if v.size != v.latest || q.Any {
		return nil, nil, ErrNotRanked
	}
	c, err := v.choice(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	end := v.touched + p.budget()
	if r == RankedRecent {
		return v.recentGroups(ctx, &c, p, end)
	}
	prefix := v.follower.fold.rows.keys.ranking(nil, identify([]byte(q.By)), r)
	upper := behind(prefix, seqBytes+len(identity{}))
	lower := prefix
	if p.After != nil {
		if len(p.After) != seqBytes+len(identity{}) {
			return nil, nil, ErrPosition
		}
		lower = append(slices.Concat(prefix, p.After), 0)
	}
	it, err := v.iterate(lower, upper)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, wrapRead(it.Close())) }()
	var place []byte // of the group that was looked at last
	for ok := it.First(); ok; ok = it.Next() {
		if len(rows) == p.Limit || v.touched >= end {
			return rows, place, nil
		}
		v.touched++
		place = append(place[:0], it.Key()[len(prefix):]...)
		if rows, err = v.appendGroup(ctx, rows, identity(place[seqBytes:]), &c); err != nil {
			return nil, nil, err
		}
	}
	return rows, nil, wrapRead(it.Error())
}

// recentGroups lists groups by their last live run, the latest first: those of
// several runs out of their ranking, those of one out of the list of all.
func (v *View) recentGroups(ctx context.Context, q *choice, p Page, end int) (rows []Group, next []byte, err error) {
	below := q.below
	if p.After != nil {
		after, err := decodeSeq(p.After)
		if err != nil {
			return nil, nil, ErrPosition
		}
		below = min(below, after)
	}
	merged, err := v.recent(identify([]byte(q.By)), below)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, merged.close()) }()
	for {
		seq, id, ok, err := merged.next()
		if err != nil || !ok || seq < q.from {
			return rows, nil, err
		}
		if len(rows) == p.Limit || v.touched >= end {
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
	view            *View
	ranked, members *engine.Iterator // groups of several runs; all, by their first run
	rankedBytes     int              // of what stands before a score
}

func (v *View) recent(family identity, below uint64) (*recent, error) {
	keys := v.follower.fold.rows.keys
	prefix := keys.ranking(nil, family, RankedRecent)
	lower := appendVersion(bytes.Clone(prefix), max(below, 1)-1) // the score is the version of the last run
	ranked, err := v.iterate(lower, behind(prefix, seqBytes+len(identity{})))
	if err != nil {
		return nil, err
	}
	members, err := v.members(family, below)
	if err != nil {
		return nil, errors.Join(err, ranked.Close())
	}
	ranked.First()
	members.First()
	return &recent{v, ranked, members, len(prefix)}, nil
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
		id = identity(r.ranked.Key()[r.rankedBytes+seqBytes:])
		r.ranked.Next()
		return rankedSeq, id, true, nil
	}
	member := identity(r.members.Value())
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
