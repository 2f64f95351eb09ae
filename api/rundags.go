package api

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/rundags"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
)

// Queries about run-DAGs (spec: Run-DAG comparison; Divergence; Cache lookups; Failure counts;
// Stage proofs).

// runRow is what queries say of each run-DAG.
type runRow struct {
	proved
	RunID *string `json:"run_id"`
	Time  string  `json:"time"`
	Root  string  `json:"root"`
	Shape string  `json:"shape"`
}

func runRowOf(r *rundags.RunDAG) runRow {
	return runRow{proved{Seq: r.Seq}, r.RunID, r.Time.Format(record.TimeLayout), string(r.Root), string(r.Shape)}
}

// comparison is how run-DAG b stands to a.
type comparison struct {
	taken
	A              runRow   `json:"a"`
	B              runRow   `json:"b"`
	FirstDiverging *string  `json:"first_diverging_stage"`
	Differing      []string `json:"differing_stages"`
	OnlyInA        []string `json:"only_in_a"`
	OnlyInB        []string `json:"only_in_b"`
	// Dimensions is null where not both have cache dimensions.
	Dimensions *[]string `json:"differing_dimensions"`
	Says       string    `json:"says"`
}

// compareRuns answers which stages and cache dimensions of two run-DAGs differ.
func (s *Server) compareRuns(c echo.Context) error {
	q, runA, runB, err := askedToCompare(s, c, "a", "run-DAG", rundags.Get)
	if err != nil {
		return err
	}
	defer q.close()
	answer := compared(&runA, &runB)
	if err := answer.A.proveIn(q); err != nil {
		return err
	}
	if err := answer.B.proveIn(q); err != nil {
		return err
	}
	return answerOne(q, answer)
}

func compared(a, b *rundags.RunDAG) *comparison {
	change := drift.CompareStages(a.Stages, b.Stages)
	dimensions, known := drift.CompareDimensions(a.Dimensions, b.Dimensions)
	answer := &comparison{
		A: runRowOf(a), B: runRowOf(b), Differing: orEmpty(change.Differing), OnlyInA: orEmpty(change.OnlyInA), OnlyInB: orEmpty(change.OnlyInB),
		Says: change.Sentence(dimensions, known),
	}
	if len(change.Differing) > 0 {
		answer.FirstDiverging = &change.Differing[0]
	}
	if known {
		dimensions = orEmpty(dimensions)
		answer.Dimensions = &dimensions
	}
	return answer
}

// divergenceRow is a run-DAG against the live one before it of its question.
type divergenceRow struct {
	runRow
	State          string  `json:"state"`
	Against        *uint64 `json:"against"` // null for the first
	FirstDiverging *string `json:"first_diverging_stage"`
}

// divergence answers where the run-DAGs of a question begin to differ.
func (s *Server) divergence(c echo.Context) error {
	var question string
	q, err := s.asked(c, paged|stated|provable, text("question_hash", &question))
	if err != nil {
		return err
	}
	defer q.close()
	if err := hashForm.check("question_hash", question); err != nil {
		return err
	}
	found, next, err := rundags.OfQuestion(q.ctx, q.view, question, q.any, q.page)
	if err != nil {
		return err
	}
	rows := make([]divergenceRow, len(found))
	for i, r := range found {
		rows[i] = divergenceRow{runRowOf(&r.RunDAG), r.State, optionalSeq(r.Against), r.Stage}
	}
	return answerRows(q, rows, next)
}

// cachedRun is the run-DAG that is served for a cache key.
type cachedRun struct {
	taken
	runRow
	CacheKey     string             `json:"cache_key"`
	Dimensions   map[string]*string `json:"cache_dimensions"`
	QuestionHash *string            `json:"question_hash"`
	FailureStage *string            `json:"failure_stage"`
	AuditMode    *string            `json:"audit_mode"`
	Others       uint64             `json:"others"` // live run-DAGs of the same key and dimensions
}

// runByCacheKey answers the latest live run-DAG of a cache key.
func (s *Server) runByCacheKey(c echo.Context) error {
	q, err := s.asked(c, provable)
	if err != nil {
		return err
	}
	defer q.close()
	key := c.Param("key")
	if err := hashForm.check("key", key); err != nil {
		return err
	}
	run, others, err := rundags.Cached(q.ctx, q.view, key)
	if err != nil {
		return missing(err, "no live run-DAG has that cache key and its dimensions, or the dimensions of several differ")
	}
	answer := &cachedRun{runRow: runRowOf(&run), CacheKey: key, Dimensions: make(map[string]*string),
		QuestionHash: textOrNull(run.QuestionHash), FailureStage: textOrNull(run.FailureStage), AuditMode: textOrNull(run.AuditMode), Others: others}
	for _, d := range run.Dimensions {
		answer.Dimensions[string(d.Name)] = textOrNull(d.Hash)
	}
	if err := answer.proveIn(q); err != nil {
		return err
	}
	return answerOne(q, answer)
}

