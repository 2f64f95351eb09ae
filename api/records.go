package api

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/labstack/echo/v4"

	"colophon/ledger/index/records"
	"colophon/ledger/record"
)

// recordRow is a record in a list.
type recordRow struct {
	provenSeq
	Kind       string          `json:"kind"`
	Time       string          `json:"time"`
	EventHash  string          `json:"event_hash"`
	State      string          `json:"state,omitempty"`
	RedactedBy *uint64         `json:"redacted_by,omitempty"` // current, regardless of as_of
	RunID      *string         `json:"run_id,omitempty"`
	Timestamp  *string         `json:"timestamp,omitempty"`
	Hashes     json.RawMessage `json:"hashes"`
	Mismatches []string        `json:"mismatches"` // fields whose claimed hash differs from the recomputed one
	Labels     json.RawMessage `json:"labels"`
	Links      recordLinks     `json:"links"`
	Event      json.RawMessage `json:"event,omitempty"`
}

// records lists the records that a filter selects, newest first (spec: Lists of records).
func (s *Server) records(c echo.Context) error {
	var f recordFilter
	q, err := s.openQuery(c, withPages|withProofs, f.parameters(slices.Collect(maps.Keys(c.QueryParams())))...)
	if err != nil {
		return err
	}
	defer q.close()
	if err := f.complete(); err != nil {
		return err
	}
	f.Bodies = f.events
	list := records.List
	if f.byOccurrence {
		list = records.ListByOccurrence
	}
	found, next, err := list(q.ctx, q.view, f.Filter, q.page)
	if err != nil {
		return err
	}
	rows, err := recordRows(q, found)
	if err != nil {
		return err
	}
	for i := range rows {
		if f.events {
			rows[i].Event = found[i].Body
		}
	}
	return answerRows(q, rows, next)
}

// run lists the records of one run_id, newest first, with links to related queries.
func (s *Server) run(c echo.Context) error {
	var f recordFilter
	q, err := s.openQuery(c, withPages|withProofs, f.stateParameter())
	if err != nil {
		return err
	}
	defer q.close()
	runID, err := element(c, "run_id")
	if err != nil {
		return err
	}
	f.Values = []records.Value{{Name: "run_id", Text: runID}}
	f.Bodies = true // the links need them
	if err := f.complete(); err != nil {
		return err
	}
	found, next, err := records.List(q.ctx, q.view, f.Filter, q.page)
	if err != nil {
		return err
	}
	rows, err := recordRows(q, found)
	if err != nil {
		return err
	}
	for i := range rows {
		if err := rows[i].follow(q, &found[i]); err != nil {
			return err
		}
	}
	return answerRows(q, rows, next)
}

func recordRows(q *indexQuery, found []records.Record) ([]recordRow, error) {
	rows := make([]recordRow, len(found))
	for i, r := range found {
		rows[i] = recordRow{
			provenSeq: provenSeq{Seq: r.Seq}, Kind: string(r.Kind), Time: r.Time.Format(record.TimeLayout),
			EventHash: hex.EncodeToString(r.EventHash[:]), State: string(r.State), RunID: r.RunID, Timestamp: r.Occurred,
			Hashes: r.Hashes, Mismatches: r.Mismatches, Labels: r.Labels,
			Links: recordLinks{Record: recordPath(q.ledger.Name(), r.Seq)},
		}
		if r.Mismatches == nil {
			rows[i].Mismatches = []string{}
		}
		var err error
		if rows[i].RedactedBy, err = redactedBy(q.ctx, q.ledger, r.Seq); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func recordPath(ledger string, seq uint64) string {
	return fmt.Sprintf("/v1/ledgers/%s/records/%d", ledger, seq)
}
