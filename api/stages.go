package api

import (
	"encoding/json"

	"github.com/labstack/echo/v4"

	"colophon/client/wire"
	questions "colophon/ledger/query"
)

// stageProof answers the proof of a stage in the tree of its run, with the receipt of the run
// at the size of the answer (spec: Stage proofs).
func (s *Server) stageProof(c echo.Context) error {
	elements, err := pathElements(c)
	if err != nil {
		return err
	}
	_, view, err := s.openView(c, &questions.StageProof, elements)
	if err != nil {
		return err
	}
	defer view.Close()
	proof, err := questions.ProveStage(view, elements)
	if err != nil {
		return err
	}
	log := view.Log.(logAt)
	receipt, err := s.receiptAt(view.Context, log.Ledger, proof.Seq, log.head, proof.AsOf, false)
	if err != nil {
		return err
	}
	return sendAnswer(c, view, struct {
		*wire.StageProof
		Receipt json.RawMessage `json:"receipt"` // the bytes of the event, in place of those of the type
	}{proof, receipt.AppendJSON(nil)})
}
