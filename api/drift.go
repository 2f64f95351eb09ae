package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/labstack/echo/v4"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/index/runs"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// Queries about IPC records (spec: Runs; Groups; Causes).

// generationRow describes an IPC record in the answer to a query. Hashes are null if the
// record has none.
type generationRow struct {
	provenSeq
	RunID      *string `json:"run_id"`
	Time       string  `json:"time"`
	IPCID      *string `json:"ipc_id"`
	OutputHash *string `json:"output_hash"`
}

func generationRowOf(r *records.IPCRecord) generationRow {
	return generationRow{provenSeq{Seq: r.Seq}, textOrNull(r.RunID), r.Time.Format(record.TimeLayout), textOrNull(r.IPCID), textOrNull(r.OutputHash)}
}

// difference is a variable whose values differ between two records.
type difference struct {
	Variable string          `json:"variable"`
	A        json.RawMessage `json:"a"` // null if unknown
	B        json.RawMessage `json:"b"`
}

func differencesOf(a *drift.Attribution) []difference {
	list := make([]difference, len(a.Differences))
	for i, d := range a.Differences {
		list[i] = difference{d.Variable, valueOf(d.Variable, d.A), valueOf(d.Variable, d.B)}
	}
	return list
}

// valueOf returns a value as JSON, in the form that events use. Numbers are canonical JSON
// already.
func valueOf(variable string, value []byte) json.RawMessage {
	switch drift.Cause(variable) {
	case drift.Temperature, drift.MaxTokens, drift.Seed:
		return value
	}
	if value == nil {
		return nil
	}
	return pyjson.AppendString(nil, value)
}

// attribution lists the differences between two records and the cause that follows from them.
type attribution struct {
	Cause         drift.Cause  `json:"cause"`
	OutputChanged bool         `json:"output_changed"`
	Differences   []difference `json:"differences"`
	Says          string       `json:"says"`
}

func attributionOf(a *drift.Attribution) attribution {
	return attribution{a.Cause, a.OutputChanged, differencesOf(a), a.Sentence()}
}

// attributedRow is one of two compared records.
type attributedRow struct {
	generationRow
	State      string   `json:"state"`
	Mismatches []string `json:"mismatches"` // fields whose claimed hash differs from the recomputed one
}

// read fills the row from a record.
func (r *attributedRow) read(q *indexQuery, of *records.IPCRecord) (err error) {
	r.generationRow = generationRowOf(of)
	if r.State, err = records.State(q.view, of.Seq); err != nil {
		return err
	}
	if r.Mismatches, err = mismatchesOf(q, of.Seq); err != nil {
		return err
	}
	return r.proveIn(q)
}

// mismatchesOf returns the fields of an event whose checks failed, sorted by name.
func mismatchesOf(q *indexQuery, seq uint64) ([]string, error) {
	entry, err := q.ledger.Store().Entry(q.ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	var decoder event.Decoder
	e, err := decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	fields := []string{}
	for name, check := range e.Checks.Members() {
		if string(check.Member("result").Text()) == string(record.Mismatch) {
			fields = append(fields, string(name.Text()))
		}
	}
	return fields, nil
}

// mismatchNote names the compared hashes that differ from their claims. The text is empty or
// begins with a space.
func (r *attributedRow) mismatchNote() string {
	if sentence := drift.MismatchSentence(r.Seq, r.Mismatches); sentence != "" {
		return " " + sentence
	}
	return ""
}

type attributionAnswer struct {
	answerTree
	A attributedRow `json:"a"`
	B attributedRow `json:"b"`
	attribution
}

// attribute answers the cause of the change from one IPC record to another.
func (s *Server) attribute(c echo.Context) error {
	q, recordA, recordB, err := openComparison(s, c, "an", "IPC record", records.ReadIPCRecord)
	if err != nil {
		return err
	}
	defer q.close()
	found := drift.Attribute(&recordA.IPC, &recordB.IPC)
	answer := &attributionAnswer{attribution: attributionOf(&found)}
	if err := errors.Join(answer.A.read(q, &recordA), answer.B.read(q, &recordB)); err != nil {
		return err
	}
	answer.Says += answer.A.mismatchNote()
	if recordB.Seq != recordA.Seq {
		answer.Says += answer.B.mismatchNote()
	}
	return answerOne(q, answer)
}

// stepRow compares a run with the previous one. The first run has nothing to compare with.
type stepRow struct {
	generationRow
	State         string       `json:"state"`
	Against       *uint64      `json:"against"`
	Cause         *drift.Cause `json:"cause"`
	OutputChanged *bool        `json:"output_changed"`
	Differences   []difference `json:"differences"`
}

// timeline answers the runs of a group in order, each with the cause of its change from the
// previous run.
func (s *Server) timeline(c echo.Context) error {
	var group groups.RunQuery
	q, err := s.openQuery(c, withPages|withState|withProofs, groupParameters(c, &group)...)
	if err != nil {
		return err
	}
	defer q.close()
	if group.Name == "" {
		return invalid("input_hash", "is required, or ipc_id, system_prompt_hash, output_hash, model or label:<name>, to select the runs")
	}
	group.Any = q.any
	found, next, err := runs.Timeline(q.ctx, q.view, group, q.page)
	if err != nil {
		return err
	}
	rows := make([]stepRow, len(found))
	for i, f := range found {
		rows[i] = stepRow{generationRow: generationRowOf(&f.IPCRecord), State: string(f.State), Against: f.Against,
			Differences: differencesOf(&f.Attribution)}
		if f.Against != nil {
			rows[i].Cause, rows[i].OutputChanged = &found[i].Cause, &found[i].OutputChanged
		}
	}
	return answerRows(q, rows, next)
}

// groupings are the names by which runs are grouped. The last stands for all labels.
var groupings = []string{"ipc_id", "input_hash", "system_prompt_hash", "output_hash", "model", "label:<name>"}

// groupParameters returns the names by which runs are grouped as query parameters. A request
// may give one of them.
func groupParameters(c echo.Context, group *groups.RunQuery) []parameter {
	names := slices.Clone(groupings)
	for name := range c.QueryParams() {
		if groups.Grouped(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var own []parameter
	for _, name := range names {
		own = append(own, parameter{name, func(value string) error {
			if group.Name != "" {
				return invalid(max(name, group.Name), "cannot be combined with %s: give one of them", min(name, group.Name))
			}
			group.Value = records.Value{Name: name, Text: value}
			return valueForm(name).check(name, value)
		}, valueForm(name) == anyForm})
	}
	return own
}
