package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/client/wire"
	"colophon/ledger/record"
)

// computeCacheKey computes a cache key from its dimensions. It records nothing.
func (s *Server) computeCacheKey(c echo.Context) error {
	return s.computeAlone(c, func(body []byte) (any, error) {
		key, err := record.DecodeCacheKey(body)
		return wire.CacheKey{CacheKey: key}, err
	})
}

// computeQuestionHash computes the hash of a question. It records nothing.
func (s *Server) computeQuestionHash(c echo.Context) error {
	return s.computeAlone(c, func(body []byte) (any, error) {
		q, err := record.DecodeQuestion(body)
		return wire.QuestionHash{QuestionHash: q.Hash, QuestionMode: q.Mode}, err
	})
}

// computeAlone answers what a function makes of the body.
func (s *Server) computeAlone(c echo.Context, compute func(body []byte) (any, error)) error {
	if err := query(c); err != nil {
		return err
	}
	body, err := s.readQuestion(c)
	if err != nil {
		return err
	}
	defer release(body)
	if err := s.beginDecoding(c, body); err != nil {
		return err
	}
	answer, err := compute(body.Bytes())
	if err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, answer)
}
