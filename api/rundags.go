package api

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/rundags"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
	"colophon/storage"
)

// Queries about run-DAGs (spec: Run-DAG comparison; Divergence; Cache lookups; Failure counts;
// Stage proofs).

// runRow describes a run-DAG in the answer to a query.
type runRow struct {
	provenSeq
	RunID *string `json:"run_id"`
	Time  string  `json:"time"`
	Root  string  `json:"root"`
	Shape string  `json:"shape"`
}

func runRowOf(r *rundags.RunDAG) runRow {
	return runRow{provenSeq{Seq: r.Seq}, r.RunID, r.Time.Format(record.TimeLayout), string(r.Root), string(r.Shape)}
}

// comparison compares run-DAG b with run-DAG a.
type comparison struct {
	answerTree
	A              runRow   `json:"a"`
	B              runRow   `json:"b"`
	FirstDiverging *string  `json:"first_diverging_stage"`
	Differing      []string `json:"differing_stages"`
	OnlyInA        []string `json:"only_in_a"`
	OnlyInB        []string `json:"only_in_b"`
	// Dimensions is null unless both run-DAGs have cache dimensions.
	Dimensions *[]string `json:"differing_dimensions"`
	Says       string    `json:"says"`
}

// compareRuns answers the stages and cache dimensions in which two run-DAGs differ.
func (s *Server) compareRuns(c echo.Context) error {
	q, runA, runB, err := openComparison(s, c, "a", "run-DAG", rundags.Get)
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

// divergenceRow compares a run-DAG with the previous live one of its question.
type divergenceRow struct {
	runRow
	State          string  `json:"state"`
	Against        *uint64 `json:"against"` // null for the first
	FirstDiverging *string `json:"first_diverging_stage"`
}

// divergence answers the first stage in which the run-DAGs of a question differ from their
// predecessors.
func (s *Server) divergence(c echo.Context) error {
	var question string
	q, err := s.openQuery(c, withPages|withState|withProofs, text("question_hash", &question))
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

// cachedRun is the run-DAG that a cache key leads to.
type cachedRun struct {
	answerTree
	runRow
	CacheKey     string             `json:"cache_key"`
	Dimensions   map[string]*string `json:"cache_dimensions"`
	QuestionHash *string            `json:"question_hash"`
	FailureStage *string            `json:"failure_stage"`
	AuditMode    *string            `json:"audit_mode"`
	Others       uint64             `json:"others"` // other live run-DAGs with the same key and dimensions
}

// runByCacheKey answers the latest live run-DAG of a cache key.
func (s *Server) runByCacheKey(c echo.Context) error {
	q, err := s.openQuery(c, withProofs)
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
		return notFound(err, "no live run-DAG has that cache key and its dimensions, or the dimensions of several differ")
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

// stageProof proves that a stage is in a run, and the run in the log.
type stageProof struct {
	answerTree
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

// stageProof answers the proof of a stage in the tree of its run (spec: Run tree), with the
// receipt of the run.
func (s *Server) stageProof(c echo.Context) error {
	q, err := s.openQueryAbout(c, []string{c.Param("seq")}, 0)
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
		return notFound(err, "no run-DAG has that seq")
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

// maxListedStages bounds the stages that a problem lists. No known shape has more than ten.
const maxListedStages = 16

// noStage returns the 404 for a stage. It lists the stages of the run-DAG.
func noStage(seq uint64, stages []rules.Stage) *problem {
	var names []string
	for _, s := range stages[:min(len(stages), maxListedStages)] {
		names = append(names, s.Name)
	}
	if len(stages) > maxListedStages {
		names = append(names, "…")
	}
	return fault(http.StatusNotFound, "event %d has no stage of that name; its stages are %s; append #2 to the name for the second of several",
		seq, strings.Join(names, ", "))
}

func stagesOf(stages []event.Stage) []rules.Stage {
	list := make([]rules.Stage, len(stages))
	for i, s := range stages {
		list[i] = rules.Stage{Name: string(s.Name), Hash: string(s.Hash)}
	}
	return list
}

// failures counts run-DAGs by their outcome.
type failures struct {
	answerTree
	Total uint64       `json:"total"`
	Rows  []failureRow `json:"rows"`
}

// failureRow is the number of run-DAGs with one outcome. A member is null if the run-DAGs do
// not state it, and "other" if this version does not know the value.
type failureRow struct {
	FailureStage *string `json:"failure_stage"`
	AuditMode    *string `json:"audit_mode"`
	Shape        *string `json:"shape"`
	Count        uint64  `json:"count"`
}

// failures answers how many run-DAGs of a period had each outcome.
func (s *Server) failures(c echo.Context) error {
	var since, until string
	q, err := s.openQuery(c, withState, text("since", &since), text("until", &until))
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

// optionalSeq returns nil for 0. No record has the seq 0.
func optionalSeq(seq uint64) *uint64 {
	if seq == 0 {
		return nil
	}
	return &seq
}

// nullable returns nil for an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// textOrNull returns nil for nil.
func textOrNull(text []byte) *string {
	if text == nil {
		return nil
	}
	s := string(text)
	return &s
}

// notFound turns storage.ErrNotFound into a 404 with that detail. It returns other errors
// unchanged.
func notFound(err error, detail string) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fault(http.StatusNotFound, "%s", detail)
	}
	return err
}
