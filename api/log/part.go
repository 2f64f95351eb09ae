package log

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/api/receipts"
	"colophon/ledger/event"
	"colophon/ledger/query"
	"colophon/ledger/record"
	"colophon/proofs"
)

// part identifies the part of a record to prove: a stage, or a citation.
type part struct {
	stage         string
	citation      uint64
	citationGiven bool
}

// ServeNestedProof sends a proof that the event of a record contains a given stage or citation. The
// receipt in it proves that the event is in the tree of the requested size, which is the current
// size by default.
func (h *Handlers) ServeNestedProof(c *call.Call) error {
	l, head, seq, err := c.ParseEventPath()
	if err != nil {
		return err
	}
	var p part
	size := head.Size
	if err := c.ParseParameters(call.TextParameter("stage", &p.stage), call.UintParameter("citation", &p.citation, &p.citationGiven), call.UintParameter("tree_size", &size, nil)); err != nil {
		return err
	}
	if (p.stage != "") == p.citationGiven {
		return problem.InvalidParameter("stage", "use exactly one of the parameters \"stage\" and \"citation\" to choose the part of the record to prove")
	}
	if size > head.Size || seq >= size {
		return problem.InvalidParameter("tree_size", "must be from %d to %d, the size of the ledger", seq+1, head.Size)
	}
	const minimal = false
	receipt, err := receipts.ForEvent(c.Request().Context(), l, seq, head, size, minimal)
	if err != nil {
		return err
	}
	nested, err := p.prove(receipt)
	if err != nil {
		return err
	}
	body, err := nested.AppendJSON(nil)
	if err != nil {
		return fmt.Errorf("encoding the proof of a part of event %d: %w", seq, err)
	}
	return c.AnswerText(http.StatusOK, echo.MIMEApplicationJSON, body)
}

// prove finds p in the event of the receipt r, and returns the nested proof that the event
// contains p.
func (p *part) prove(r *proofs.Receipt) (*proofs.NestedProof, error) {
	var decoder event.Decoder
	e, err := decoder.Decode(proofs.AppendEntry(nil, r.PrevEventHash, r.Proof.Event))
	if err != nil {
		return nil, fmt.Errorf("parsing event %d: %w", r.Seq, err)
	}
	nested := &proofs.NestedProof{Receipt: r}
	switch {
	case p.citationGiven && e.Kind != record.KindCitationSet:
		return nil, problem.New(http.StatusNotFound, "event %d is a %s: only a citation_set has citations", r.Seq, e.Kind)
	case !p.citationGiven && e.Kind != record.KindRunDAG:
		return nil, problem.New(http.StatusNotFound, "event %d is a %s: only a run_dag has stages", r.Seq, e.Kind)
	case p.citationGiven:
		citations := e.CitationSet().Citations
		if p.citation >= uint64(len(citations)) {
			return nil, problem.New(http.StatusNotFound, "event %d has no citation %d; it has %d citations, numbered from 0", r.Seq, p.citation, len(citations))
		}
		nested.Citation = &proofs.NestedCitation{Index: p.citation, ChunkHash: string(citations[p.citation].ChunkHash)}
	default:
		nested.Stage, err = nestedStage(&e, p.stage)
	}
	return nested, err
}

// nestedStage proves that the named stage is in the Merkle tree of its run.
func nestedStage(e *event.Event, name string) (*proofs.NestedStage, error) {
	found, own, err := query.ProveStageOfRun(e.Seq, e.DAG().Stages, name)
	if err != nil {
		return nil, err
	}
	stage := &proofs.NestedStage{Name: own, Index: uint64(found.Index), Hash: found.Hash, Root: found.Root}
	stage.Path = append(stage.Path, found.Path...)
	return stage, nil
}
