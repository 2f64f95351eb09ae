package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	questions "colophon/ledger/query"
)

// textsOf returns what makes figures about texts for an answer, which holds held bytes besides.
// The answer shows content, so caches must not keep it.
func (s *Server) textsOf(c echo.Context, l *ledger.Ledger, held int64) *questions.Texts {
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	const copies = 2 // in the store, and in the answer
	return &questions.Texts{Log: logAt{l, l.Head()}, Content: l.Store().Content, Cache: s.texts, PerByte: copies,
		Hold: func(bytes int64) error { return buildAnswer(c, held+bytes) }}
}

// diffMemory bounds the memory to answer a diff for each byte of its texts: the texts in the store
// and in two copies, and JSON in a buffer that grows, in which a byte takes at most six.
const diffMemory = 3 + 2*6

// diff answers the difference of the texts of two records, word by word (spec: Figures of texts).
// It is content, so it is about no size, and there is none of a redacted record.
func (s *Server) diff(c echo.Context) error {
	given := make(questions.Parameters)
	set := func(name string) parameter {
		return parameter{name: name, set: func(value string) error {
			given[name] = value
			return nil
		}}
	}
	if err := query(c, set("a"), set("b"), set("of")); err != nil {
		return err
	}
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	d, err := questions.ParseDiff(given, l.Head().Size)
	if err != nil {
		return err
	}
	texts := s.textsOf(c, l, 0)
	texts.PerByte = diffMemory
	answer, seq, by, err := texts.Diff(c.Request().Context(), d)
	switch {
	case err != nil:
		return err
	case by != nil:
		return redacted(seq, by)
	}
	return answerJSON(c, http.StatusOK, answer)
}
