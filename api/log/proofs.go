package log

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/api/receipts"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// hashList sends a proof as a JSON object. The member "hashes" contains the hashes in the order
// of RFC 6962, "as_of" the size of the tree that the proof is for, and "checkpoint" the
// checkpoint of that tree. If checkpoint is nil, hashList omits the member.
func hashList(c *call.Call, size uint64, hashes []proofs.Hash, checkpoint []byte) error {
	answer := call.NewBuffer()
	defer answer.Release()
	answer.Text = strconv.AppendUint(append(answer.Text, `{"as_of":`...), size, 10)
	answer.Text = proofs.AppendHashesJSON(append(answer.Text, `,"hashes":`...), hashes)
	if checkpoint != nil {
		answer.Text = pyjson.AppendString(append(answer.Text, `,"checkpoint":`...), checkpoint)
	}
	answer.Text = append(answer.Text, '}')
	return answer.Send(c, http.StatusOK, echo.MIMEApplicationJSON)
}

// ServeInclusionProof sends the inclusion proof of an event.
func (h *Handlers) ServeInclusionProof(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	head := l.Head()
	seq, size, given := uint64(0), head.Size, false
	if err := c.ParseParameters(call.UintParameter("seq", &seq, &given), call.UintParameter("tree_size", &size, nil)); err != nil {
		return err
	}
	switch {
	case !given:
		return problem.InvalidParameter("seq", "is required")
	case size > head.Size:
		return problem.InvalidParameter("tree_size", "is beyond the head: the ledger has %d events", head.Size)
	case seq >= size:
		return problem.InvalidParameter("seq", "must be less than the tree size (%d)", size)
	}
	path, err := l.Prover(c.Request().Context(), head).InclusionProof(seq, size)
	if err != nil {
		return err
	}
	return hashList(c, size, path, nil)
}

// ServeConsistencyProof sends the consistency proof between two tree sizes.
func (h *Handlers) ServeConsistencyProof(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	head := l.Head()
	first, second, given := uint64(0), head.Size, false
	if err := c.ParseParameters(call.UintParameter("first", &first, &given), call.UintParameter("second", &second, nil)); err != nil {
		return err
	}
	switch {
	case !given || first == 0:
		return problem.InvalidParameter("first", "is required and must be at least 1")
	case second > head.Size:
		return problem.InvalidParameter("second", "is beyond the head: the ledger has %d events", head.Size)
	case first > second:
		return problem.InvalidParameter("first", "must not exceed the parameter \"second\" (%d)", second)
	}
	path, err := l.Prover(c.Request().Context(), head).ConsistencyProof(first, second)
	if err != nil {
		return err
	}
	if second == head.Size {
		return hashList(c, second, path, head.Checkpoint)
	}
	return hashList(c, second, path, nil)
}

// ServeReceipt sends the receipt of an event. The proof is for the head, or for the tree of the
// size given by the parameter tree_size (spec: Receipts; tlog-proof files). If the client prefers
// plain text, the answer is a .tlog-proof file.
func (h *Handlers) ServeReceipt(c *call.Call) error {
	l, head, seq, err := c.ParseEventPath()
	if err != nil {
		return err
	}
	size := head.Size
	if err := c.ParseParameters(call.UintParameter("tree_size", &size, nil)); err != nil {
		return err
	}
	if size > head.Size || seq >= size {
		return problem.InvalidParameter("tree_size", "must be from %d to %d, the size of the ledger", seq+1, head.Size)
	}
	minimal := c.ReturnPreference() == "minimal"
	r, err := receipts.ForEvent(c.Request().Context(), l, seq, head, size, minimal)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderVary, "Accept, Prefer")
	if minimal || call.PreferredMediaType(c.Request()) != echo.MIMETextPlain {
		return receipts.Send(c, http.StatusOK, r)
	}
	proof, err := r.TlogProof()
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, fmt.Sprintf(`attachment; filename="%s-%d.tlog-proof"`, l.Name(), seq))
	return c.AnswerText(http.StatusOK, echo.MIMETextPlainCharsetUTF8, proof.Append(nil))
}
