package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"time"

	"colophon/client/wire"
)

// DriftService provides the queries about what caused outputs to change.
type DriftService struct{ ledger *Ledger }

// RunGroupFilter selects groups of runs. A nil pointer selects all groups of live runs.
type RunGroupFilter struct {
	StateOptions
	MinRuns    uint64 // minimum number of runs in a group
	MinOutputs uint64 // minimum number of distinct outputs in a group
	// Since and Until limit the time of a group's last run. Since is inclusive, Until is exclusive, and
	// zero means no limit.
	Since, Until time.Time
	// Sort is recent (latest run first), runs (most runs first), flips (most flips first), or stability
	// (least stable first). It cannot be combined with AsOf or IncludeAllStates. The default depends on
	// the other fields; if none is set, the groups are sorted by first run, newest first.
	Sort string
}

// ListGroups groups runs by the value of a field and lists the groups: GET /drift/groups. by is the name of the field:
// ipc_id, input, input_hash, system_prompt_hash, output_hash, model, ollama_build_hash or label:NAME.
func (s *DriftService) ListGroups(by string, f *RunGroupFilter) *PagedList[wire.RunGroup] {
	if f == nil {
		f = new(RunGroupFilter)
	}
	q := f.StateOptions.values()
	q.Set("by", by)
	setCount(q, "min_runs", f.MinRuns)
	setCount(q, "min_outputs", f.MinOutputs)
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	setText(q, "sort", f.Sort)
	return list[wire.RunGroup](s.ledger, "/drift/groups", q)
}

// RunGroup gives access to one group of runs. Creating a RunGroup sends no request.
type RunGroup struct {
	client *Client
	path   string
	query  url.Values
}

// Group returns the group of runs whose field by has the given value. For example, Group("model", "m1",
// nil) is the group of all runs of model m1.
func (s *DriftService) Group(by, value string, o *RunQueryOptions) *RunGroup {
	return &RunGroup{client: s.ledger.client, path: s.ledger.path + join("drift", "groups", by, value), query: o.values()}
}

// Get reads the group with the first page of its outputs and the first page of its runs: GET
// /drift/groups/{by}/{value}.
func (g *RunGroup) Get(ctx context.Context) (*wire.GroupAnswer, error) {
	return g.page(ctx, "cursor", "")
}

// Runs iterates over all runs in the group, newest first.
func (g *RunGroup) Runs(ctx context.Context) iter.Seq2[*wire.GroupMember, error] {
	return rows(pages(func(cursor string) (*wire.GroupAnswer, error) { return g.page(ctx, "cursor", cursor) },
		func(page *wire.GroupAnswer) string { return page.Next }), func(page *wire.GroupAnswer) []wire.GroupMember { return page.Rows })
}

// Outputs iterates over the distinct outputs of the group, ordered by first appearance, most recent first.
func (g *RunGroup) Outputs(ctx context.Context) iter.Seq2[*wire.GroupOutput, error] {
	return rows(pages(func(cursor string) (*wire.GroupAnswer, error) { return g.page(ctx, "outputs_cursor", cursor) },
		func(page *wire.GroupAnswer) string { return page.OutputsNext }), func(page *wire.GroupAnswer) []wire.GroupOutput { return page.Outputs })
}

func (g *RunGroup) page(ctx context.Context, name, cursor string) (*wire.GroupAnswer, error) {
	return answer[wire.GroupAnswer](ctx, g.client, get(g.path, withCursor(g.query, name, cursor)))
}

// FieldValues lists the distinct values of a field over all runs: GET /drift/values. field is
// temperature, max_tokens, or label. For label, the values are the names of the labels that runs
// have. The values are ordered by first appearance, most recent first.
func (s *DriftService) FieldValues(field string, o *QueryOptions) *PagedList[wire.RunValue] {
	q := o.values()
	q.Set("of", field)
	return list[wire.RunValue](s.ledger, "/drift/values", q)
}

