package api

import (
	"github.com/labstack/echo/v4"

	"colophon/ledger/index/producers"
)

// producerRow counts the numbers that a producer has delivered, from 1. Its seq is that of the
// producer's latest record.
type producerRow struct {
	provenSeq
	ID         string `json:"id"`
	Records    uint64 `json:"records"`
	CompleteTo uint64 `json:"complete_to"` // no number up to this one is missing
	Highest    uint64 `json:"highest"`
	Missing    uint64 `json:"missing"`  // numbers below the highest
	Repeated   uint64 `json:"repeated"` // records that repeat a number
}

func producerRowOf(p *producers.Producer) producerRow {
	return producerRow{provenSeq{Seq: p.Seq}, p.ID, p.Records, p.CompleteTo, p.Highest, p.Missing, p.Duplicates}
}

// producers lists the producers that number their records.
func (s *Server) producers(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	found, next, err := producers.List(q.view, q.page)
	if err != nil {
		return err
	}
	rows := make([]producerRow, len(found))
	for i := range found {
		rows[i] = producerRowOf(&found[i])
	}
	return answerRows(q, rows, next)
}

// producerAnswer is one producer with a page of its gaps and a page of its duplicates.
type producerAnswer struct {
	answerTree
	producerRow
	Gaps       []gap          `json:"gaps"`
	Duplicates []duplicateRow `json:"duplicates"`
	Next       string         `json:"next,omitempty"` // of both lists
}

// gap is a range of numbers that were not delivered, both ends included.
type gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// duplicateRow is a record that repeats the number of an earlier one.
type duplicateRow struct {
	provenSeq
	Number   uint64 `json:"producer_seq"`
	FirstSeq uint64 `json:"first_seq"` // the first record with that number
}

// producer answers one producer: the number up to which its records are complete, the gaps
// above, and the duplicates.
func (s *Server) producer(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	id, err := element(c, "id")
	if err != nil {
		return err
	}
	found, gaps, duplicates, next, err := producers.Get(q.view, id, q.page)
	if err != nil {
		return notFound(err, "no record names that producer")
	}
	answer := &producerAnswer{producerRow: producerRowOf(&found), Gaps: []gap{}, Duplicates: []duplicateRow{}, Next: q.next(next)}
	for _, g := range gaps {
		answer.Gaps = append(answer.Gaps, gap(g))
	}
	for _, d := range duplicates {
		row := duplicateRow{provenSeq{Seq: d.Seq}, d.Number, d.FirstSeq}
		if err := row.proveIn(q); err != nil {
			return err
		}
		answer.Duplicates = append(answer.Duplicates, row)
	}
	if err := answer.proveIn(q); err != nil {
		return err
	}
	return answerOne(q, answer)
}
