package index

import (
	"context"
	"errors"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/record"
)

// Names of values that run-DAGs are found by and that have rows of their own.
const (
	questionName = "question_hash"
	cacheKeyName = "cache_key"
)

// runDAG folds a run-DAG.
func (f *fold) runDAG(_ context.Context, e *event.Event) error {
	dag := e.DAG()
	f.collect(e)
	for _, stage := range dag.Stages {
		f.post(stagePrefix+string(stage.Name), stage.Hash)
	}
	f.writePostings(e, nil)
	f.diverge(e.Seq, &dag)
	f.countRun(e.Seq, &dag)
	if row, served := cacheRowOf(&dag); served {
		runs := f.cachedSet(row)
		f.putCachedSet(e.Seq, row, cachedSet{runs.live + 1, e.Seq})
	}
	return nil
}

// diverge counts where a run-DAG begins to differ from the latest live one before it
// with its question, and makes it the latest.
func (f *fold) diverge(seq uint64, dag *event.DAG) {
	if dag.QuestionHash == nil {
		return
	}
	question := identify([]byte(questionName), dag.QuestionHash)
	stages := digested(dag.Stages)
	before := f.latestRun(question)
	if before.seq > 0 {
		change := drift.CompareStages(before.stages, stages)
		f.count(seriesOf(divergenceTotal, stageLabel(&change)), 1)
	}
	f.putLatestRun(seq, question, latestRun{seq, stages})
}

// noStage labels run-DAGs of which no stage differs, and what they say nothing of.
const noStage = "none"

// stageLabel bounds the name of the first diverging stage.
func stageLabel(change *drift.StageChange) string {
	if len(change.Differing) == 0 {
		return noStage
	}
	return fieldLabel([]byte(stagePrefix + change.First()))[len(stagePrefix):]
}

// restateDAG folds what a change of state does to a run-DAG: only whether it is live
// matters.
func (f *fold) restateDAG(ctx context.Context, e, target *event.Event, from, to string) error {
	live := to == string(record.Live)
	if live == (from == string(record.Live)) {
		return nil
	}
	// Those before the target may be ranged over.
	if err := f.settled(); err != nil {
		return err
	}
	dag := target.DAG()
	f.withdraw(e.Seq, target.Seq, &dag, live)
	if err := f.restateQuestion(ctx, e.Seq, target.Seq, &dag, live); err != nil {
		return err
	}
	return f.restateCached(ctx, e.Seq, target.Seq, &dag, live)
}

// restateQuestion finds the latest live run-DAG of a question anew.
func (f *fold) restateQuestion(ctx context.Context, seq, target uint64, dag *event.DAG, live bool) error {
	if dag.QuestionHash == nil {
		return nil
	}
	question := identify([]byte(questionName), dag.QuestionHash)
	latest := f.latestRun(question)
	switch {
	case live && target > latest.seq:
		f.putLatestRun(seq, question, latestRun{target, digested(dag.Stages)})
	case !live && target == latest.seq:
		before, err := f.liveBefore(ctx, question, target, func(*event.DAG) bool { return true })
		if err != nil {
			return err
		}
		latest = latestRun{}
		if before != nil {
			said := before.DAG()
			latest = latestRun{before.Seq, digested(said.Stages)}
		}
		f.putLatestRun(seq, question, latest)
	}
	return nil
}

// restateCached counts the live run-DAGs of a cache key, and finds the latest anew.
func (f *fold) restateCached(ctx context.Context, seq, target uint64, dag *event.DAG, live bool) error {
	row, served := cacheRowOf(dag)
	if !served {
		return nil
	}
	runs := f.cachedSet(row)
	if live {
		f.putCachedSet(seq, row, cachedSet{runs.live + 1, max(runs.latest, target)})
		return nil
	}
	runs.live--
	if runs.latest == target {
		key := identify([]byte(cacheKeyName), dag.CacheKey)
		before, err := f.liveBefore(ctx, key, target, func(other *event.DAG) bool {
			its, served := cacheRowOf(other)
			return served && its == row
		})
		if err != nil {
			return err
		}
		runs.latest = 0
		if before != nil {
			runs.latest = before.Seq
		}
	}
	f.putCachedSet(seq, row, runs)
	return nil
}

// liveBefore is the latest live run-DAG before an event that is found by a value and is
// wanted; nil if there is none. All that precedes the event in the making is stored.
func (f *fold) liveBefore(ctx context.Context, id identity, seq uint64, wanted func(*event.DAG) bool) (found *event.Event, err error) {
	it, err := f.rows.engine.NewIter(nil)
	if err != nil {
		return nil, wrapRead(err)
	}
	defer func() { err = errors.Join(err, wrapRead(it.Close())) }()
	key := appendVersion(append(f.rows.keys.key(nil, postings), id[:]...), seq-1)
	for valid := it.SeekPrefixGE(key); valid; valid = it.Next() {
		at := versionOf(it.Key())
		if f.stateOf(at) != string(record.Live) {
			continue
		}
		e, err := f.target(ctx, seq, at)
		if err != nil {
			return nil, err
		}
		if e == nil || e.Kind != record.RunDAG {
			continue
		}
		if dag := e.DAG(); wanted(&dag) {
			return e, nil
		}
	}
	return nil, wrapRead(it.Error())
}
