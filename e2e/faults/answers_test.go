package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rundags"
	"colophon/ledger/index/runs"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/storage"
)

// freshAnswers returns the answers of a new index that has read the whole log without faults.
func freshAnswers(ctx context.Context, log storage.Reader, size uint64) (all map[string]string, err error) {
	fresh, err := query.OpenIndex(index.Config{Dir: "index", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler), MemoryBytes: index.MinMemoryBytes})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	follower, err := fresh.Refold(ctx, ledger.DefaultName, log, size, func(uint64) {})
	if err != nil {
		return nil, err
	}
	defer follower.Close()
	return answers(ctx, follower, size)
}

// answers returns an index's answers to queries of every kind, keyed by query.
func answers(ctx context.Context, f *index.Follower, size uint64) (all map[string]string, err error) {
	v, err := f.View(size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	q := queries{all: make(map[string]string)}
	ask(&q, "records", func(p index.PageRequest) ([]records.Record, []byte, error) {
		return records.List(ctx, v, records.Filter{}, p)
	})
	ask(&q, "records with bodies", func(p index.PageRequest) ([]records.Record, []byte, error) {
		return records.List(ctx, v, records.Filter{IncludeBodies: true}, p)
	})
	ask(&q, "records by occurrence", func(p index.PageRequest) ([]records.Record, []byte, error) {
		return records.ListByOccurrence(ctx, v, records.Filter{Kind: record.KindIPCRecord}, p)
	})
	for name, filter := range map[string]records.Filter{
		"notes": {Kind: record.KindNote}, "stale records": {State: record.StateStale}, "run-DAGs by mode": {Kind: record.KindRunDAG, Values: []records.Value{{Name: "audit_mode", Text: "STRICT"}}},
		"notes on a topic": {Kind: record.KindNote, Values: []records.Value{{Name: records.NameTopic, Text: "topic-1"}}},
		"incomplete":       {Values: []records.Value{{Name: records.NameIncomplete, Text: "seed"}}},
		"inconsistent":     {Values: []records.Value{{Name: records.NameFlag, Text: "inconsistent"}}},
		"other base":       {Values: []records.Value{{Name: records.NameFlag, Text: "other_base"}}},
	} {
		ask(&q, name, func(p index.PageRequest) ([]records.Record, []byte, error) { return records.List(ctx, v, filter, p) })
	}
	ask(&q, "redactions", func(p index.PageRequest) ([]records.Record, []byte, error) {
		return records.List(ctx, v, records.Filter{Kind: record.KindContentRedacted}, p)
	})
	for _, by := range []string{"ipc_id", "input", "input_hash", "system_prompt_hash", "output_hash", "model", "label:step"} {
		group := groups.Query{GroupBy: by}
		ask(&q, "groups by "+by, func(p index.PageRequest) ([]groups.Group, []byte, error) { return groups.List(ctx, v, group, p) })
		ask(&q, "ranked by "+by, func(p index.PageRequest) ([]groups.Group, []byte, error) {
			return groups.ListRanked(ctx, v, groups.RankingByFlips, group, p)
		})
	}
	of := groups.RunQuery{Value: records.Value{Name: "model", Text: "model-0"}}
	ask(&q, "timeline", func(p index.PageRequest) ([]runs.TimelineStep, []byte, error) { return runs.Timeline(ctx, v, of, p) })
	ask(&q, "effects", func(p index.PageRequest) ([]effects.Pair, []byte, error) {
		return effects.ListPairs(ctx, v, effects.Query{Variable: "model", A: "model-0", B: "model-1"}, p)
	})
	for n := range subjects {
		ask(&q, fmt.Sprint("citation drift ", n), func(p index.PageRequest) ([]citations.Drift, []byte, error) {
			return citations.ListDrift(ctx, v, fmt.Sprintf("subject-%d", n), p)
		})
	}
	ask(&q, "conflicts", func(p index.PageRequest) ([]citations.Conflict, []byte, error) { return citations.ListConflicts(v, p) })
	ask(&q, "sources", func(p index.PageRequest) ([]citations.SourceDetail, []byte, error) {
		return citations.ListSources(ctx, v, p)
	})
	ask(&q, "projects", func(p index.PageRequest) ([]paths.Project, []byte, error) { return paths.ListProjects(v, p) })
	for n := range projects {
		project := fmt.Sprintf("project-%d", n)
		ask(&q, "paths of "+project, func(p index.PageRequest) ([]paths.ListedPath, []byte, error) {
			return paths.List(ctx, v, project, paths.Filter{}, p)
		})
		ask(&q, "builds of "+project, func(p index.PageRequest) ([]paths.Build, []byte, error) { return paths.ListBuilds(ctx, v, project, p) })
	}
	failures, err := rundags.CountOutcomes(ctx, v, index.TimeRange{}, false)
	q.note("failures", failures, err)
	q.note("counters", counters.TallyOf(f), nil)
	return q.all, q.err
}

// queries collects the answers to queries, and any errors.
type queries struct {
	all map[string]string
	err error
}

func (q *queries) note(name string, answer any, err error) {
	var text []byte
	if err == nil {
		text, err = json.Marshal(answer)
	}
	if errors.Is(err, paths.ErrNotFound) {
		text, err = []byte("no such path"), nil
	}
	q.all[name] = string(text)
	if err != nil {
		q.err = errors.Join(q.err, fmt.Errorf("query %s: %w", name, err))
	}
}

// ask reads all pages of a query and adds their rows to q as one answer.
func ask[T any](q *queries, name string, query func(index.PageRequest) ([]T, []byte, error)) {
	var all []T
	for page := (index.PageRequest{Limit: 100}); ; {
		rows, next, err := query(page)
		all = append(all, rows...)
		if err != nil || next == nil {
			q.note(name, all, err)
			return
		}
		page.After = next
	}
}

// naive compares some of the index's answers with values that are computed directly from the
// events.
func (o *oracle) naive(f *index.Follower) error {
	records := make(map[string]uint64)
	runs := make(map[string]uint64) // number of live runs of each model
	dead := make(map[uint64]bool)
	for _, e := range o.events {
		seq, err := f.FindByHash(o.ctx, e.hash, 0)
		if err != nil || seq != e.seq {
			return fmt.Errorf("the index finds event %d at seq %d: %w", e.seq, seq, err)
		}
		if _, posted := routes[e.body.Kind]; posted {
			records[string(e.body.Kind)]++
		}
		if e.body.Kind == record.KindRecordStateChanged {
			dead[e.body.Record.RecordSeq] = e.body.Record.State != record.StateLive
		}
	}
	for _, e := range o.events {
		if e.body.Kind == record.KindIPCRecord && !dead[e.seq] {
			runs[e.body.Record.Model]++
		}
	}
	if counted := counters.TallyOf(f).RecordsByKind; !sameCounts(counted, records) {
		return fmt.Errorf("the index counts the records %v, but the log has %v", counted, records)
	}
	v, err := f.LatestView()
	if err != nil {
		return err
	}
	return errors.Join(o.naiveView(v, runs), v.Close())
}

// sameCounts reports whether two maps of counters are equal. A missing counter is equal to 0.
func sameCounts(a, b map[string]uint64) bool {
	nonzero := func(m map[string]uint64) map[string]uint64 {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(_ string, n uint64) bool { return n == 0 })
		return m
	}
	return maps.Equal(nonzero(a), nonzero(b))
}

