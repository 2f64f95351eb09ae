package client

import (
	"context"
	"time"

	"colophon/client/wire"
)

// RunDAGsService answers questions about run-DAGs.
type RunDAGsService struct{ ledger *Ledger }

// Compare compares run-DAG b with a: GET /run-dags/compare.
func (s *RunDAGsService) Compare(ctx context.Context, a, b uint64, o *QueryOptions) (*wire.RunComparison, error) {
	return answer[wire.RunComparison](ctx, s.ledger.client, get(s.ledger.path+"/run-dags/compare", between(o.values(), decimal(a), decimal(b))))
}

// Divergence lists the runs of a question, each with the first stage in which it differs from the run before:
// GET /run-dags/divergence.
func (s *RunDAGsService) Divergence(questionHash string, o *StateOptions) *List[wire.DivergenceRow] {
	q := o.values()
	q.Set("question_hash", questionHash)
	return list[wire.DivergenceRow](s.ledger, "/run-dags/divergence", q)
}

// ByCacheKey reads the live run-DAG of a cache key: GET /run-dags/by-cache-key/{key}. [ErrNotFound] says that
// there is none.
func (s *RunDAGsService) ByCacheKey(ctx context.Context, key string, o *QueryOptions) (*wire.CachedRun, error) {
	return answer[wire.CachedRun](ctx, s.ledger.client, get(s.ledger.path+join("run-dags", "by-cache-key", key), o.values()))
}

// StageProof reads the path of a stage in its run's tree, with the run's receipt: GET
// /run-dags/{seq}/stage-proof/{stage}. The receipt is not verified; [Ledger.Verify] does that.
func (s *RunDAGsService) StageProof(ctx context.Context, seq uint64, stage string, o *QueryOptions) (*wire.StageProof, error) {
	return answer[wire.StageProof](ctx, s.ledger.client, get(s.ledger.path+join("run-dags", decimal(seq), "stage-proof", stage), o.values()))
}

// FailureFilter chooses run-DAGs. A nil pointer chooses all live ones.
type FailureFilter struct {
	StateOptions
	Since, Until time.Time // of recording; zero for no bound
}

// Failures counts run-DAGs by failure stage, audit mode and shape: GET /run-dags/failures.
func (s *RunDAGsService) Failures(ctx context.Context, f *FailureFilter) (*wire.FailureCounts, error) {
	if f == nil {
		f = new(FailureFilter)
	}
	q := f.StateOptions.values()
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	return answer[wire.FailureCounts](ctx, s.ledger.client, get(s.ledger.path+"/run-dags/failures", q))
}
