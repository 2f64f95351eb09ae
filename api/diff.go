package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/ledger/figures"
	questions "colophon/ledger/query"
	"colophon/proofs"
)

// textsOf returns what makes figures about texts for an answer, which holds held bytes besides.
// The answer shows content, so caches must not keep it.
func (s *Server) textsOf(c echo.Context, l *ledger.Ledger, held int64) *figures.Texts {
	const copies = 2 // in the store, and in the answer
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return &figures.Texts{Log: textLog{logAt{l, l.Head()}}, Cache: s.figures, PerByte: copies,
		Hold: func(bytes int64) error { return buildAnswer(c, held+bytes) }}
}

// textLog implements figures.Log.
type textLog struct{ logAt }

// RedactedBy returns the event that redacts a record now, or nil if none does.
func (l textLog) RedactedBy(ctx context.Context, seq uint64) (*uint64, error) {
	return questions.RedactedBy(ctx, l, seq)
}

// Content returns the content with a digest.
func (l textLog) Content(ctx context.Context, digest proofs.Hash) ([]byte, error) {
	return l.Store().Content(ctx, digest)
}

// diffMemory bounds the memory to answer a diff for each byte of its texts: the texts in the store
// and in two copies, and JSON in a buffer that grows, in which a byte takes at most six.
const diffMemory = 3 + 2*6

// diff answers the difference of the texts of two records, word by word (spec: Figures of texts).
func (s *Server) diff(c echo.Context) error {
	var seqs [2]uint64
	var given [2]bool
	of := figures.Output
	if err := query(c, count("a", &seqs[0], &given[0]), count("b", &seqs[1], &given[1]), text("of", &of)); err != nil {
		return err
	}
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	for i, name := range [...]string{"a", "b"} {
		if !given[i] {
			return invalid(name, "is required: the seq of a record")
		}
		if size := l.Head().Size; seqs[i] >= size {
			return invalid(name, "there is no event %d: the ledger has %d", seqs[i], size)
		}
	}
	texts := s.textsOf(c, l, 0)
	texts.PerByte = diffMemory
	answer, err := texts.Diff(c.Request().Context(), of, seqs[0], seqs[1])
	var (
		absent *figures.MissingError
		erased *figures.RedactedError
		long   *figures.SizeError
	)
	switch {
	case errors.As(err, &absent):
		return fault(http.StatusNotFound, "%v; GET /v1/ledgers/%s/records/%d lists its content", err, l.Name(), absent.Seq)
	case errors.As(err, &erased):
		return redacted(erased.Seq, &erased.By)
	case errors.As(err, &long):
		return atPointer(http.StatusUnprocessableEntity, "/of", err.Error())
	case err != nil:
		return err
	}
	return answerJSON(c, http.StatusOK, answer)
}