func (o *oracle) naiveView(v *index.View, runs map[string]uint64) error {
	for model, n := range runs {
		group, _, err := groups.Get(o.ctx, v, groups.RunQuery{Value: records.Value{Name: "model", Text: model}})
		if err != nil || group.Runs != n {
			return fmt.Errorf("model %s has %d runs in the index, but %d in the log: %w", model, group.Runs, n, err)
		}
	}
	for _, a := range o.attempts[max(0, len(o.attempts)-20):] {
		if !a.isRecord() {
			continue
		}
		filter := records.Filter{Values: []records.Value{{Name: "label:attempt", Text: strconv.Itoa(a.id)}}}
		rows, _, err := records.List(o.ctx, v, filter, index.PageRequest{Limit: 10})
		if err != nil || len(rows) != len(o.found[a.id]) {
			return fmt.Errorf("attempt %d is listed %d times, but the log has it %d times: %w", a.id, len(rows), len(o.found[a.id]), err)
		}
		for i, e := range o.found[a.id] { // found is in the order of the log, but rows is newest first
			if row := rows[len(rows)-1-i]; row.Seq != e.seq || row.EventHash != e.hash {
				return fmt.Errorf("attempt %d, event %d, is listed as event %d", a.id, e.seq, row.Seq)
			}
		}
	}
	return nil
}
