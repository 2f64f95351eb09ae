package api

import (
	"github.com/labstack/echo/v4"

	"colophon/ledger/index/citations"
	"colophon/ledger/record"
)

// sourceRow is a source that is or was registered. Its seq is that of its last registration or
// revocation. Title and reason come from that event.
type sourceRow struct {
	provenSeq
	SourceID   string  `json:"source_id"`
	Registered bool    `json:"registered"`
	Time       string  `json:"time"`
	Title      *string `json:"title"`
	Reason     *string `json:"reason"`
	ChunkCount *uint64 `json:"chunk_count"` // null if the registration lists no chunks
}

func sourceRowOf(s *citations.SourceDetail) sourceRow {
	row := sourceRow{provenSeq{Seq: s.Seq}, s.ID, s.Registered, s.Time.Format(record.TimeLayout), s.Title, s.Reason, nil}
	if s.Listed {
		row.ChunkCount = &s.Chunks
	}
	return row
}

func (s *Server) sources(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	found, next, err := citations.Sources(q.ctx, q.view, q.page)
	if err != nil {
		return err
	}
	rows := make([]sourceRow, len(found))
	for i := range found {
		rows[i] = sourceRowOf(&found[i])
	}
	return answerRows(q, rows, next)
}

// sourceAnswer is one source with the chunks in its registration.
type sourceAnswer struct {
	answerTree
	sourceRow
	ChunkHashes *[]string `json:"chunk_hashes"`
}

func (s *Server) source(c echo.Context) error {
	q, err := s.openQuery(c, withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	id, err := sourceID(c)
	if err != nil {
		return err
	}
	found, err := citations.ReadSource(q.ctx, q.view, id)
	if err != nil {
		return notFound(err, "no source of that id was ever registered")
	}
	answer := &sourceAnswer{sourceRow: sourceRowOf(&found)}
	if found.Listed {
		hashes := orEmpty(found.ChunkHashes)
		answer.ChunkHashes = &hashes
	}
	if err := answer.proveIn(q); err != nil {
		return err
	}
	return answerOne(q, answer)
}
