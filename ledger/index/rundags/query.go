package rundags

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/storage"
)

// RunDAG is what a run-DAG's event says. The caller owns it.
type RunDAG struct {
	Seq   uint64
	Time  time.Time // when it was recorded
	RunID *string
	event.DAG
}

// Get returns the run-DAG at seq; storage.ErrNotFound if the event is of another kind or the
// view does not see it.
func Get(ctx context.Context, v *index.View, seq uint64) (RunDAG, error) {
	e, err := v.EventOfKind(ctx, seq, record.RunDAG)
	if err != nil {
		return RunDAG{}, err
	}
	return RunDAG{Seq: seq, Time: e.Time, RunID: index.TextOf(e.RunID()), DAG: e.DAG()}, nil
}

// Decode returns the run-DAG of a listed record that has its body.
func Decode(r *records.Record) (RunDAG, error) {
	var document pyjson.Document
	if err := document.Parse(r.Body); err != nil {
		return RunDAG{}, fmt.Errorf("%w: event %d: %w", rowstore.ErrDamaged, r.Seq, err)
	}
	e := event.Read(document.Root())
	return RunDAG{Seq: r.Seq, Time: r.Time, RunID: r.RunID, DAG: e.DAG()}, nil
}

// Divergence is where a run-DAG begins to differ from another one of its question.
type Divergence struct {
	Against uint64 // the other run-DAG; 0 if there is none
	// Stage is the first diverging stage; nil if none differs or there is no other run-DAG.
	Stage *string
}

// Cause is why a run-DAG diverges from another one (spec: Causes of a divergence).
type Cause struct {
	Cause      string   // "" if there is no other run-DAG
	Dimensions []string // of the cache key that differ
	Known      bool     // both run-DAGs have dimensions
}

func causeOf(before, after *RunDAG) (c Cause) {
	if before.Seq == 0 {
		return c
	}
	change := drift.CompareStages(before.Stages, after.Stages)
	c.Dimensions, c.Known = drift.CompareDimensions(before.Dimensions, after.Dimensions)
	c.Cause = change.Cause(c.Dimensions, c.Known)
	return c
}

func divergenceOf(against uint64, before, after []event.Stage) Divergence {
	d := Divergence{Against: against}
	if against == 0 {
		return d
	}
	if change := drift.CompareStages(before, after); len(change.Differing) > 0 {
		stage := change.First()
		d.Stage = &stage
	}
	return d
}

// DivergenceOf compares the run-DAG at seq with the latest one of its question that was live
// when it was recorded. It returns storage.ErrNotFound if the event is of another kind.
func DivergenceOf(ctx context.Context, v *index.View, seq uint64) (Divergence, error) {
	run, err := Get(ctx, v, seq)
	if err != nil || run.QuestionHash == nil {
		return Divergence{}, err
	}
	question := rowstore.Identify([]byte(questionName), run.QuestionHash)
	_, value, found, err := v.NewestBelow(questionRuns, question[:], seq)
	if err != nil || !found {
		return Divergence{}, err
	}
	before, err := decodeLatestRun(value)
	if err != nil || before.seq == 0 {
		return Divergence{}, err
	}
	if before.listed {
		return divergenceOf(before.seq, before.stages, shortHashes(run.Stages)), nil
	}
	earlier, err := Get(ctx, v, before.seq)
	return divergenceOf(before.seq, earlier.Stages, run.Stages), err
}

// QuestionRun is a run-DAG of a question, compared with the live one before it.
type QuestionRun struct {
	RunDAG
	State string
	Divergence
	Cause
}

// OfQuestion returns the live run-DAGs of a question, or, with any, those of every state. The
// oldest comes first, and each is compared with the live one before it. A page may have fewer
// rows than its limit, even none: it ends after 20 keys for each row of the limit.
func OfQuestion(ctx context.Context, v *index.View, questionHash string, any bool, page index.Page) (rows []QuestionRun, next []byte, err error) {
	last, before, err := questionPosition(ctx, v, page)
	if err != nil {
		return nil, nil, err
	}
	id, b := rowstore.Identify([]byte(questionName), []byte(questionHash)), v.Budget(page)
	for r, err := range v.Ascend(records.Postings, id[:], last+1) {
		if err != nil {
			return nil, nil, err
		}
		if b.Spent(len(rows)) {
			return rows, rowstore.AppendSeq(rowstore.AppendSeq(nil, last), before.Seq), nil
		}
		last = r.Seq
		state, err := records.State(v, r.Seq)
		if err != nil {
			return nil, nil, err
		}
		live := state == string(record.Live)
		if !live && !any {
			continue
		}
		run, err := Get(ctx, v, r.Seq)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, QuestionRun{run, state, divergenceOf(before.Seq, before.Stages, run.Stages), causeOf(&before, &run)})
		if live {
			before = run
		}
	}
	return rows, nil, nil
}

// questionPosition decodes a position: the last event of the page before, and the live run-DAG
// with which the next one is compared.
func questionPosition(ctx context.Context, v *index.View, page index.Page) (last uint64, before RunDAG, err error) {
	if page.After == nil {
		return 0, RunDAG{}, nil
	}
	if len(page.After) != 2*rowstore.SeqBytes {
		return 0, RunDAG{}, index.ErrPosition
	}
	last, _ = rowstore.DecodeSeq(page.After[:rowstore.SeqBytes])
	seq, _ := rowstore.DecodeSeq(page.After[rowstore.SeqBytes:])
	if last >= v.Size() || seq > last {
		return 0, RunDAG{}, index.ErrPosition
	}
	if seq == 0 {
		return last, RunDAG{}, nil
	}
	if before, err = Get(ctx, v, seq); errors.Is(err, storage.ErrNotFound) {
		err = index.ErrPosition
	}
	return last, before, err
}

// Cached returns the latest live run-DAG of a cache key and the number of other live ones.
// Only run-DAGs with all dimensions of the key count. It returns storage.ErrNotFound if there
// is none, or if their dimensions differ.
func Cached(ctx context.Context, v *index.View, cacheKey string) (run RunDAG, others uint64, err error) {
	var found cachedSet
	key := rowstore.Identify([]byte(cacheKeyName), []byte(cacheKey))
	last := bytes.Repeat([]byte{0xff}, len(cacheRow{})-len(key))
	for r, err := range v.Between(cachedRuns, key[:], append(key[:len(key):len(key)], last...), v.Size()) {
		if err != nil {
			return RunDAG{}, 0, err
		}
		set, err := decodeCachedSet(r.Value)
		if err != nil {
			return RunDAG{}, 0, err
		}
		if set.live == 0 {
			continue
		}
		if found.live > 0 {
			return RunDAG{}, 0, fmt.Errorf("the live runs of cache key %s differ in their dimensions: %w", cacheKey, storage.ErrNotFound)
		}
		found = set
	}
	if found.live == 0 {
		return RunDAG{}, 0, fmt.Errorf("cache key %s: %w", cacheKey, storage.ErrNotFound)
	}
	run, err = Get(ctx, v, found.latest)
	return run, found.live - 1, err
}
