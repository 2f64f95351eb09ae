package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"colophon/client/wire"
	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/query"
	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
	"colophon/storage"
)

// reference answers questions from the copy of the log, as a correct server of this version does.
type reference struct {
	log      *logCopy
	store    *index.Store
	index    *index.Follower
	totals   query.Totals
	progress func(step string, done, total uint64)
}

// indexMemory bounds the memory of the reference's index, in bytes.
const indexMemory = 96 << 20

// openReference returns a reference that keeps its index below dir. It answers after show.
func openReference(log *logCopy, dir string, o monitor.Options) (*reference, error) {
	store, err := query.Open(index.Config{Dir: filepath.Join(dir, "index"), Log: o.Log, Memory: indexMemory})
	if err != nil {
		return nil, err
	}
	follower, err := store.Follow(log.name, log)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &reference{log: log, store: store, index: follower, progress: o.Progress}, nil
}

// show makes the reference answer as of a size, which must not be less than before. No question
// may be under way.
func (r *reference) show(ctx context.Context, size uint64) error {
	if err := r.log.show(size); err != nil {
		return err
	}
	r.progress(stepIndex, 0, size)
	for r.index.Size() < size {
		const tick = 20 * time.Millisecond
		limited, cancel := context.WithTimeout(ctx, tick)
		err := r.index.Wait(limited, size)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return fmt.Errorf("indexing the copy of the log: %w", err)
		}
		r.progress(stepIndex, min(r.index.Size(), size), size)
	}
	return nil
}

// Close closes the index. No question may be in progress.
func (r *reference) Close() error { return r.store.Close() }

// page implements source.
func (r *reference) page(ctx context.Context, q question, p pageRequest) (*answerPage, error) {
	page := &answerPage{status: http.StatusOK, header: make(http.Header), size: r.log.shown(), limit: p.limit}
	answer, err := r.answer(ctx, q, p, page)
	if err == nil {
		page.body, err = encode(answer)
	}
	var refusal *query.Error
	switch {
	case errors.As(err, &refusal) && refusal.Reason == query.NotFound:
		return refused(http.StatusNotFound, err), nil
	case errors.As(err, &refusal) && refusal.Reason == query.WrongKind:
		return refused(http.StatusUnprocessableEntity, err), nil
	case refusal != nil, errors.Is(err, index.ErrPosition), errors.Is(err, proofs.ErrRange):
		return refused(http.StatusBadRequest, err), nil
	case err != nil:
		return nil, err
	case len(page.body) > maxAnswer:
		return nil, fmt.Errorf("%w: more than %d bytes", fetch.ErrTooLong, maxAnswer)
	}
	page.header.Set("Content-Type", q.form.mediaType())
	if q.form.lines || q.form.text {
		return page, nil
	}
	if err := fetch.TakeShare(ctx, int64(len(page.body))); err != nil {
		return nil, err
	}
	return page, parseAnswer(&page.document, page.body)
}

// refused is the page of a question without an answer.
func refused(status int, err error) *answerPage {
	return &answerPage{status: status, problem: fmt.Sprintf("%d %s: %v", status, http.StatusText(status), err),
		header: http.Header{"Content-Type": {"application/problem+json"}}}
}

