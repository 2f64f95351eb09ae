package rundags

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// Group describes the run-DAGs whose field GroupQuery.Field has the same value (spec: Groups of
// run-DAGs).
type Group struct {
	Value string // hash that the run-DAGs share
	// Runs is the number of run-DAGs, and DistinctAnswers is the number of different answers.
	// Run-DAGs without an answer count only in Runs.
	Runs, DistinctAnswers     uint64
	FirstRunSeq, LastRunSeq   uint64         // seqs of the first and the last run-DAG
	FirstRunTime, LastRunTime time.Time      // times at which these two were recorded
	OutcomeCounts             []OutcomeCount // sorted by shape, audit_mode, and failure_stage
}

// GroupQuery selects groups of run-DAGs.
type GroupQuery struct {
	Field           string // one of GroupFields
	AnyState        bool   // count run-DAGs in any state, not only live ones
	index.TimeRange        // the last run-DAG of a group must be in this time range
	MinRuns         uint64 // groups with fewer run-DAGs are left out
}

// ErrNotLatest means that ListGroupsByLastRun was called with a view that is not the latest, or
// with a query that counts run-DAGs that are not live.
var ErrNotLatest = errors.New("index: groups can be sorted by last run-DAG only for live run-DAGs at the latest size")

// groupWalk collects one page of groups.
type groupWalk struct {
	view        *index.View
	query       GroupQuery
	by          byte
	from, below uint64 // the seq of a group's last run-DAG must be >= from and < below
	budget      rowstore.Budget
	rows        []Group
}

func newGroupWalk(v *index.View, q GroupQuery, p index.PageRequest) (*groupWalk, error) {
	by := slices.Index(GroupFields[:], q.Field)
	if by < 0 {
		return nil, fmt.Errorf("run-DAGs cannot be grouped by %q", q.Field)
	}
	from, below, err := v.SeqRange(q.TimeRange)
	return &groupWalk{view: v, query: q, by: byte(by), from: from, below: below, budget: v.Budget(p)}, err
}

// ListGroups returns groups, sorted by each group's first run-DAG in any state, newest first. A
// page can have fewer rows than its limit, or none, if few groups match the query.
func ListGroups(ctx context.Context, v *index.View, q GroupQuery, p index.PageRequest) (rows []Group, next []byte, err error) {
	w, err := newGroupWalk(v, q, p)
	if err != nil {
		return nil, nil, err
	}
	below := v.Size()
	if p.After != nil {
		if below, err = rowstore.DecodeSeq(p.After); err != nil || below > v.Size() {
			return nil, nil, index.ErrInvalidPosition
		}
	}
	for listed, err := range v.VersionsNewestFirst(groupLists, []byte{w.by}, below) {
		if err != nil {
			return nil, nil, err
		}
		if w.budget.IsSpent(len(w.rows)) {
			return w.rows, rowstore.AppendSeq(nil, below), nil
		}
		below = listed.Seq
		g, err := w.read(listed.Value)
		if err == nil {
			err = w.take(ctx, &g)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return w.rows, nil, nil
}

// ListGroupsByLastRun returns groups, sorted by each group's last live run-DAG, newest first. It
// reads no group whose last live run-DAG is outside the time range, except groups whose only
// run-DAG is not live. It returns ErrNotLatest unless the view is the latest and the query counts
// only live run-DAGs. A group can move in the list between the requests for two pages.
func ListGroupsByLastRun(ctx context.Context, v *index.View, q GroupQuery, p index.PageRequest) (rows []Group, next []byte, err error) {
	if !v.IsLatest() || q.AnyState {
		return nil, nil, ErrNotLatest
	}
	w, err := newGroupWalk(v, q, p)
	if err != nil {
		return nil, nil, err
	}
	below := w.below
	if p.After != nil {
		after, err := rowstore.DecodeSeq(p.After)
		if err != nil {
			return nil, nil, index.ErrInvalidPosition
		}
		below = min(below, after)
	}
	prefix := append(v.Keyspace.AppendPrefix(nil, recentGroups), w.by)
	several, err := v.NewIterator(recentKey(v.Keyspace, w.by, max(below, 1)-1), rowstore.UpperBound(prefix, rowstore.VersionSize))
	if err != nil {
		return nil, nil, err
	}
	// recentGroups omits groups of one run-DAG, so find those in groupLists.
	listed := v.NewVersionSeeker(groupLists, []byte{w.by})
	defer func() { err = errors.Join(err, several.Close(), listed.Close()) }()
	several.First()
	for below > w.from {
		var one rowstore.Version
		if one, _, err = listed.Seek(below - 1); err != nil {
			return nil, nil, err
		}
		last, single := one.Seq, true // 0 if none: event 0 is never a run-DAG
		if several.Valid() {
			if seq := rowstore.DecodeVersion(several.Key()); seq >= last {
				last, single = seq, false
			}
		}
		if err := several.Err(); err != nil {
			return nil, nil, err
		}
		if last == 0 || last < w.from {
			break
		}
		if w.budget.IsSpent(len(w.rows)) {
			return w.rows, rowstore.AppendSeq(nil, below), nil
		}
		below = last
		id := one.Value
		if !single {
			v.AddReads(1, 0)
			if id, err = several.Value(); err != nil {
				return nil, nil, err
			}
		}
		g, err := w.read(id)
		if err == nil && single == (g.all.runs == 1) {
			err = w.take(ctx, &g)
		}
		if err != nil {
			return nil, nil, err
		}
		if !single {
			several.Next()
		}
	}
	return w.rows, nil, nil
}

// read reads the newest version of a listed group.
func (w *groupWalk) read(id []byte) (group, error) {
	if len(id) != len(rowstore.Identity{}) {
		return group{}, fmt.Errorf("%w: cannot decode the ID of a group of run-DAGs from %x", rowstore.ErrDamaged, id)
	}
	_, value, found, err := w.view.NewestVersion(groupVersions, id)
	if err != nil {
		return group{}, err
	}
	if !found {
		return group{}, fmt.Errorf("%w: run-DAG group %x is in the list of groups, but its values are missing", rowstore.ErrDamaged, id)
	}
	return decodeGroup(value)
}

// take appends a group if the query selects it.
func (w *groupWalk) take(ctx context.Context, g *group) error {
	t := g.live
	if w.query.AnyState {
		t = g.all
	}
	if t.runs == 0 || t.runs < w.query.MinRuns || t.last < w.from || t.last >= w.below {
		return nil
	}
	last, err := Get(ctx, w.view, t.last)
	if err != nil {
		return err
	}
	row := Group{Value: string(*last.HashField(w.query.Field)), Runs: t.runs, DistinctAnswers: t.answers, FirstRunSeq: t.first, LastRunSeq: t.last, LastRunTime: last.Time}
	if row.FirstRunTime, err = w.view.RecordedAt(t.first); err != nil {
		return err
	}
	counts := make(map[outcome]uint64)
	for _, v := range g.outcomes {
		if counts[v.outcome] = v.live; w.query.AnyState {
			counts[v.outcome] = v.all
		}
	}
	row.OutcomeCounts = sortedFailures(counts)
	w.rows = append(w.rows, row)
	return nil
}
