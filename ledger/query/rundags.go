package query

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"colophon/client/wire"
	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/rates"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rundags"
	"colophon/ledger/query/forms"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// runDAGQuestions lists the questions about run-DAGs (spec: Run-DAG comparison; Divergence; Cache lookups; Failure
// counts; Groups of run-DAGs).
var runDAGQuestions = []Question{
	{Path: "/run-dags", SharedParameters: PageParameters | StateParameter | ProofsParameter | NamesParameter, ParameterNames: []string{"since", "until"}, ValueParameters: runValues, ParseParameters: askWith(parseRuns, RunDAGs)},
	{Path: "/run-dags/groups", SharedParameters: PageParameters | StateParameter | ProofsParameter | NamesParameter, ParameterNames: []string{"by", "since", "until", "min_runs"}, RequiresHead: recentRuns, ParseParameters: askWith(parseRunGroups, RunDAGGroups)},
	{Path: "/run-dags/compare", SharedParameters: ProofsParameter, ParameterNames: []string{"a", "b"}, SeqParameters: []string{"a", "b"}, ParseParameters: askWith(parsePair("a run-DAG"), CompareRunDAGs)},
	{Path: "/run-dags/divergence", SharedParameters: PageParameters | StateParameter | ProofsParameter, ParameterNames: []string{"question_hash"}, ParseParameters: askWith(hash("question_hash"), RunDAGsOfQuestion)},
	{Path: "/run-dags/failures", SharedParameters: StateParameter, ParameterNames: []string{"since", "until", "periods", "step"}, ParseParameters: askWith(parseOutcomesQuery, CountOutcomes)},
	{Path: "/run-dags/by-cache-key/:key", SharedParameters: ProofsParameter, ParseParameters: askWith(hash("key"), RunDAGByCacheKey)},
}

// StageProofQuestion is the question that asks for the proof of a stage (spec: Stage proofs). It has no Path, because its
// answer also contains a receipt, which does not come from the view. The path elements seq and stage identify the
// stage. ProveStage returns the answer without the receipt.
var StageProofQuestion = Question{SeqParameters: []string{"seq"}}

// hash returns a parse function for a question whose only parameter is the named hash.
func hash(name string) func(Parameters) (string, error) {
	return func(p Parameters) (string, error) { return p[name], checkForm(forms.Hash, name, p[name]) }
}

func runRow(v *View, r *rundags.RunDAG) wire.RunDAGSummary {
	return wire.RunDAGSummary{RowMembers: v.row(r.Seq), RunID: r.RunID, Time: timeOf(r.Time), Root: string(r.Root), Shape: string(r.Shape)}
}

// runValues lists the names of the values by which a list of run-DAGs can be filtered.
var runValues = []string{"failure_stage", "audit_mode", "shape", "verifier_method", "document_root", "evidence_id", "question_hash", "model_profile_hash",
	"governance_policy_hash", "verifier_policy_hash", "cache_key", "root", "run_id", "flag", "inconsistent", "mismatch", "label:<name>", "stage:<name>"}

func parseRuns(p Parameters) (f RecordFilter, err error) {
	if f.TimeRange, err = p.bounds(); err != nil {
		return f, err
	}
	f.Kind, f.IncludeBodies = record.KindRunDAG, true
	f.Values, err = parseValues(p)
	return f, err
}

// RunDAGs lists the run-DAGs that a filter selects, newest first.
func RunDAGs(v *View, f RecordFilter) (*wire.Page[wire.ListedRunDAG], error) {
	if !v.AnyState {
		f.State = record.StateLive
	}
	found, next, err := f.List(v.Context, v.View, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, func(v *View, r *records.Record) wire.ListedRunDAG {
		dag, err := rundags.Decode(r)
		if err != nil && v.err == nil {
			v.err = err
		}
		return wire.ListedRunDAG{RunDAGSummary: runRow(v, &dag), State: wire.State(r.State), FailureStage: index.StringPointer(drift.FailureStage(&dag.DAG)),
			AuditMode: index.StringPointer(dag.AuditMode), VerifierMethod: index.StringPointer(dag.VerifierMethod), QuestionHash: index.StringPointer(dag.QuestionHash),
			ModelProfileHash: index.StringPointer(dag.ModelProfileHash), GovernancePolicyHash: index.StringPointer(dag.GovernancePolicyHash), BrokenRules: orEmpty(r.BrokenRules), Name: v.recordName(dag.Seq)}
	})
}

