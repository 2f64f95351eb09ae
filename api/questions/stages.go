package questions

import (
	"encoding/json"

	"colophon/api/call"
	"colophon/api/receipts"
	"colophon/client/wire"
	"colophon/ledger/query"
)

// ServeStageProof sends the proof that a stage is in the Merkle tree of its run, and the receipt of
// the run for the tree size of the answer (spec: Stage proofs).
func (h *Handlers) ServeStageProof(c *call.Call) error {
	elements, err := c.PathParameters()
	if err != nil {
		return err
	}
	_, view, err := h.openView(c, &query.StageProofQuestion, elements, c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	defer view.Close()
	proof, err := query.ProveStage(view, elements)
	if err != nil {
		return err
	}
	log := view.Log.(logAt)
	receipt, err := receipts.ForEvent(view.Context, log.Ledger, proof.Seq, log.head, proof.AsOf, false)
	if err != nil {
		return err
	}
	return sendAnswer(c, view, struct {
		*wire.StageProof
		Receipt json.RawMessage `json:"receipt"` // already encoded, so that the event keeps its exact bytes
	}{proof, receipt.AppendJSON(nil)})
}
