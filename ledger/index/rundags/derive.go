package rundags

import (
	"context"
	"errors"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Run-DAG values with these names have rows in this family in addition to their postings.
const (
	questionName = "question_hash"
	cacheKeyName = "cache_key"
)

// deriver writes the rows for questions, cache keys, and groups of run-DAGs. It also counts
// failures.
type deriver struct {
	*index.Fold
	recent recentFold
	value  []byte // scratch
}

// Derive implements Deriver.
func (f *deriver) Derive(ctx context.Context, e *index.Event) error {
	if e.Kind != record.KindRunDAG {
		return nil
	}
	return f.runDAG(ctx, e)
}

// BeforeStateChange implements records.StateObserver.
func (f *deriver) BeforeStateChange(ctx context.Context, c records.StateChange) error {
	if c.Target.Kind != record.KindRunDAG {
		return nil
	}
	return f.dagStateChanged(ctx, c.Event, c.Target, c.From, c.To)
}

func (f *deriver) runDAG(ctx context.Context, e *index.Event) error {
	dag := &e.DAG
	if err := f.diverge(ctx, e.Seq, dag); err != nil {
		return err
	}
	f.countRun(e.Seq, dag)
	f.joinGroups(e.Seq, dag)
	if row, served := cacheRowOf(dag); served {
		runs := f.cachedSet(row)
		f.Rows.Set(liveDAGKey(f.Rows.Keyspace, liveOfCacheKey, row[:], e.Seq), nil)
		f.putCachedSet(e.Seq, row, cachedSet{runs.live + 1, e.Seq})
	}
	return nil
}

// diverge compares a run-DAG with the latest live run-DAG for its question, and counts the
// first stage that differs. It then stores the run-DAG as the latest one.
func (f *deriver) diverge(ctx context.Context, seq uint64, dag *event.DAG) error {
	if dag.QuestionHash == nil {
		return nil
	}
	question := rowstore.IdentityOf([]byte(questionName), dag.QuestionHash)
	stages := shortHashes(dag.Stages)
	before := f.latestRun(question)
	if before.seq > 0 {
		if !before.listed {
			e, err := f.ReadEvent(ctx, before.seq)
			if err != nil {
				return err
			}
			earlier := e.DAG()
			before.stages = shortHashes(earlier.Stages)
		}
		change := drift.CompareStages(before.stages, stages)
		f.Counters.Add(counters.SeriesOf(counters.MetricDAGDivergence, stageLabel(&change)), 1)
	}
	f.putLatestRun(seq, question, latestRunOf(seq, stages))
	return nil
}

// noneLabel is the label for run-DAGs without a diverging stage, and for null values.
const noneLabel = "none"

// stageLabel returns a label for the first diverging stage. The number of distinct labels is
// bounded.
func stageLabel(change *drift.StageChange) string {
	switch {
	case len(change.DifferingStages) == 0:
		return noneLabel
	case change.OutcomeDiffers:
		return drift.OutcomeDivergence
	}
	return counters.FieldLabel([]byte(counters.StagePrefix + change.FirstDivergence()))[len(counters.StagePrefix):]
}

// dagStateChanged updates the rows of a run-DAG that becomes live or stops being live.
func (f *deriver) dagStateChanged(ctx context.Context, e, target *event.Event, from, to string) error {
	live := to == string(record.StateLive)
	if live == (from == string(record.StateLive)) {
		return nil
	}
	// changeGroup and changeLive can read stored keys, and keys written in the current batch are
	// not stored yet.
	if err := f.RequireEmptyBatch(); err != nil {
		return err
	}
	dag := target.DAG()
	f.writeLiveness(e.Seq, target.Seq, &dag, live)
	m := memberOf(target.Seq, &dag)
	for _, k := range groupsOf(&dag) {
		latest, err := f.changeGroup(e.Seq, k, &m, live)
		if err == nil && k.by == byQuestion {
			err = f.changeQuestion(ctx, e.Seq, k.id, latest)
		}
		if err != nil {
			return err
		}
	}
	return f.changeCached(e.Seq, target.Seq, &dag, live)
}

// changeQuestion updates the latest live run-DAG of a question.
func (f *deriver) changeQuestion(ctx context.Context, seq uint64, question rowstore.Identity, latest uint64) error {
	if latest == f.latestRun(question).seq {
		return nil
	}
	next := latestRun{listed: true} // seq is 0, which means that no run-DAG is live
	if latest > 0 {
		e, err := f.ReadEvent(ctx, latest)
		if err != nil {
			return err
		}
		decoded := e.DAG()
		next = latestRunOf(latest, shortHashes(decoded.Stages))
	}
	f.putLatestRun(seq, question, next)
	return nil
}

// changeCached updates the row of dag's cache key, which contains the number of live run-DAGs and
// the latest of them.
func (f *deriver) changeCached(seq, target uint64, dag *event.DAG, live bool) error {
	row, served := cacheRowOf(dag)
	if !served {
		return nil
	}
	runs := f.cachedSet(row)
	if runs.live++; !live {
		runs.live -= 2
	}
	var err error
	if runs.latest, err = f.changeLive(liveOfCacheKey, row[:], runs.latest, target, live); err == nil {
		f.putCachedSet(seq, row, runs)
	}
	return err
}

// changeLive adds target to the live run-DAGs that share a row, or removes it if live is false. It
// returns the latest live run-DAG of that row, or 0 if there is none. All earlier events must be
// stored.
func (f *deriver) changeLive(d rowstore.Dimension, shared []byte, latest, target uint64, live bool) (uint64, error) {
	if live {
		f.Rows.Set(liveDAGKey(f.Rows.Keyspace, d, shared, target), nil)
		return max(latest, target), nil
	}
	f.Rows.SingleDelete(liveDAGKey(f.Rows.Keyspace, d, shared, target))
	if target != latest {
		return latest, nil
	}
	return f.liveBefore(d, shared, target)
}

// liveBefore returns the seq of the last live run-DAG before the event at seq, or 0 if there is
// none. It considers only the run-DAGs whose keys in dimension d begin with shared. It does not see
// changes made by the current batch.
func (f *deriver) liveBefore(d rowstore.Dimension, shared []byte, seq uint64) (uint64, error) {
	prefix := append(f.Rows.Keyspace.AppendPrefix(nil, d), shared...)
	return f.findLive(liveDAGKey(f.Rows.Keyspace, d, shared, seq-1), rowstore.UpperBound(prefix, rowstore.VersionSize), (*rowstore.Iterator).First)
}

// liveAfter is like liveBefore, but returns the first live run-DAG after the event at seq.
func (f *deriver) liveAfter(d rowstore.Dimension, shared []byte, seq uint64) (uint64, error) {
	prefix := append(f.Rows.Keyspace.AppendPrefix(nil, d), shared...)
	return f.findLive(prefix, liveDAGKey(f.Rows.Keyspace, d, shared, seq), (*rowstore.Iterator).Last)
}

// findLive uses move to position an iterator over the given range of keys. It returns the seq of
// the run-DAG at that position, or 0 if the range is empty.
func (f *deriver) findLive(lower, upper []byte, move func(*rowstore.Iterator) bool) (seq uint64, err error) {
	it, err := f.Rows.NewIterator(lower, upper)
	if err != nil {
		return 0, err
	}
	f.KeysRead++
	if move(it) {
		seq = rowstore.DecodeVersion(it.Key())
	}
	return seq, errors.Join(it.Err(), it.Close())
}

// liveDAGKey returns the key under which a group or a cache key lists a live run-DAG. Later
// run-DAGs sort first.
func liveDAGKey(k rowstore.Keyspace, d rowstore.Dimension, shared []byte, seq uint64) []byte {
	return rowstore.AppendVersion(append(k.AppendPrefix(nil, d), shared...), seq)
}