// RunDAGGroupsQuery selects groups of run-DAGs.
type RunDAGGroupsQuery struct {
	rundags.GroupQuery
	// RecentFirst orders the groups by their latest run-DAG. It requires a view at the head.
	RecentFirst bool
}

func parseRunGroups(p Parameters) (q RunDAGGroupsQuery, err error) {
	if q.Field = p["by"]; !slices.Contains(rundags.GroupFields[:], q.Field) {
		return q, invalid("by", "must be one of %s", strings.Join(rundags.GroupFields[:], ", "))
	}
	q.RecentFirst = recentRuns(p)
	if q.MinRuns, _, err = p.ParseUint("min_runs"); err != nil {
		return q, err
	}
	q.TimeRange, err = p.bounds()
	return q, err
}

// recentRuns reports whether groups of run-DAGs are sorted by their latest run-DAG. With this order, groups
// outside a time range need not be read. The order exists only for live run-DAGs at the head, so recentRuns
// returns false for a request or a cursor at another size.
func recentRuns(p Parameters) bool {
	size, _, _ := decodeCursor(p["cursor"])
	return (p.Has("since") || p.Has("until")) && !p.Has("as_of") && p["state"] != "any" && size == headSize
}

// RunDAGGroups lists the groups of run-DAGs that share a hash.
func RunDAGGroups(v *View, q RunDAGGroupsQuery) (*wire.Page[wire.RunDAGGroup], error) {
	list := rundags.ListGroups
	if q.RecentFirst {
		list = rundags.ListGroupsByLastRun
	}
	q.AnyState = v.AnyState
	found, next, err := list(v.Context, v.View, q.GroupQuery, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, func(v *View, g *rundags.Group) wire.RunDAGGroup {
		row := wire.RunDAGGroup{RowMembers: v.row(g.LastRunSeq), By: q.Field, Value: g.Value, Name: v.groupName(q.Field, g.FirstRunSeq, g.LastRunSeq), Runs: g.Runs, DistinctAnswers: g.DistinctAnswers, OutcomeCounts: make([]wire.GroupOutcomeCount, len(g.OutcomeCounts)),
			FirstRunSeq: g.FirstRunSeq, FirstRunTime: timeOf(g.FirstRunTime), LastRunSeq: g.LastRunSeq, LastRunTime: timeOf(g.LastRunTime)}
		for i, o := range g.OutcomeCounts {
			row.OutcomeCounts[i] = wire.GroupOutcomeCount{FailureStage: nullable(o.FailureStage), AuditMode: nullable(o.AuditMode), Shape: nullable(o.Shape),
				Runs: o.Count, Share: wire.Decimal(float64(o.Count) / float64(g.Runs))}
		}
		return row
	})
}