// stageProof shows that a stage is in a run, and the run in the log.
type stageProof struct {
	taken
	Seq     uint64          `json:"seq"`
	Stage   string          `json:"stage"`
	Index   int             `json:"index"`
	Hash    string          `json:"hash"`
	Root    string          `json:"root"`
	Path    []pathStep      `json:"path"`
	Receipt json.RawMessage `json:"receipt"`
}

type pathStep struct {
	Sibling string `json:"sibling"`
	IsLeft  bool   `json:"is_left"`
}

// stageProof answers the path of a stage in the run's own tree (spec: Run tree), next to the
// run's receipt.
func (s *Server) stageProof(c echo.Context) error {
	q, err := s.askedAbout(c, []string{c.Param("seq")}, 0)
	if err != nil {
		return err
	}
	defer q.close()
	seq, err := parseCount("seq", c.Param("seq"))
	if err != nil {
		return err
	}
	stage, err := element(c, "stage")
	if err != nil {
		return err
	}
	run, err := rundags.Get(q.ctx, q.view, seq)
	if err != nil {
		return missing(err, "no run-DAG has that seq")
	}
	stages := stagesOf(run.Stages)
	proof, found, err := rules.ProveStage(stages, stage)
	if err != nil {
		return err
	}
	if !found {
		return noStage(seq, stages)
	}
	receipt, err := s.receiptAt(q.ctx, q.ledger, seq, q.head, q.view.Size(), false)
	if err != nil {
		return err
	}
	answer := &stageProof{Seq: seq, Stage: stage, Index: proof.Index, Hash: hex.EncodeToString(proof.Hash[:]),
		Root: hex.EncodeToString(proof.Root[:]), Path: []pathStep{}, Receipt: receipt.AppendJSON(nil)}
	for _, step := range proof.Path {
		answer.Path = append(answer.Path, pathStep{hex.EncodeToString(step.Sibling[:]), step.IsLeft})
	}
	return answerOne(q, answer)
}

// maxNamed bounds the stages that a problem names: no known shape has more than ten.
const maxNamed = 16

// noStage says which stages a run-DAG has.
func noStage(seq uint64, stages []rules.Stage) *problem {
	var names []string
	for _, s := range stages[:min(len(stages), maxNamed)] {
		names = append(names, s.Name)
	}
	if len(stages) > maxNamed {
		names = append(names, "…")
	}
	return fault(http.StatusNotFound, "event %d has no stage of that name; there are %s; of several with one name the second has #2 behind it",
		seq, strings.Join(names, ", "))
}

func stagesOf(stages []event.Stage) []rules.Stage {
	list := make([]rules.Stage, len(stages))
	for i, s := range stages {
		list[i] = rules.Stage{Name: string(s.Name), Hash: string(s.Hash)}
	}
	return list
}

// failures counts run-DAGs by how they ended.
type failures struct {
	taken
	Total uint64       `json:"total"`
	Rows  []failureRow `json:"rows"`
}

// failureRow has null where a run-DAG says nothing, and other for what this build does
// not know.
type failureRow struct {
	FailureStage *string `json:"failure_stage"`
	AuditMode    *string `json:"audit_mode"`
	Shape        *string `json:"shape"`
	Count        uint64  `json:"count"`
}

// failures answers how many run-DAGs of a time ended how.
func (s *Server) failures(c echo.Context) error {
	var since, until string
	q, err := s.asked(c, stated, text("since", &since), text("until", &until))
	if err != nil {
		return err
	}
	defer q.close()
	bounds, err := parseBounds(since, until)
	if err != nil {
		return err
	}
	found, err := rundags.CountFailures(q.ctx, q.view, bounds, q.any)
	if err != nil {
		return err
	}
	answer := &failures{Rows: make([]failureRow, len(found))}
	for i, f := range found {
		answer.Rows[i] = failureRow{nullable(f.FailureStage), nullable(f.AuditMode), nullable(f.Shape), f.Count}
		answer.Total += f.Count
	}
	return answerOne(q, answer)
}
