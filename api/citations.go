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

// Queries about citation sets (spec: Citation drift; Citation conflicts; Stale citations). They
// have no state.

// citedRow is a citation set and those of its citations that were asked for.
type citedRow struct {
	proved
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

// citationsOfChunk answers where a chunk was cited.
func (s *Server) citationsOfChunk(c echo.Context) error {
	q, err := s.asked(c, paged|provable)
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

// citationsOfSource answers where a source was cited.
func (s *Server) citationsOfSource(c echo.Context) error {
	q, err := s.asked(c, paged|provable)
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
		rows[i] = citedRow{proved{Seq: set.Seq}, set.RunID, set.Subject, set.Time.Format(record.TimeLayout), []citationRow{}}
		for _, c := range set.Citations {
			rows[i].Citations = append(rows[i].Citations, citationRow{c.ChunkHash, c.SourceID, json.Number(c.Weight), c.Section})
		}
	}
	return rows
}

// chunkDriftRow is a citation set against the one before it of its subject.
type chunkDriftRow struct {
	proved
	RunID   *string  `json:"run_id"`
	Time    string   `json:"time"`
	Against *uint64  `json:"against"` // null for the first, and so is Jaccard
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"`
	Jaccard *float64 `json:"jaccard"`
}

// citationDrift answers how the chunks of a subject's sets changed.
func (s *Server) citationDrift(c echo.Context) error {
	var subject *string
	q, err := s.asked(c, paged|provable, optionalText("subject", &subject))
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
		rows[i] = chunkDriftRow{proved{Seq: d.Seq}, d.RunID, d.Time.Format(record.TimeLayout), optionalSeq(d.Against),
			orEmpty(d.Added), orEmpty(d.Removed), orEmpty(d.Kept), nil}
		if d.Against > 0 {
			rows[i].Jaccard = &found[i].Jaccard
		}
	}
	return answerRows(q, rows, next)
}

// conflictRow is a chunk that is cited under several sources. Its seq is that of the set
// that brought the second.
type conflictRow struct {
	proved
	ChunkHash   string      `json:"chunk_hash"`
	SourceCount uint64      `json:"source_count"`
	Sources     []sourceUse `json:"sources"` // the first of them
}

type sourceUse struct {
	SourceID string `json:"source_id"`
	Seq      uint64 `json:"seq"` // the first set that cites the chunk under it
}

// conflicts answers the chunks that are cited under several sources.
func (s *Server) conflicts(c echo.Context) error {
	q, err := s.asked(c, paged|provable)
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
		rows[i] = conflictRow{proved{Seq: f.Seq}, f.ChunkHash, f.Count, sourceUses(f.Sources)}
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

// staleRow is a chunk that a set cites and that was superseded.
type staleRow struct {
	proved
	RunID        *string `json:"run_id"`
	Subject      string  `json:"subject"`
	ChunkHash    string  `json:"chunk_hash"`
	SupersededBy uint64  `json:"superseded_by"`
	How          string  `json:"how"`
}

// stale answers the sets that cite what a source no longer has.
func (s *Server) stale(c echo.Context) error {
	var source *string
	q, err := s.asked(c, paged|provable, optionalText("source_id", &source))
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
		rows[i] = staleRow{proved{Seq: f.Seq}, f.RunID, f.Subject, f.ChunkHash, f.SupersededBy, f.How}
	}
	return answerRows(q, rows, next)
}

// optionalSeq is null for 0, which is no record's.
func optionalSeq(seq uint64) *uint64 {
	if seq == 0 {
		return nil
	}
	return &seq
}

// orEmpty is a list that is not null.
func orEmpty[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}

// textOrNull is null for nil.
func textOrNull(text []byte) *string {
	if text == nil {
		return nil
	}
	s := string(text)
	return &s
}

// check is nil if a parameter has the form.
func (f *form) check(name, value string) error {
	if f.fits(value) {
		return nil
	}
	return invalid(name, "must be %s", f.name)
}

// missing answers 404 with that detail where an error says that something is not there.
func missing(err error, detail string) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fault(http.StatusNotFound, "%s", detail)
	}
	return err
}
