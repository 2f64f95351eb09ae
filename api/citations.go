package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger/index/citations"
	"colophon/ledger/record"
	"colophon/storage"
)

// Queries about citation sets (spec: Citation drift; Citation conflicts; Stale citations).
// Citation sets have no state.

// citedRow is a citation set with only those citations that match the query.
type citedRow struct {
	provenSeq
	RunID     *string       `json:"run_id"`
	Subject   string        `json:"subject"`
	Time      string        `json:"time"`
	Citations []citationRow `json:"citations"`
}

type citationRow struct {
	ChunkHash string      `json:"chunk_hash"`
	SourceID  string      `json:"source_id"`
	Weight    json.Number `json:"weight"`
	Section   *string     `json:"section"`
}

// citationsOfChunk answers the citation sets that cite a chunk.
func (s *Server) citationsOfChunk(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	hash, err := element(c, "hash")
	if err != nil {
		return err
	}
	if err := chunkForm.check("hash", hash); err != nil {
		return err
	}
	found, next, err := citations.OfChunk(q.ctx, q.view, hash, q.page)
	if err != nil {
		return err
	}
	return answerRows(q, citedRows(found), next)
}

// citationsOfSource answers the citation sets that cite a source.
func (s *Server) citationsOfSource(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	id, err := sourceID(c)
	if err != nil {
		return err
	}
	found, next, err := citations.OfSource(q.ctx, q.view, id, q.page)
	if err != nil {
		return err
	}
	return answerRows(q, citedRows(found), next)
}

func citedRows(found []citations.Set) []citedRow {
	rows := make([]citedRow, len(found))
	for i, set := range found {
		rows[i] = citedRow{provenSeq{Seq: set.Seq}, set.RunID, set.Subject, set.Time.Format(record.TimeLayout), []citationRow{}}
		for _, c := range set.Citations {
			rows[i].Citations = append(rows[i].Citations, citationRow{c.ChunkHash, c.SourceID, json.Number(c.Weight), c.Section})
		}
	}
	return rows
}

// chunkDriftRow compares a citation set with the previous set of its subject.
type chunkDriftRow struct {
	provenSeq
	RunID   *string  `json:"run_id"`
	Time    string   `json:"time"`
	Against *uint64  `json:"against"` // null for the first set of a subject; Jaccard is null then too
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"`
	Jaccard *float64 `json:"jaccard"`
}

// citationDrift answers how the chunks changed between the citation sets of a subject.
func (s *Server) citationDrift(c echo.Context) error {
	var subject *string
	q, err := s.openQuery(c, withPages|withProofs, optionalText("subject", &subject))
	if err != nil {
		return err
	}
	defer q.close()
	if subject == nil {
		return invalid("subject", "is required: the subject of citation sets")
	}
	found, next, err := citations.Drifts(q.ctx, q.view, *subject, q.page)
	if err != nil {
		return err
	}
	rows := make([]chunkDriftRow, len(found))
	for i, d := range found {
		rows[i] = chunkDriftRow{provenSeq{Seq: d.Seq}, d.RunID, d.Time.Format(record.TimeLayout), optionalSeq(d.Against),
			orEmpty(d.Added), orEmpty(d.Removed), orEmpty(d.Kept), nil}
		if d.Against > 0 {
			rows[i].Jaccard = &found[i].Jaccard
		}
	}
	return answerRows(q, rows, next)
}

// conflictRow is a chunk that is cited under several sources. Its seq is that of the set that
// cited the chunk under a second source.
type conflictRow struct {
	provenSeq
	ChunkHash   string      `json:"chunk_hash"`
	SourceCount uint64      `json:"source_count"`
	Sources     []sourceUse `json:"sources"` // only the first few
}

type sourceUse struct {
	SourceID string `json:"source_id"`
	Seq      uint64 `json:"seq"` // the first set that cites the chunk under it
}

// conflicts answers the chunks that are cited under several sources.
func (s *Server) conflicts(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	found, next, err := citations.Conflicts(q.view, q.page)
	if err != nil {
		return err
	}
	rows := make([]conflictRow, len(found))
	for i, f := range found {
		rows[i] = conflictRow{provenSeq{Seq: f.Seq}, f.ChunkHash, f.Count, sourceUses(f.Sources)}
	}
	return answerRows(q, rows, next)
}

func sourceUses(found []citations.ChunkSource) []sourceUse {
	uses := make([]sourceUse, len(found))
	for i, s := range found {
		uses[i] = sourceUse{s.ID, s.Seq}
	}
	return uses
}

// staleRow is a citation of a chunk that its source no longer has.
type staleRow struct {
	provenSeq
	RunID        *string `json:"run_id"`
	Subject      string  `json:"subject"`
	ChunkHash    string  `json:"chunk_hash"`
	SupersededBy uint64  `json:"superseded_by"`
	How          string  `json:"how"`
}

// stale answers the citations of chunks that a source no longer has.
func (s *Server) stale(c echo.Context) error {
	var source *string
	q, err := s.openQuery(c, withPages|withProofs, optionalText("source_id", &source))
	if err != nil {
		return err
	}
	defer q.close()
	if source == nil {
		return invalid("source_id", "is required: a source that sets cite")
	}
	found, next, err := citations.Stale(q.ctx, q.view, *source, q.page)
	if err != nil {
		return err
	}
	rows := make([]staleRow, len(found))
	for i, f := range found {
		rows[i] = staleRow{provenSeq{Seq: f.Seq}, f.RunID, f.Subject, f.ChunkHash, f.SupersededBy, f.How}
	}
	return answerRows(q, rows, next)
}

// optionalSeq returns nil for 0. No record has the seq 0.
func optionalSeq(seq uint64) *uint64 {
	if seq == 0 {
		return nil
	}
	return &seq
}

// orEmpty returns an empty list for nil, so that JSON shows [] instead of null.
func orEmpty[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}

// textOrNull returns nil for nil.
func textOrNull(text []byte) *string {
	if text == nil {
		return nil
	}
	s := string(text)
	return &s
}

// check returns an error if a parameter does not have the form.
func (f *form) check(name, value string) error {
	if f.fits(value) {
		return nil
	}
	return invalid(name, "must be %s", f.name)
}

// notFound turns storage.ErrNotFound into a 404 with that detail. It returns other errors
// unchanged.
func notFound(err error, detail string) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fault(http.StatusNotFound, "%s", detail)
	}
	return err
}
