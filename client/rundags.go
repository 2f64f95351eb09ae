package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"colophon/client/wire"
)

// RunDAGsService provides the queries about run-DAGs.
type RunDAGsService struct{ ledger *Ledger }

// RunDAGFilter selects run-DAGs. A nil pointer selects all live ones.
type RunDAGFilter struct {
	StateOptions
	// Since and Until limit when the run-DAG was recorded. Since is inclusive, Until is exclusive, and
	// zero means no limit.
	Since, Until time.Time
	// Where holds the filters of GET /run-dags, keyed by parameter name: failure_stage, audit_mode, shape,
	// verifier_method, document_root, evidence_id, inconsistent, and more. A run-DAG must match all of
	// them.
	Where map[string]string
}

// List lists run-DAGs, newest first: GET /run-dags.
func (s *RunDAGsService) List(f *RunDAGFilter) *PagedList[wire.ListedRunDAG] {
	if f == nil {
		f = new(RunDAGFilter)
	}
	q := f.StateOptions.values()
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	for name, value := range f.Where {
		q.Set(name, value)
	}
	return list[wire.ListedRunDAG](s.ledger, "/run-dags", q)
}

// RunDAGGroupFilter selects groups of run-DAGs. A nil pointer selects all.
type RunDAGGroupFilter struct {
	StateOptions
	// Since and Until limit the time of a group's last run-DAG. Since is inclusive, Until is exclusive,
	// and zero means no limit.
	Since, Until time.Time
	MinRuns      uint64 // minimum number of run-DAGs in a group
}

func (f *RunDAGGroupFilter) values() url.Values {
	if f == nil {
		return make(url.Values)
	}
	q := f.StateOptions.values()
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	setCount(q, "min_runs", f.MinRuns)
	return q
}

// ListGroups groups run-DAGs by one of their hashes and lists the groups: GET /run-dags/groups. The
// argument by is question_hash, model_profile_hash, governance_policy_hash, verifier_policy_hash or
// cache_key. To list the run-DAGs of a group, call List with the group's hash in Where.
func (s *RunDAGsService) ListGroups(by string, f *RunDAGGroupFilter) *PagedList[wire.RunDAGGroup] {
	q := f.values()
	q.Set("by", by)
	return list[wire.RunDAGGroup](s.ledger, "/run-dags/groups", q)
}

// Lookup returns the latest live run-DAG with the given question and cache dimensions, and its answer: POST
// /run-dags/lookup. If there is no such run-DAG, the error matches [ErrNotFound].
func (s *RunDAGsService) Lookup(ctx context.Context, r wire.LookupRequest, o *QueryOptions) (*wire.LookupAnswer, error) {
	q := request{method: http.MethodPost, path: s.ledger.path + "/run-dags/lookup", query: o.values(), repeat: true}
	return exchange[wire.LookupAnswer](ctx, s.ledger.client, q, r)
}

// Compare compares run-DAG b with run-DAG a: GET /run-dags/compare.
func (s *RunDAGsService) Compare(ctx context.Context, a, b uint64, o *QueryOptions) (*wire.RunDAGComparison, error) {
	return answer[wire.RunDAGComparison](ctx, s.ledger.client, get(s.ledger.path+"/run-dags/compare", setPair(o.values(), decimal(a), decimal(b))))
}

// ListDivergences lists the run-DAGs for a question and, for each, the first stage in which it
// differs from the previous run-DAG: GET /run-dags/divergence.
func (s *RunDAGsService) ListDivergences(questionHash string, o *StateOptions) *PagedList[wire.DivergenceRow] {
	q := o.values()
	q.Set("question_hash", questionHash)
	return list[wire.DivergenceRow](s.ledger, "/run-dags/divergence", q)
}

// FindByCacheKey reads the live run-DAG with the given cache key: GET /run-dags/by-cache-key/{key}.
// An error that matches [ErrNotFound] means that no run-DAG has the key.
func (s *RunDAGsService) FindByCacheKey(ctx context.Context, key string, o *QueryOptions) (*wire.CachedRunDAG, error) {
	return answer[wire.CachedRunDAG](ctx, s.ledger.client, get(s.ledger.path+join("run-dags", "by-cache-key", key), o.values()))
}

// StageProof reads the Merkle path from a stage to the root of its run-DAG, with the run-DAG's
// receipt: GET /run-dags/{seq}/stage-proof/{stage}. StageProof does not verify the receipt; use
// [Ledger.VerifyReceipt] for that.
func (s *RunDAGsService) StageProof(ctx context.Context, seq uint64, stage string, o *QueryOptions) (*wire.StageProof, error) {
	return answer[wire.StageProof](ctx, s.ledger.client, get(s.ledger.path+join("run-dags", decimal(seq), "stage-proof", stage), o.values()))
}

// FailuresOptions selects run-DAGs by when they were recorded. A nil pointer selects all live ones.
type FailuresOptions struct {
	StateOptions
	Since, Until time.Time // Since is inclusive, Until is exclusive; zero means no limit
	// IncludePeriods also requests counts for consecutive periods of length Step.
	IncludePeriods bool
	Step           time.Duration // length of each period, truncated to whole seconds; 0 lets the server choose
}

// FailureCounts counts run-DAGs by failure stage, audit mode and shape: GET /run-dags/failures. A
// nil f selects all live run-DAGs.
func (s *RunDAGsService) FailureCounts(ctx context.Context, f *FailuresOptions) (*wire.FailuresAnswer, error) {
	q := make(url.Values)
	if f != nil {
		q = f.StateOptions.values()
		setTime(q, "since", f.Since)
		setTime(q, "until", f.Until)
		if f.IncludePeriods {
			q.Set("periods", "true")
			setCount(q, "step", uint64(f.Step/time.Second))
		}
	}
	return answer[wire.FailuresAnswer](ctx, s.ledger.client, get(s.ledger.path+"/run-dags/failures", q))
}
