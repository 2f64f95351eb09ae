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

// RunDAG holds the contents of a run-DAG event. The caller owns it.
type RunDAG struct {
	Seq   uint64
	Time  time.Time // time at which it was recorded
	RunID *string   // nil if there is none
	event.DAG
}

// Get returns the run-DAG at seq. It returns storage.ErrNotFound if the event is of another kind or
// is not below the view's size.
func Get(ctx context.Context, v *index.View, seq uint64) (RunDAG, error) {
	e, err := v.EventOfKind(ctx, seq, record.KindRunDAG)
	if err != nil {
		return RunDAG{}, err
	}
	return RunDAG{Seq: seq, Time: e.Time, RunID: index.StringPointer(e.RunID()), DAG: e.DAG()}, nil
}

// Decode decodes the run-DAG in a record. The record must include its body.
func Decode(r *records.Record) (RunDAG, error) {
	var document pyjson.Document
	if err := document.Parse(r.Body); err != nil {
		return RunDAG{}, fmt.Errorf("%w: parsing event %d: %w", rowstore.ErrDamaged, r.Seq, err)
	}
	e := event.Read(document.Root())
	return RunDAG{Seq: r.Seq, Time: r.Time, RunID: r.RunID, DAG: e.DAG()}, nil
}

// Divergence is the first stage in which a run-DAG differs from another one for the same
// question.
type Divergence struct {
	OtherSeq uint64 // seq of the other run-DAG; 0 if there is none
	// Stage is the first diverging stage. It is nil if no stage differs or there is no other
	// run-DAG.
	Stage *string
}

// DivergenceCause is the reason why a run-DAG diverges from another one (spec: Causes of a divergence).
type DivergenceCause struct {
	Cause           string   // name of the cause, as listed in the spec; empty if there is no other run-DAG
	Dimensions      []string // dimensions of the cache key that differ
	DimensionsKnown bool     // whether both run-DAGs have dimensions
}

// Comparison is the first stage in which a run-DAG differs from another one, and the cause of the
// difference.
type Comparison struct {
	Divergence
	DivergenceCause
}

// compare compares a run-DAG with an earlier one. If there is no earlier run-DAG, before.Seq must
// be 0, and the result is empty.
func compare(before, after *RunDAG) (c Comparison) {
	if before.Seq == 0 {
		return c
	}
	c.OtherSeq = before.Seq
	change := drift.CompareStages(before.Stages, after.Stages)
	if len(change.DifferingStages) > 0 {
		c.Stage = new(change.FirstDivergence())
	}
	c.Dimensions, c.DimensionsKnown = drift.DifferingDimensions(before.CacheDimensions, after.CacheDimensions)
	c.DivergenceCause.Cause = change.Cause(c.Dimensions, c.DimensionsKnown)
	return c
}

// CompareWithPrevious compares the run-DAG at seq with the latest earlier run-DAG for the same
// question that was live when the run-DAG at seq was recorded. It returns storage.ErrNotFound if
// the event is of another kind.
func CompareWithPrevious(ctx context.Context, v *index.View, seq uint64) (c Comparison, err error) {
	run, err := Get(ctx, v, seq)
	if err != nil || run.QuestionHash == nil {
		return c, err
	}
	question := rowstore.IdentityOf([]byte(questionName), run.QuestionHash)
	_, value, found, err := v.NewestVersionBelow(questionRuns, question[:], seq)
	if err != nil || !found {
		return c, err
	}
	latest, err := decodeLatestRun(value)
	if err != nil || latest.seq == 0 {
		return c, err
	}
	before, err := Get(ctx, v, latest.seq) // questionRuns does not store dimensions, so read the event
	if err != nil {
		return c, err
	}
	return compare(&before, &run), nil
}

// QuestionRunDAG is a run-DAG for a question, compared with the previous live one.
type QuestionRunDAG struct {
	RunDAG
	State string // one of record.States
	Comparison
}

// ListByQuestion returns the run-DAGs for a question, oldest first. Unless anyState is true, it
// returns only live ones. It compares each run-DAG with the previous live one. A page can have
// fewer rows than its limit, or none, because it ends after reading 20 keys for each requested row.
func ListByQuestion(ctx context.Context, v *index.View, questionHash string, anyState bool, page index.PageRequest) (rows []QuestionRunDAG, next []byte, err error) {
	last, before, err := questionPosition(ctx, v, page)
	if err != nil {
		return nil, nil, err
	}
	id, b := rowstore.IdentityOf([]byte(questionName), []byte(questionHash)), v.Budget(page)
	for r, err := range v.VersionsOldestFirst(records.PostingsDimension, id[:], last+1) {
		if err != nil {
			return nil, nil, err
		}
		if b.IsSpent(len(rows)) {
			return rows, rowstore.AppendSeq(rowstore.AppendSeq(nil, last), before.Seq), nil
		}
		last = r.Seq
		state, err := records.StateOf(v, r.Seq)
		if err != nil {
			return nil, nil, err
		}
		live := state == string(record.StateLive)
		if !live && !anyState {
			continue
		}
		run, err := Get(ctx, v, r.Seq)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, QuestionRunDAG{run, state, compare(&before, &run)})
		if live {
			before = run
		}
	}
	return rows, nil, nil
}

// questionPosition decodes a page position: the seq of the last event of the previous page, and the
// live run-DAG with which the next one is compared.
func questionPosition(ctx context.Context, v *index.View, page index.PageRequest) (last uint64, before RunDAG, err error) {
	if page.After == nil {
		return 0, RunDAG{}, nil
	}
	if len(page.After) != 2*rowstore.SeqSize {
		return 0, RunDAG{}, index.ErrInvalidPosition
	}
	last, _ = rowstore.DecodeSeq(page.After[:rowstore.SeqSize])
	seq, _ := rowstore.DecodeSeq(page.After[rowstore.SeqSize:])
	if last >= v.Size() || seq > last {
		return 0, RunDAG{}, index.ErrInvalidPosition
	}
	if seq == 0 {
		return last, RunDAG{}, nil
	}
	if before, err = Get(ctx, v, seq); errors.Is(err, storage.ErrNotFound) {
		err = index.ErrInvalidPosition
	}
	return last, before, err
}

// FindByCacheKey returns the latest live run-DAG with the given cache key, and the number of other
// live run-DAGs with that key. It ignores run-DAGs without dimensions. It returns
// storage.ErrNotFound if it finds no live run-DAG, or if the live run-DAGs differ in their
// dimensions.
func FindByCacheKey(ctx context.Context, v *index.View, cacheKey string) (run RunDAG, others uint64, err error) {
	var found cachedSet
	key := rowstore.IdentityOf([]byte(cacheKeyName), []byte(cacheKey))
	last := bytes.Repeat([]byte{0xff}, len(cacheRow{})-len(key))
	for r, err := range v.NewestVersionsInRange(cachedRuns, key[:], append(key[:len(key):len(key)], last...), v.Size()) {
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
			return RunDAG{}, 0, fmt.Errorf("the live run-DAGs with cache key %s differ in their dimensions: %w", cacheKey, storage.ErrNotFound)
		}
		found = set
	}
	if found.live == 0 {
		return RunDAG{}, 0, fmt.Errorf("looking up cache key %s: %w", cacheKey, storage.ErrNotFound)
	}
	run, err = Get(ctx, v, found.latest)
	return run, found.live - 1, err
}