// encode returns an answer as bytes. It does not escape HTML, so that lines are those of a server.
func encode(answer any) ([]byte, error) {
	switch a := answer.(type) {
	case []byte:
		return a, nil
	case interface{ AppendJSON([]byte) []byte }:
		return a.AppendJSON(nil), nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(answer)
	return text.Bytes(), err
}

// answer returns the answer to a question, and sets the size and the headers of its page.
func (r *reference) answer(ctx context.Context, q question, p pageRequest, page *answerPage) (any, error) {
	if p.size > 0 && q.form.size != "" {
		page.size = p.size
	}
	switch q.form {
	case stageForm:
		return r.stageProof(ctx, q, p)
	case inclusionForm:
		return r.log.inclusion(q, page.size)
	case consistencyForm:
		return r.log.consistency(ctx, q, page.size)
	case receiptForm, tlogProofForm, nestedForm:
		return r.log.proof(ctx, q, page.size)
	case eventsForm:
		return r.log.events(q, page.header)
	case eventForm:
		return r.event(ctx, q)
	case statisticsForm:
		return r.statistics(), nil
	case ledgerForm:
		return r.log.describe()
	case ledgersForm:
		ledger, err := r.log.describe()
		return wire.Ledgers{Ledgers: []wire.LedgerDescription{ledger}}, err
	}
	asked, elements, ok := query.Find(q.path)
	if !ok {
		return nil, &query.Error{Reason: query.NotFound, Detail: "no question has that path"}
	}
	request, view, err := r.open(ctx, asked, elements, q.at(p))
	if err != nil {
		return nil, err
	}
	defer view.Close()
	page.size = view.Size() // a cursor implies it
	return request.Ask(view)
}

// open opens the view that a question to the index is answered from. The caller closes it. A
// damaged index is rebuilt before.
func (r *reference) open(ctx context.Context, asked *query.Question, elements query.Parameters, path string) (*query.Request, *query.View, error) {
	_, parameters, _ := strings.Cut(path, "?")
	request, err := asked.Parse(elements, parameters, r.log.shown(), maxRows)
	if err != nil {
		return nil, nil, err
	}
	if err := r.index.Wait(ctx, r.log.shown()); err != nil {
		return nil, nil, err
	}
	view, err := request.Open(ctx, r.index)
	if err != nil {
		return nil, nil, err
	}
	view.Log, view.Totals = r.log, &r.totals
	return request, view, nil
}

// stageProof proves a stage of a run-DAG (spec: Stage proofs).
func (r *reference) stageProof(ctx context.Context, q question, p pageRequest) (any, error) {
	path := strings.Split(q.path, "/")
	stage, err := url.PathUnescape(path[4])
	if err != nil {
		return nil, err
	}
	elements := query.Parameters{"seq": path[2], "stage": stage}
	_, view, err := r.open(ctx, &query.StageProof, elements, q.at(p))
	if err != nil {
		return nil, err
	}
	defer view.Close()
	proof, err := query.ProveStage(view, elements)
	if err != nil {
		return nil, err
	}
	receipt, err := r.log.receipt(ctx, proof.Seq, proof.AsOf)
	if err != nil {
		return nil, err
	}
	return struct {
		*wire.StageProof
		Receipt json.RawMessage `json:"receipt"` // in place of that of the type
	}{proof, receipt.AppendJSON(nil)}, nil
}

// event returns the event with a hash.
func (r *reference) event(ctx context.Context, q question) (any, error) {
	hash, err := proofs.ParseHash(strings.TrimPrefix(q.path, "/events/"))
	if err != nil {
		return nil, err
	}
	seq, err := r.index.Find(ctx, hash, r.log.shown())
	if errors.Is(err, storage.ErrNotFound) {
		return nil, &query.Error{Reason: query.NotFound, Detail: "no event has that hash"}
	}
	if err != nil {
		return nil, err
	}
	return r.log.event(seq)
}

// statistics counts the events of the log.
func (r *reference) statistics() *wire.Stats {
	t := counters.TallyOf(r.index)
	stats := &wire.Stats{AsOf: t.Size, Records: make(map[wire.Kind]uint64), Refusals: t.Refusals, Checks: []wire.CheckCount{}}
	for kind, n := range t.Records {
		stats.Records[wire.Kind(kind)] = n
	}
	for _, c := range t.Checks {
		stats.Checks = append(stats.Checks, wire.CheckCount{Kind: wire.Kind(c.Kind), Field: c.Field, Result: wire.Result(c.Result), Count: c.Count})
	}
	return stats
}

// metrics returns the metrics that are derived from the log.
func (r *reference) metrics() (*scrape, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(counters.NewCollector(r.store.Followers)); err != nil {
		return nil, err
	}
	families, err := registry.Gather()
	if err != nil {
		return nil, err
	}
	s, err := scrapeOf(families, r.log.name)
	if err == nil {
		s.types[treeSizeMetric] = dto.MetricType_GAUGE.String()
	}
	return s, err
}