// ChangeAttribution returns what caused the change from event a to event b: GET /drift/attribution.
func (s *DriftService) ChangeAttribution(ctx context.Context, a, b uint64, o *QueryOptions) (*wire.DriftAttribution, error) {
	return answer[wire.DriftAttribution](ctx, s.ledger.client, get(s.ledger.path+"/drift/attribution", setPair(o.values(), decimal(a), decimal(b))))
}

// Diff compares one text of event b, word by word, with the same text of event a: GET /diff. textName is
// output, prompt, payload, passage, or the name of any content. [ErrGone] means that the text of one of
// the events has been erased.
func (s *DriftService) Diff(ctx context.Context, a, b uint64, textName string) (*wire.TextDiff, error) {
	q := setPair(make(url.Values), decimal(a), decimal(b))
	setText(q, "of", textName)
	return answer[wire.TextDiff](ctx, s.ledger.client, get(s.ledger.path+"/diff", q))
}

func setPair(q url.Values, a, b string) url.Values {
	q.Set("a", a)
	q.Set("b", b)
	return q
}

// Timeline lists the runs that have the given value in a field, each with the cause of the change since the
// previous run: GET /drift/timeline. by is the name of the field: input, input_hash, ipc_id, system_prompt_hash,
// output_hash, model, ollama_build_hash or label:NAME.
func (s *DriftService) Timeline(by, value string, o *RunQueryOptions) *PagedList[wire.TimelineRow] {
	q := o.values()
	q.Set(by, value)
	return list[wire.TimelineRow](s.ledger, "/drift/timeline", q)
}

// EffectsQuery is a query for pairs of runs that differ in only one variable. Creating an
// EffectsQuery sends no request.
type EffectsQuery struct {
	client *Client
	path   string
	query  url.Values
}

// Effects returns a query for pairs of runs that differ only in the given variable, whose value is a in one run
// and b in the other. The variable is input, input_hash, system_prompt_hash, model, temperature, max_tokens,
// seed, ollama_build_hash, label:NAME, or the JSON pointer of a payload member.
func (s *DriftService) Effects(variable, a, b string, o *RunQueryOptions) *EffectsQuery {
	q := setPair(o.values(), a, b)
	q.Set("variable", variable)
	return &EffectsQuery{client: s.ledger.client, path: s.ledger.path + "/drift/effects", query: q}
}

// Get reads the totals and the first page of pairs: GET /drift/effects.
func (e *EffectsQuery) Get(ctx context.Context) (*wire.EffectsAnswer, error) { return e.page(ctx, "") }

// GetWithPartialCount is like Get, but counts only the first 1,000 pairs. The first full count can be slow on a large ledger.
func (e *EffectsQuery) GetWithPartialCount(ctx context.Context) (*wire.EffectsAnswer, error) {
	query := maps.Clone(e.query)
	query.Set("totals", "first")
	return answer[wire.EffectsAnswer](ctx, e.client, get(e.path, query))
}

// Pairs iterates over the pairs on all pages.
func (e *EffectsQuery) Pairs(ctx context.Context) iter.Seq2[*wire.EffectPair, error] {
	return rows(pages(func(cursor string) (*wire.EffectsAnswer, error) { return e.page(ctx, cursor) },
		func(page *wire.EffectsAnswer) string { return page.Next }), func(page *wire.EffectsAnswer) []wire.EffectPair { return page.Rows })
}

func (e *EffectsQuery) page(ctx context.Context, cursor string) (*wire.EffectsAnswer, error) {
	return answer[wire.EffectsAnswer](ctx, e.client, get(e.path, withCursor(e.query, "cursor", cursor)))
}

// CompareRerun compares a re-run with the record that it repeats, and returns whether it reproduces that
// record: POST /drift/reproduce. It records nothing.
func (s *DriftService) CompareRerun(ctx context.Context, rerun wire.Rerun, o *QueryOptions) (*wire.Reproduction, error) {
	r := request{method: http.MethodPost, path: s.ledger.path + "/drift/reproduce", query: o.values(), repeat: true}
	return exchange[wire.Reproduction](ctx, s.ledger.client, r, rerun)
}
