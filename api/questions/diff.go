package questions

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/figures"
	"colophon/ledger/query"
	"colophon/proofs"
)

// newTextComparer returns a TextComparer for an answer. held is the memory, in bytes, that the answer
// already uses. Figures about texts reveal content, so newTextComparer also tells caches not to store
// the answer.
func (h *Handlers) newTextComparer(c *call.Call, l *ledger.Ledger, held int64) *figures.TextComparer {
	const copies = 2 // one in the store, one in the answer
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return &figures.TextComparer{Log: textLog{logAt{l, l.Head()}}, Cache: h.FiguresCache, MemoryPerByte: copies,
		Reserve: func(bytes int64) error { return c.BeginAnswer(held + bytes) }}
}

// newNameFinder returns a NameFinder for an answer. If the caller has access to content, the
// names can reveal content, so newNameFinder then also tells caches not to store the answer.
func (h *Handlers) newNameFinder(c *call.Call, l *ledger.Ledger) *figures.NameFinder {
	content := c.RequireScope(access.ScopeContent) == nil
	if content {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	}
	return &figures.NameFinder{Log: textLog{logAt{l, l.Head()}}, Cache: h.FiguresCache, MayReadContent: content}
}

// textLog implements figures.Log.
type textLog struct{ logAt }

// RedactedBy returns the seq of the event that redacted a record, or nil if the record is not
// currently redacted.
func (l textLog) RedactedBy(ctx context.Context, seq uint64) (*uint64, error) {
	return query.FindRedaction(ctx, l.RedactingSeq, seq)
}

// Content returns the content with the given digest.
func (l textLog) Content(ctx context.Context, digest proofs.Hash) ([]byte, error) {
	return l.Reader().Content(ctx, digest)
}

// diffMemory is an upper bound on the memory for a diff, in bytes for each byte of its texts. The
// texts are held in the store and in two copies. The JSON is in a growing buffer and needs at most
// six bytes for each byte of text.
const diffMemory = 3 + 2*6

// ServeDiff sends the word-by-word difference between texts of two records (spec: Figures of
// texts).
func (h *Handlers) ServeDiff(c *call.Call) error {
	var seqs [2]uint64
	var given [2]bool
	of := figures.ContentOutput
	if err := c.ParseParameters(call.UintParameter("a", &seqs[0], &given[0]), call.UintParameter("b", &seqs[1], &given[1]), call.TextParameter("of", &of)); err != nil {
		return err
	}
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	for i, name := range [...]string{"a", "b"} {
		if !given[i] {
			return problem.InvalidParameter(name, "is required; use the seq of a record")
		}
		if size := l.Head().Size; seqs[i] >= size {
			return problem.InvalidParameter(name, "there is no event %d: the ledger has %d events", seqs[i], size)
		}
	}
	texts := h.newTextComparer(c, l, 0)
	texts.MemoryPerByte = diffMemory
	answer, err := texts.Diff(c.Request().Context(), of, seqs[0], seqs[1])
	var (
		absent *figures.MissingContentError
		erased *figures.RedactedError
		long   *figures.TextsTooLongError
	)
	switch {
	case errors.As(err, &absent):
		return problem.New(http.StatusNotFound, "%v; GET /v1/ledgers/%s/records/%d lists its content", err, l.Name(), absent.Seq)
	case errors.As(err, &erased):
		return redacted(erased.Seq, &erased.RedactionSeq)
	case errors.As(err, &long):
		return problem.AtPointer(http.StatusUnprocessableEntity, "/of", err.Error())
	case err != nil:
		return err
	}
	return c.AnswerJSON(http.StatusOK, answer)
}
