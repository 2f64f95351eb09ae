package reference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"colophon/client/wire"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/effects"
	"colophon/ledger/query"
	"colophon/proofs"
	"colophon/storage"
)

// Config configures an Answerer. All fields are required.
type Config struct {
	Dir    string // folder for the files of the index
	Origin string // origin of the log, which appears in the text of each checkpoint
	// ReadTile reads a tile of the log's verified tree, which may cover more entries than are
	// readable. ReadTile must be safe for concurrent use.
	ReadTile func(level uint8, index uint64) ([]byte, error)
	// Progress is called while AdvanceTo indexes entries.
	Progress func(indexed, size uint64)
	Logger   *slog.Logger
}

// Answerer answers questions from the copy of a log as a correct server of this version would.
// Each answer is a value that can be encoded as JSON. A *query.Error, index.ErrInvalidPosition, or
// proofs.ErrRange means that a server would refuse the question, too. The methods that answer
// questions are safe for concurrent use.
type Answerer struct {
	log      *Log
	store    *index.Store
	index    *index.Follower
	totals   effects.Cache
	progress func(indexed, size uint64)
}

// MaxPageRows is the maximum number of rows on a page.
const MaxPageRows = 1000

// indexMemory is the memory limit of the index in bytes.
const indexMemory = 96 << 20

// Open returns an Answerer for a copy of a log. Closing the Answerer does not close the copy. The
// caller must call AdvanceTo before asking questions.
func Open(log *Log, c Config) (*Answerer, error) {
	log.origin, log.tile = c.Origin, c.ReadTile
	store, err := query.OpenIndex(index.Config{Dir: c.Dir, Logger: c.Logger, MemoryBytes: indexMemory})
	if err != nil {
		return nil, err
	}
	follower, err := store.Follow(log.name, log)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &Answerer{log: log, store: store, index: follower, progress: c.Progress}, nil
}

// AdvanceTo makes r answer as of the given size, which must be at least the previous size and at
// most the size of the copy. It waits until the index has reached that size. No question may be in
// progress.
func (r *Answerer) AdvanceTo(ctx context.Context, size uint64) error {
	if err := r.log.show(size); err != nil {
		return err
	}
	r.progress(0, size)
	for r.index.Size() < size {
		const tick = 20 * time.Millisecond
		limited, cancel := context.WithTimeout(ctx, tick)
		err := r.index.WaitForSize(limited, size)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return fmt.Errorf("indexing the local copy of the log: %w", err)
		}
		r.progress(min(r.index.Size(), size), size)
	}
	return nil
}

// Close closes the index. No question may be in progress.
func (r *Answerer) Close() error { return r.store.Close() }

// Answer answers one of query.Questions from the index. path is percent-encoded and relative to the
// ledger's path. parameters is the query part of the URL. size is the tree size that the answer
// describes, or 0 if the question is refused before the index is read.
func (r *Answerer) Answer(ctx context.Context, path, parameters string) (answer any, size uint64, err error) {
	asked, elements, ok := query.FindQuestion(path)
	if !ok {
		return nil, 0, &query.Error{Reason: query.ReasonNotFound, Detail: "no question has that path"}
	}
	request, view, err := r.open(ctx, asked, elements, parameters)
	if err != nil {
		return nil, 0, err
	}
	defer view.Close()
	answer, err = request.Answer(view)
	return answer, view.Size(), err
}

// StageProof proves a stage of a run-DAG (spec: Stage proofs). parameters is the query part of
// the URL.
func (r *Answerer) StageProof(ctx context.Context, seq, stage, parameters string) (any, error) {
	elements := query.Parameters{"seq": seq, "stage": stage}
	_, view, err := r.open(ctx, &query.StageProofQuestion, elements, parameters)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	proof, err := query.ProveStage(view, elements)
	if err != nil {
		return nil, err
	}
	receipt, err := r.log.Receipt(ctx, proof.Seq, proof.AsOf)
	if err != nil {
		return nil, err
	}
	return struct {
		*wire.StageProof
		Receipt json.RawMessage `json:"receipt"` // replaces the embedded type's member of the same name
	}{proof, receipt.AppendJSON(nil)}, nil
}

// Event returns the event with the given hash.
func (r *Answerer) Event(ctx context.Context, hash proofs.Hash) (*wire.EventLine, error) {
	seq, err := r.index.FindByHash(ctx, hash, r.log.Size())
	if errors.Is(err, storage.ErrNotFound) {
		return nil, &query.Error{Reason: query.ReasonNotFound, Detail: "no event has that hash"}
	}
	if err != nil {
		return nil, err
	}
	return r.log.event(seq)
}

// open parses a question and opens the view of the index that answers it. The caller must close the
// view. If the index is damaged, open rebuilds it first.
func (r *Answerer) open(ctx context.Context, asked *query.Question, elements query.Parameters, parameters string) (*query.Request, *query.View, error) {
	request, err := asked.Parse(elements, parameters, r.log.Size(), MaxPageRows)
	if err != nil {
		return nil, nil, err
	}
	if err := r.index.WaitForSize(ctx, r.log.Size()); err != nil {
		return nil, nil, err
	}
	view, err := request.OpenView(ctx, r.index)
	if err != nil {
		return nil, nil, err
	}
	view.Log, view.CountCache = r.log, &r.totals
	return request, view, nil
}

// Statistics returns the counts of the log's events, as a server would.
func (r *Answerer) Statistics() *wire.Stats {
	t := counters.TallyOf(r.index)
	stats := &wire.Stats{AsOf: t.Size, Records: make(map[wire.Kind]uint64), Refusals: t.RefusalsByReason, Incomplete: t.IncompleteByPart, Checks: []wire.CheckCount{}}
	for kind, n := range t.RecordsByKind {
		stats.Records[wire.Kind(kind)] = n
	}
	for _, c := range t.CheckCounts {
		stats.Checks = append(stats.Checks, wire.CheckCount{Kind: wire.Kind(c.Kind), Field: c.Field, Result: wire.CheckResult(c.Result), Count: c.Count})
	}
	return stats
}

// Metrics returns the metrics that are derived from the log.
func (r *Answerer) Metrics() ([]*dto.MetricFamily, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(counters.NewCollector(r.store.Followers)); err != nil {
		return nil, err
	}
	return registry.Gather()
}
