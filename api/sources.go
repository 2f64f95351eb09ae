package api

import (
	"github.com/labstack/echo/v4"

	"colophon/ledger/index/citations"
	"colophon/ledger/record"
)

// sourceRow is a source that is registered or was. Its seq is that of its last
// registration or revocation, which has title and reason.
type sourceRow struct {
	proved
	SourceID   string  `json:"source_id"`
	Registered bool    `json:"registered"`
	Time       string  `json:"time"`
	Title      *string `json:"title"`
	Reason     *string `json:"reason"`
	ChunkCount *uint64 `json:"chunk_count"` // null where the registration lists none
}

func sourceRowOf(s *citations.SourceDetail) sourceRow {
	row := sourceRow{proved{Seq: s.Seq}, s.ID, s.Registered, s.Time.Format(record.TimeLayout), s.Title, s.Reason, nil}
	if s.Listed {
		row.ChunkCount = &s.Chunks
	}
	return row
}

// sources lists the sources.
func (s *Server) sources(c echo.Context) error {
	q, err := s.asked(c, paged|provable)
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

// sourceAnswer is one source with the chunks that its registration lists.
type sourceAnswer struct {
	taken
	sourceRow
	ChunkHashes *[]string `json:"chunk_hashes"`
}

// source answers one source.
func (s *Server) source(c echo.Context) error {
	q, err := s.asked(c, provable)
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
		return missing(err, "no source of that id was ever registered")
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
