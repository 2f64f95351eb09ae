package records

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/client/wire"
	"colophon/ledger/record"
)

// ComputeHashes sends the hashes and check results that a ledger would compute for a record. It
// records nothing.
func (h *Handlers) ComputeHashes(c *call.Call) error {
	if err := c.ParseParameters(); err != nil {
		return err
	}
	kind, ok := computeKind(c.Param("kind"))
	if !ok {
		return problem.New(http.StatusNotFound, "kind must be one of ipc_record, run_dag, citation_set, path_fingerprint")
	}
	body, err := c.ReadQueryBody()
	if err != nil {
		return err
	}
	if err := c.BeginDecoding(body); err != nil {
		body.Release()
		return err
	}
	r, err := h.parseRecord(kind, body, nil)
	if err != nil {
		return err
	}
	defer r.release()
	answer := call.NewBuffer()
	defer answer.Release()
	answer.Text = r.AppendComputedJSON(answer.Text)
	return answer.Send(c, http.StatusOK, echo.MIMEApplicationJSON)
}

// computeKind returns the kind with the given name or route.
func computeKind(name string) (record.Kind, bool) {
	for kind, path := range WriteRoutes {
		if name == string(kind) || "/"+name == path {
			return kind, true
		}
	}
	return "", false
}

// ComputeCacheKey computes a cache key from its dimensions. It records nothing.
func (h *Handlers) ComputeCacheKey(c *call.Call) error {
	return computeAlone(c, func(body []byte) (any, error) {
		key, err := record.ComputeCacheKey(body)
		return wire.CacheKeyAnswer{CacheKey: key}, err
	})
}

// ComputeQuestionHash computes the hash of a question. It records nothing.
func (h *Handlers) ComputeQuestionHash(c *call.Call) error {
	return computeAlone(c, func(body []byte) (any, error) {
		q, err := record.DecodeQuestion(body)
		return wire.QuestionHashAnswer{QuestionHash: q.Hash, QuestionMode: q.Mode}, err
	})
}

// computeAlone sends the value that compute returns for the body of the request.
func computeAlone(c *call.Call, compute func(body []byte) (any, error)) error {
	if err := c.ParseParameters(); err != nil {
		return err
	}
	body, err := c.ReadQueryBody()
	if err != nil {
		return err
	}
	defer body.Release()
	if err := c.BeginDecoding(body); err != nil {
		return err
	}
	answer, err := compute(body.Bytes())
	if err != nil {
		return err
	}
	return c.AnswerJSON(http.StatusOK, answer)
}
