package api

import (
	"context"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/ledger"
	questions "colophon/ledger/query"
	"colophon/proofs"
)

// ask returns the handler of a question: it answers what the question answers.
func (s *Server) ask(q *questions.Question) echo.HandlerFunc {
	return func(c echo.Context) error {
		elements, err := pathElements(c)
		if err != nil {
			return err
		}
		request, view, err := s.openView(c, q, elements)
		if err != nil {
			return err
		}
		defer view.Close()
		answer, err := request.Ask(view)
		if err != nil {
			return err
		}
		return sendAnswer(c, view, answer)
	}
}

// sendAnswer closes the view first, so that a slow client does not keep it open.
func sendAnswer(c echo.Context, view *questions.View, answer any) error {
	view.Close()
	appender, is := answer.(interface{ AppendJSON([]byte) []byte })
	if !is {
		return answerJSON(c, http.StatusOK, answer)
	}
	text := newReply()
	defer text.release()
	text.text = append(appender.AppendJSON(text.text), '\n')
	return text.send(c, http.StatusOK, echo.MIMEApplicationJSON)
}

// openView parses a question, waits for the index, holds memory for the answer, and opens the
// view. The caller closes the view.
func (s *Server) openView(c echo.Context, q *questions.Question, elements questions.Parameters) (*questions.Request, *questions.View, error) {
	l, err := s.ledger(c)
	if err != nil {
		return nil, nil, err
	}
	size := l.Head().Size
	request, err := q.Parse(elements, c.Request().URL.RawQuery, size, s.config.MaxPage)
	if err != nil {
		return nil, nil, err
	}
	endHeavy(c) // release the slot of the body before the wait for the index
	ctx := c.Request().Context()
	follower, err := s.waitForIndex(ctx, l, request.Needs)
	if err != nil {
		return nil, nil, err
	}
	memory := answerMemory(request)
	if err := holdAnswer(c, memory); err != nil {
		return nil, nil, err
	}
	if request.Size == 0 {
		s.waitForRecentEvents(ctx, follower, size)
	}
	if err := beginRead(c); err != nil {
		return nil, nil, err
	}
	view, err := request.Open(ctx, follower)
	if err != nil {
		return nil, nil, err
	}
	view.Log, view.Totals = logAt{l, l.Head()}, &s.totals // the head is read after the view, so that it covers the view
	if request.Figures && alsoNeeds(c, access.Content) == nil {
		view.Texts = s.textsOf(c, l, memory)
	}
	return request, view, nil
}

// Bounds of the memory for one answer, in bytes: the events to read, the rows, their proofs,
// and the JSON.
const (
	pageMemory = 16 << 20
	rowMemory  = 256 << 10
	oneMemory  = 1 << 20 // an answer that is no page
)

// answerMemory bounds the memory for an answer, in bytes.
func answerMemory(r *questions.Request) int64 {
	return min(pageMemory, oneMemory+rowMemory*int64(r.Limit()))
}

// logAt is the log of a ledger at one head. It implements query.Log.
type logAt struct {
	*ledger.Ledger
	head *ledger.Head
}

// Entry returns the entry of an event.
func (l logAt) Entry(ctx context.Context, seq uint64) ([]byte, error) {
	return l.Store().Entry(ctx, seq)
}

// Redaction returns the event that redacts a record, or storage.ErrNotFound.
func (l logAt) Redaction(ctx context.Context, seq uint64) (uint64, error) {
	return l.Store().Redaction(ctx, seq)
}

// Prover returns a prover for the tree at the head.
func (l logAt) Prover(ctx context.Context) *proofs.Prover { return l.Ledger.Prover(ctx, l.head) }

// Checkpoint returns the signed checkpoint of a size up to the head's.
func (l logAt) Checkpoint(ctx context.Context, size uint64) ([]byte, error) {
	return l.Ledger.Checkpoint(ctx, l.head, size)
}

// pathElements returns the elements of the path that are parameters of a question, decoded.
func pathElements(c echo.Context) (questions.Parameters, error) {
	elements := make(questions.Parameters)
	for _, name := range c.ParamNames() {
		if name == "ledger" {
			continue
		}
		var err error
		if elements[name], err = element(c, name); err != nil {
			return nil, err
		}
	}
	return elements, nil
}

// element returns an element of the path, percent-decoded.
func element(c echo.Context, name string) (string, error) {
	value := c.Param(name)
	if c.Request().URL.RawPath != "" { // without it Echo has decoded the element
		var err error
		if value, err = url.PathUnescape(value); err != nil {
			return "", invalid(name, "is not percent-encoded text")
		}
	}
	if !utf8.ValidString(value) {
		return "", invalid(name, "is not valid UTF-8")
	}
	return value, nil
}
