package questions

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/ledger"
	"colophon/ledger/query"
	"colophon/proofs"
)

// QueryHandler returns the handler that answers the query q.
func (h *Handlers) QueryHandler(q *query.Question) call.Handler {
	return func(c *call.Call) error {
		elements, err := c.PathParameters()
		if err != nil {
			return err
		}
		request, view, err := h.openView(c, q, elements, c.Request().URL.RawQuery)
		if err != nil {
			return err
		}
		defer view.Close()
		answer, err := request.Answer(view)
		if err != nil {
			return err
		}
		return sendAnswer(c, view, answer)
	}
}

// sendAnswer closes the view before it sends the answer, so that a slow client does not keep
// the view open.
func sendAnswer(c *call.Call, view *query.View, answer any) error {
	view.Close()
	appender, is := answer.(interface{ AppendJSON([]byte) []byte })
	if !is {
		return c.AnswerJSON(http.StatusOK, answer)
	}
	text := call.NewBuffer()
	defer text.Release()
	text.Text = append(appender.AppendJSON(text.Text), '\n')
	return text.Send(c, http.StatusOK, echo.MIMEApplicationJSON)
}

// openView parses the parameters of a query, waits for the index, holds memory for the answer,
// and opens the view. The caller must close the view.
func (h *Handlers) openView(c *call.Call, q *query.Question, elements query.Parameters, rawQuery string) (*query.Request, *query.View, error) {
	l, err := c.Ledger()
	if err != nil {
		return nil, nil, err
	}
	size := l.Head().Size
	request, err := q.Parse(elements, rawQuery, size, h.Limiter.Limits.MaxPageRows)
	if err != nil {
		return nil, nil, err
	}
	c.EndHeavyWork() // release the slot taken for the body before waiting for the index
	ctx := c.Request().Context()
	follower, err := h.WaitForIndex(ctx, l, request.MinIndexSize)
	if err != nil {
		return nil, nil, err
	}
	memory := answerMemory(request)
	if err := c.HoldReadMemory(memory); err != nil {
		return nil, nil, err
	}
	if request.TreeSize == 0 {
		h.WaitForIndexBriefly(ctx, follower, size)
	}
	if err := c.BeginRead(); err != nil {
		return nil, nil, err
	}
	view, err := request.OpenView(ctx, follower)
	if err != nil {
		return nil, nil, err
	}
	view.Log, view.CountCache = logAt{l, l.Head()}, &h.totals // the head is read after the view is opened, so that it covers the view
	if request.IncludeFigures && c.RequireScope(access.ScopeContent) == nil {
		view.TextComparer = h.newTextComparer(c, l, memory)
	}
	if request.IncludeNames {
		view.NameFinder = h.newNameFinder(c, l)
	}
	return request, view, nil
}

// The memory for one answer, in bytes. It covers the events to read, the rows, their proofs, and
// the JSON.
const (
	pageMemory = 16 << 20
	rowMemory  = 256 << 10
	oneMemory  = 1 << 20 // for every answer, not counting its rows
)

// answerMemory returns an upper bound on the memory for an answer, in bytes.
func answerMemory(r *query.Request) int64 {
	return min(pageMemory, oneMemory+rowMemory*int64(r.Limit()))
}

// logAt is the log of a ledger as of one head. It implements query.Log.
type logAt struct {
	*ledger.Ledger
	head *ledger.Head
}

// Entry returns the entry of an event.
func (l logAt) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	return l.Reader().Entry(ctx, seq)
}

// RedactingSeq returns the seq of the event that redacts a record, or storage.ErrNotFound if there
// is none.
func (l logAt) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	return l.Reader().RedactingSeq(ctx, seq)
}

// Prover returns a prover for the tree at the head.
func (l logAt) Prover(ctx context.Context) *proofs.Prover { return l.Ledger.Prover(ctx, l.head) }

// Checkpoint returns the signed checkpoint for a tree size, which must not exceed the head's
// size.
func (l logAt) Checkpoint(ctx context.Context, size uint64) ([]byte, error) {
	return l.Ledger.Checkpoint(ctx, l.head, size)
}