// CompareRunDAGs returns the stages and cache dimensions in which two run-DAGs differ.
func CompareRunDAGs(v *View, pair RecordPair) (*wire.RunDAGComparison, error) {
	change, err := compareRunDAGs(v, pair)
	if err != nil {
		return nil, err
	}
	answer := &wire.RunDAGComparison{RunDAGChange: *change}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

func compareRunDAGs(v *View, pair RecordPair) (*wire.RunDAGChange, error) {
	a, b, err := readPair(v, pair, "a run-DAG", rundags.Get)
	if err != nil {
		return nil, err
	}
	change := drift.CompareStages(a.Stages, b.Stages)
	dimensions, known := drift.DifferingDimensions(a.CacheDimensions, b.CacheDimensions)
	answer := &wire.RunDAGChange{
		A: runRow(v, &a), B: runRow(v, &b), Cause: wire.DivergenceCause(change.Cause(dimensions, known)), Summary: change.Sentence(dimensions, known),
		DifferingStages: orEmpty(change.DifferingStages), OnlyInA: orEmpty(change.StagesOnlyInA), OnlyInB: orEmpty(change.StagesOnlyInB),
	}
	if len(change.DifferingStages) > 0 {
		first := change.FirstDivergence()
		answer.FirstDivergingStage = &first
	}
	if known {
		answer.DifferingDimensions = orEmpty(dimensions)
	}
	return answer, nil
}

// RunDAGsOfQuestion lists the run-DAGs whose question has the given hash. Each row names the first stage in which the
// run-DAG differs from the previous live run-DAG.
func RunDAGsOfQuestion(v *View, question string) (*wire.Page[wire.DivergenceRow], error) {
	found, next, err := rundags.ListByQuestion(v.Context, v.View, question, v.AnyState, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, func(v *View, r *rundags.QuestionRunDAG) wire.DivergenceRow {
		row := wire.DivergenceRow{RunDAGSummary: runRow(v, &r.RunDAG), State: wire.State(r.State), PreviousSeq: optionalSeq(r.OtherSeq), FirstDivergingStage: r.Stage}
		if r.OtherSeq > 0 {
			row.Cause = new(wire.DivergenceCause(r.DivergenceCause.Cause))
			if r.DimensionsKnown {
				row.DifferingDimensions = orEmpty(r.Comparison.Dimensions)
			}
		}
		return row
	})
}

// RunDAGByCacheKey returns the latest live run-DAG with the given cache key. The error is an *Error if there is none,
// or if several live run-DAGs have the key but differ in their dimensions.
func RunDAGByCacheKey(v *View, key string) (*wire.CachedRunDAG, error) {
	run, others, err := rundags.FindByCacheKey(v.Context, v.View, key)
	if err != nil {
		return nil, notFound(err, "no live run-DAG that states its dimensions has the given cache key, or the live run-DAGs with this cache key differ in their dimensions")
	}
	answer := &wire.CachedRunDAG{RunDAGSummary: runRow(v, &run), CacheKey: key, CacheDimensions: make(map[string]*string), QuestionHash: index.StringPointer(run.QuestionHash),
		FailureStage: index.StringPointer(drift.FailureStage(&run.DAG)), AuditMode: index.StringPointer(run.AuditMode), Others: others}
	for _, d := range run.CacheDimensions {
		answer.CacheDimensions[string(d.Name)] = index.StringPointer(d.Hash)
	}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

// CacheLookupQuestion asks for the latest live run-DAG with the cache dimensions in the request, and for its answer
// (spec: Cache lookups). It has no Path, because its request has a body.
var CacheLookupQuestion = Question{SharedParameters: ProofsParameter}

// RunDAGByQuestion looks up a run-DAG by the cache key of its question in each mode, in the given order. It stops at
// the first key for which a live run-DAG exists, and returns the latest one. The result does not include the text of
// the answer.
func RunDAGByQuestion(v *View, modes []record.QuestionHash) (*wire.LookupAnswer, error) {
	for _, mode := range modes {
		run, err := RunDAGByCacheKey(v, mode.CacheKey)
		if refused := (*Error)(nil); errors.As(err, &refused) && refused.Reason == ReasonNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &wire.LookupAnswer{CachedRunDAG: *run, QuestionMode: mode.Mode}, nil
	}
	return nil, missing("no live run-DAG has the given question and dimensions in either mode")
}

// OutcomesQuery selects the run-DAGs to count.
type OutcomesQuery struct {
	rates.Query
	ByPeriod bool // whether to add separate counts for consecutive periods
}

func parseOutcomesQuery(p Parameters) (q OutcomesQuery, err error) {
	if q.Query, err = parseRates(p); err != nil {
		return q, err
	}
	q.ByPeriod, err = p.ParseChoice("periods", "false", "true")
	if err == nil && !q.ByPeriod && p.Has("step") {
		err = invalid("step", "requires periods=true, because it sets the length of a period; add periods=true, or omit this parameter")
	}
	return q, err
}

// CountOutcomes counts the run-DAGs in a time range by their outcome.
func CountOutcomes(v *View, q OutcomesQuery) (*wire.FailuresAnswer, error) {
	found, err := rundags.CountOutcomes(v.Context, v.View, q.TimeRange, v.AnyState)
	if err != nil {
		return nil, err
	}
	answer := &wire.FailuresAnswer{}
	answer.Total, answer.Rows = outcomeRows(found)
	if q.ByPeriod {
		times, step, err := rates.PeriodBoundaries(v.View, q.Query)
		if err != nil {
			return nil, tooManyPeriods(err)
		}
		counted, err := rundags.CountOutcomesByPeriod(v.Context, v.View, times, v.AnyState)
		if err != nil {
			return nil, err
		}
		answer.Step, answer.Periods = uint64(step), make([]wire.FailurePeriod, len(counted))
		for i, found := range counted {
			total, rows := outcomeRows(found)
			answer.Periods[i] = wire.FailurePeriod{Since: timeOf(times[i]), Until: timeOf(times[i+1]), Total: total, Rows: rows}
		}
	}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

func outcomeRows(found []rundags.OutcomeCount) (total uint64, rows []wire.OutcomeCount) {
	rows = make([]wire.OutcomeCount, len(found))
	for i, f := range found {
		rows[i] = wire.OutcomeCount{FailureStage: nullable(f.FailureStage), AuditMode: nullable(f.AuditMode), Shape: nullable(f.Shape), Count: f.Count}
		total += f.Count
	}
	return total, rows
}

// ProveStage proves that a run-DAG has a stage (spec: Run tree). The result does not include the receipt.
func ProveStage(v *View, p Parameters) (*wire.StageProof, error) {
	seq, err := ParseUint("seq", p["seq"])
	if err != nil {
		return nil, err
	}
	run, err := rundags.Get(v.Context, v.View, seq)
	if err != nil {
		return nil, notFound(err, "no run-DAG has the given seq")
	}
	proof, _, err := ProveStageOfRun(seq, run.Stages, p["stage"])
	if err != nil {
		return nil, err
	}
	answer := &wire.StageProof{Seq: seq, Stage: p["stage"], Index: uint64(proof.Index), Hash: hex.EncodeToString(proof.Hash[:]),
		Root: hex.EncodeToString(proof.Root[:]), Path: make([]wire.MerkleStep, len(proof.Path))}
	for i, step := range proof.Path {
		answer.Path[i] = wire.MerkleStep{Sibling: hex.EncodeToString(step.Sibling[:]), IsLeft: step.SiblingIsLeft}
	}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

// maxListedStages is the maximum number of stages that an error message lists. No known shape has more than ten.
const maxListedStages = 16

// ProveStageOfRun proves a stage in the tree of the run-DAG at seq (spec: Run tree). A suffix such as #2 in stage
// selects the second stage with the same name. The returned name has no suffix. If the run-DAG lacks the stage, the
// error lists the stages of the run-DAG.
func ProveStageOfRun(seq uint64, stages []event.NamedHash, stage string) (proof rules.StageProof, name string, err error) {
	list, names := make([]rules.Stage, len(stages)), make([]string, len(stages))
	for i, s := range stages {
		names[i] = string(s.Name)
		list[i] = rules.Stage{Name: names[i], Hash: string(s.Hash)}
	}
	proof, found, err := rules.ProveStage(list, stage)
	if err != nil {
		return proof, "", err
	}
	if found {
		return proof, names[proof.Index], nil
	}
	if len(names) > maxListedStages {
		names = append(names[:maxListedStages], "…")
	}
	return proof, "", missing("event %d has no stage with that name; its stages are %s; to select the second of several stages with the same name, append #2 to the name",
		seq, strings.Join(names, ", "))
}
